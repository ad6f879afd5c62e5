package bus

import "context"

// RunPoll polls until ctx ends.
func (b *Bus) RunPoll(ctx context.Context) { b.poll(ctx) }
