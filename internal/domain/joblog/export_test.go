package joblog

import "context"

// SetLimits changes how much of a log is stored.
func (s *Service) SetLimits(head, tail int64) {
	s.limits = limits{head, tail, min(s.limits.small, head)}
}

// SetSmall changes how many bytes of a log are stored in the database.
func (s *Service) SetSmall(n int64) { s.limits.small = n }

// Seal seals the log of a job now.
func (s *Service) Seal(ctx context.Context, job Job) error { return s.seal(ctx, job) }

// Prefix returns the common prefix of the keys of a log's bytes.
func (j Job) Prefix() string { return j.prefix() }

// Settled reports whether the archive contained the whole log when it was opened.
func (l *Log) Settled() bool { return l.record.settled }

// Pieces returns the number of pieces of the log when it was opened.
func (l *Log) Pieces() int { return len(l.pieces) }

// ParsePosition parses the id of an event.
func ParsePosition(id string) (Position, bool) { return parsePosition(id) }
