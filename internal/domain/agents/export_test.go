package agents

import "context"

// Flush writes the presence of agents to the database.
func (s *Service) Flush(ctx context.Context) error { return s.flush(ctx) }

// OnTick shortens a wait so that it ends on the grid of pings.
var OnTick = onTick
