package flow

// A Store fetches the records of one build. A run fetches each record at most once and caches it. Records that
// do not exist are left out of the result. Methods take many ids because a barrier can release many steps at
// once.
type Store interface {
	// Jobs returns jobs by id.
	Jobs(ids ...string) ([]*Job, error)
	// JobsOf returns the newest attempts (those not retried) of the jobs of steps.
	JobsOf(stepIDs ...string) ([]*Job, error)
	// Steps returns steps by id.
	Steps(ids ...string) ([]*Step, error)
	// StepsByKey returns the steps with one of the keys, without replaced ones.
	StepsByKey(keys ...string) ([]*Step, error)
	// Dependents returns the edges that depend on one of the steps.
	Dependents(stepIDs ...string) ([]Edge, error)
	// Missing returns the edges that wait for one of the keys.
	Missing(keys ...string) ([]Edge, error)
	// Unfinished returns the steps with Outcome "", including joins, by position. It is called only when all of
	// them are affected: cancel, replace, and a stuck build.
	Unfinished() ([]*Step, error)
	// CancelOnFailing returns the steps with CancelOnBuildFailing and Outcome "".
	CancelOnFailing() ([]*Step, error)
	// Between returns the steps of a scope with a position, compared by bytes, between two others, without
	// joins. It is called only when a wait or block step is uploaded.
	Between(scope, after, before string) ([]*Step, error)
	// LastInGroup returns the last step of a concurrency group before a position, or nil.
	LastInGroup(concurrencyGroup, before string) (*Step, error)
}
