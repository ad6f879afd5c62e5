package flow

// A Store fetches the records of one build. A run asks for each record at most once and keeps it;
// what is asked for and does not exist is left out of the answer. Lists take many ids because a
// barrier can release many steps at once.
type Store interface {
	// Jobs returns jobs by id.
	Jobs(ids ...string) ([]*Job, error)
	// JobsOf returns the newest attempts (those not retried) of the jobs of steps.
	JobsOf(stepIDs ...string) ([]*Job, error)
	// Steps returns steps by id.
	Steps(ids ...string) ([]*Step, error)
	// StepsByKey returns the steps that have one of the keys and are not replaced.
	StepsByKey(keys ...string) ([]*Step, error)
	// Dependents returns the edges that lead to steps which depend on one of the steps.
	Dependents(stepIDs ...string) ([]Edge, error)
	// Missing returns the edges that wait for a step with one of the keys to be added.
	Missing(keys ...string) ([]Edge, error)
	// Unfinished returns the steps that have Outcome "", joins included, in order of position. It
	// is asked for only where all of them are concerned: cancel, replace, and a build that is stuck.
	Unfinished() ([]*Step, error)
	// CancelOnFailing returns the steps with CancelOnBuildFailing and Outcome "".
	CancelOnFailing() ([]*Step, error)
	// Between returns the steps of a scope with a position, compared by bytes, after one and before
	// another, joins left out. It is asked for only when a wait or block step is uploaded.
	Between(scope, after, before string) ([]*Step, error)
	// LastInGroup returns the last step before a position that has that concurrency group, or nil.
	LastInGroup(concurrencyGroup, before string) (*Step, error)
}
