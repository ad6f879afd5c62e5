package flow

import "stackyard/internal/platform/core"

// Promise: a running job declares the exit status, not zero, that it will end with. If the promise counts, the
// build is failing from then on, unless soft_fail or a rule of automatic retry covers that exit status. One
// that does not count is only recorded.
func (r *Run) Promise(jobID, holder string, status int, counts bool) error {
	return r.event(jobID, func(j *Job) error {
		if err := j.checkHolder(holder); err != nil {
			return err
		}
		switch {
		case j.Type != Script || j.State != Running:
			return core.Errorf(core.Unprocessable, "Only a command job that is running can promise an exit status")
		case j.PromisedExitStatus != nil && *j.PromisedExitStatus == status:
			return nil
		case j.PromisedExitStatus != nil:
			return core.Errorf(core.Conflict, "This job has already promised the exit status %d", *j.PromisedExitStatus)
		case status == 0:
			return core.Errorf(core.Unprocessable, "A promised exit status must not be zero")
		}
		_, retried := r.steps[j.StepID].retryRule(j, Exit{Status: status})
		r.change(j, func() {
			j.PromisedExitStatus, j.PromisedAt = &status, r.now
			j.PromiseIgnored = !counts
			j.PromiseFails = counts && !covers(j.SoftFail, status) && !retried
		})
		return nil
	})
}

// promiseOverrides reports whether a job is held to what it promised: it is unless it ends worse.
func promiseOverrides(j *Job, status int) bool {
	return j.PromisedExitStatus != nil && !j.PromiseIgnored && (status == 0 || covers(j.SoftFail, status))
}
