package flow

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

// Retry creates and returns a new attempt of a job on behalf of a person.
func (r *Run) Retry(jobID string) (*Job, error) {
	j, err := r.job(jobID)
	if err != nil {
		return nil, err
	}
	if err := r.mayRetry(j); err != nil {
		return nil, err
	}
	next, err := r.retry(j, RetryManual, slices.Clone(j.RuleUses))
	if err != nil {
		return nil, err
	}
	return next, r.conclude()
}

// mayRetry returns nil if a person may retry the job, and otherwise the reason as an error.
func (r *Run) mayRetry(j *Job) error {
	s := r.steps[j.StepID]
	manual := definition.ManualRetry{Allowed: true}
	if s.Kind == definition.KindCommand {
		manual = s.Retry.Manual
	}
	err := MayRetry(r.build, j, manual)
	if err == nil && s.Phase == PhaseBroken {
		err = core.Errorf(core.Unprocessable, "This job cannot be retried, because its step depends on one that does not exist")
	}
	return err
}

// MayRetry returns nil if a person may retry a job of a build, and otherwise the reason as an error. It checks
// only the build, the job and the step's manual retry settings.
func MayRetry(b *Build, j *Job, manual definition.ManualRetry) error {
	switch {
	case b.State == BuildSkipped:
		return core.Errorf(core.Unprocessable, "Jobs from skipped builds cannot be retried")
	case b.State.halted():
		return core.Errorf(core.Unprocessable, "Jobs from canceled builds cannot be retried")
	case b.Orphaned:
		return core.Errorf(core.Unprocessable, "Jobs from builds that were triggered by a canceled build cannot be retried")
	case j.Retried:
		return core.Errorf(core.Unprocessable, "This job has already been retried")
	case j.Type != Script && j.Type != Trigger, !j.retryable() && !(j.Passed() && manual.PermitOnPassed):
		return core.Errorf(core.BadRequest, "Only failed, timed out or canceled jobs can be retried")
	case !manual.Allowed && manual.Reason != "":
		return core.Errorf(core.Unprocessable, "This job cannot be retried by hand: %s", manual.Reason)
	case !manual.Allowed:
		return core.Errorf(core.Unprocessable, "This job cannot be retried by hand, because its step does not allow it")
	}
	return nil
}

// retryable reports whether the job ended in a state that a retry can improve.
func (j *Job) retryable() bool {
	switch j.State {
	case Finished:
		return !j.Passed()
	case TimedOut, Canceled, Expired:
		return true
	}
	return false
}

// retry replaces a job with a new attempt.
func (r *Run) retry(j *Job, how RetryType, uses []int) (*Job, error) {
	s := r.steps[j.StepID]
	next := &Job{
		ID:           r.newID(),
		Type:         j.Type,
		SoftFail:     j.SoftFail,
		RetryOf:      j.ID,
		RetryType:    how,
		RetriesCount: j.RetriesCount + 1,
		RuleUses:     uses,
	}
	r.change(j, func() { j.Retried, j.RetriedIn = true, next.ID })
	r.addJob(s, next)
	r.markDirty(s)
	switch s.Phase {
	case PhaseOpen:
		return next, r.release(s, next)
	case PhaseStopped:
		return next, r.stop(s, next)
	}
	return next, r.await(s, next)
}

// retryAutomatically retries a failed job if an automatic retry rule of its step matches.
func (r *Run) retryAutomatically(j *Job, exit Exit) error {
	rule, ok := r.steps[j.StepID].retryRule(j, exit)
	if !ok {
		return nil
	}
	uses := make([]int, max(len(j.RuleUses), rule+1))
	copy(uses, j.RuleUses)
	uses[rule]++
	_, err := r.retry(j, RetryAutomatic, uses)
	return err
}

// retryRule returns the index of the automatic retry rule for a job that ends with exit. The first matching
// rule decides; if it is used up, the job is not retried.
func (s *Step) retryRule(j *Job, exit Exit) (int, bool) {
	if exit.Status == 0 {
		return 0, false
	}
	i := slices.IndexFunc(s.Retry.Automatic, func(rule definition.RetryRule) bool { return applies(rule, exit) })
	if i < 0 {
		return 0, false
	}
	used := 0
	if i < len(j.RuleUses) {
		used = j.RuleUses[i]
	}
	return i, used < s.Retry.Automatic[i].Limit
}

// applies reports whether all conditions of a rule match an exit.
func applies(rule definition.RetryRule, exit Exit) bool {
	status := !rule.ExitStatus.Any && len(rule.ExitStatus.Codes) == 0 || matches(rule.ExitStatus, exit.Status)
	signal := strings.TrimPrefix(strings.ToUpper(exit.Signal), "SIG")
	return status && matchesText(rule.Signal, signal) && matchesText(rule.SignalReason, exit.SignalReason)
}

// matchesText reports whether text matches a condition: empty matches anything, "*" any text but the empty one,
// "none" the empty text, and anything else itself.
func matchesText(condition, text string) bool {
	switch condition {
	case "":
		return true
	case "*":
		return text != ""
	case "none":
		return text == ""
	}
	return strings.EqualFold(condition, text)
}

// covers reports whether a soft_fail covers an exit status.
func covers(soft definition.SoftFail, status int) bool {
	return status != 0 && (soft.Always || matches(soft.ExitStatus, status))
}

// matches reports whether an exit status matches a condition.
func matches(e definition.ExitStatus, status int) bool {
	return e.Any && status != 0 || slices.Contains(e.Codes, status)
}
