package flow

import "stackyard/internal/platform/core"

// Promise records the non-zero exit status that a running job declares in advance. If the promise counts, the
// build is failing from now on, unless soft_fail or an automatic retry rule covers that exit status.
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

// promiseOverrides reports whether the job's promise replaces its real exit status: it does unless the job ends
// with a worse one.
func promiseOverrides(j *Job, status int) bool {
	return j.PromisedExitStatus != nil && !j.PromiseIgnored && (status == 0 || covers(j.SoftFail, status))
}
