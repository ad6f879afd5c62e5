package bus

import "context"

// Poll asks from time to time for what other replicas did not tell, until ctx is done.
func (b *Bus) Poll(ctx context.Context) { b.poll(ctx) }
