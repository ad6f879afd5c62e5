package bus

import "context"

// RunPoll polls from time to time until ctx is done.
func (b *Bus) RunPoll(ctx context.Context) { b.poll(ctx) }
