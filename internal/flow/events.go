package flow

// Begin adds the steps of a new build and makes its first moves.
func (r *Run) Begin(specs []Spec) error { panic("not yet") }

// AddSteps adds the steps that a running job uploads, behind the job's step. What depends on that
// step depends on the new ones too. With replace, all that has not started yet makes way for them.
// A key that is taken, or steps that depend on each other, are refused with an error for a person.
func (r *Run) AddSteps(jobID string, specs []Spec, replace bool) error { panic("not yet") }

// Changes tells what the run has changed so far.
func (r *Run) Changes() Changes { panic("not yet") }

// Reserve: a stack holds a scheduled job.
func (r *Run) Reserve(jobID string) error { panic("not yet") }

// Return: a reservation ran out, or an agent did not accept in time; the job is scheduled again.
func (r *Run) Return(jobID string) error { panic("not yet") }

// Assign: a scheduled or reserved job is offered to an agent.
func (r *Run) Assign(jobID string) error { panic("not yet") }

// Accept: the agent took the job.
func (r *Run) Accept(jobID string) error { panic("not yet") }

// Start: the agent began to run the job.
func (r *Run) Start(jobID string) error { panic("not yet") }

// Finish: the job's process ended, its agent was lost, or its stack finished it. What it means
// depends on the state: a job that is canceling is then canceled, one that is timing out has timed
// out unless it passed. A failure that a rule covers is retried at once.
func (r *Run) Finish(jobID string, exit Exit) error { panic("not yet") }

// TimeOut: a running job has run for too long; its agent must stop it.
func (r *Run) TimeOut(jobID string) error { panic("not yet") }

// Expire: a scheduled job was not started in time.
func (r *Run) Expire(jobID string) error { panic("not yet") }

// Promise: a running job declares the exit status, not zero, that it will end with.
func (r *Run) Promise(jobID string, status int) error { panic("not yet") }

// Unblock: a person releases a blocked job.
func (r *Run) Unblock(jobID string) error { panic("not yet") }

// CancelJob ends a job, at once or, when an agent runs it, as soon as it has stopped.
func (r *Run) CancelJob(jobID string) error { panic("not yet") }

// CancelBuild ends all jobs of the build that have not ended.
func (r *Run) CancelBuild() error { panic("not yet") }

// SkipBuild ends a build that has not started, because a newer one makes it pointless.
func (r *Run) SkipBuild() error { panic("not yet") }

// Retry makes a new attempt of a job for a person, and returns it.
func (r *Run) Retry(jobID string) (*Job, error) { panic("not yet") }

// Schedule: a limiting or limited job was admitted to its concurrency group.
func (r *Run) Schedule(jobID string) error { panic("not yet") }

// Limit: a limiting job was not admitted and waits for its turn.
func (r *Run) Limit(jobID string) error { panic("not yet") }

// ChildCreated: the build of a scheduled trigger job exists. An asynchronous trigger has passed with
// that.
func (r *Run) ChildCreated(jobID string) error { panic("not yet") }

// ChildFinished: the build of a trigger job ended, or could not be created, which is a failure.
func (r *Run) ChildFinished(jobID string, passed bool) error { panic("not yet") }

// ChildSkipped: the build of a trigger job made way for a newer one on its branch.
func (r *Run) ChildSkipped(jobID string) error { panic("not yet") }
