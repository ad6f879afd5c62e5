package tasks

import "context"

// Poll checks once for tasks whose notification was lost.
func (r *Runner) Poll(ctx context.Context) error { return r.db.Read(ctx, r.poll) }
