package joblog

import "context"

// SetLimits changes how much of a log is kept.
func (s *Service) SetLimits(head, tail int64) { s.limits = limits{head, tail} }

// Seal seals the log of a job now.
func (s *Service) Seal(ctx context.Context, job Job) error { return s.seal(ctx, job) }

// Prefix is what the keys of all bytes of the log begin with.
func (j Job) Prefix() string { return j.prefix() }

// Settled reports whether all of the log was in its archive when it was opened.
func (l *Log) Settled() bool { return l.record.settled }

// Pieces returns how many pieces the log was in when it was opened.
func (l *Log) Pieces() int { return len(l.loose) }

// ParsePosition reads the id of an event.
func ParsePosition(id string) (Position, bool) { return parsePosition(id) }
