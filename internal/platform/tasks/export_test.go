package tasks

import "context"

// Glance asks once for tasks that nobody has told of.
func (r *Runner) Glance(ctx context.Context) error { return r.db.Read(ctx, r.glance) }
