package buildpages

import (
	"errors"
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

func (s *Site) cancelBuild(v *pages.Visit) error {
	o, err := s.buildWith(v, identity.BuildPipeline)
	if err != nil {
		return err
	}
	if err := s.Builds.Cancel(v.Context(), v.Org.ID, o.ID, ""); err != nil {
		return s.refused(v, o, err, actionError{})
	}
	return v.Done(PathOf(v.Org, o.Pipeline.Slug, o.Number), "Canceling build.")
}

func (s *Site) rebuild(v *pages.Visit) error {
	o, err := s.buildWith(v, identity.BuildPipeline)
	if err != nil {
		return err
	}
	user := v.User()
	rebuilt, err := s.Builds.Rebuild(v.Context(), o, builds.FromUI, &user)
	if err != nil {
		return s.refused(v, o, err, actionError{})
	}
	return v.Done(PathOf(v.Org, o.Pipeline.Slug, rebuilt.Number), "Build created.")
}

func (s *Site) retryFailed(v *pages.Visit) error {
	o, err := s.buildWith(v, identity.BuildPipeline)
	if err != nil {
		return err
	}
	user := v.User()
	n, err := s.Builds.RetryFailed(v.Context(), o.Build, &user)
	if err != nil {
		return s.refused(v, o, err, actionError{})
	}
	return v.Done(PathOf(v.Org, o.Pipeline.Slug, o.Number), pages.Count(n, "job")+" retried.")
}

func (s *Site) retryJob(v *pages.Visit) error {
	o, err := s.jobWith(v, identity.BuildPipeline)
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	user, retry, message := v.User(), s.Builds.Retry, "Retrying job."
	if form.Get("debug") == "true" {
		if err := s.Remote.CheckDebug(v.Context(), v.Org, v.Member, o.Job); err != nil {
			return s.refused(v, buildOf(o), err, actionError{JobID: o.ID})
		}
		retry, message = s.Builds.RetryForDebugging, "Retrying job. If it fails, you can open a shell in it for 30 minutes."
	}
	next, err := retry(v.Context(), v.Org.ID, o.ID, &user)
	if err != nil {
		return s.refused(v, buildOf(o), err, actionError{JobID: o.ID})
	}
	return v.Done(jobPath(v, o, next.ID), message)
}

func (s *Site) cancelJob(v *pages.Visit) error {
	o, err := s.jobWith(v, identity.BuildPipeline)
	if err != nil {
		return err
	}
	if err := s.Builds.CancelJob(v.Context(), v.Org.ID, o.ID); err != nil {
		return s.refused(v, buildOf(o), err, actionError{JobID: o.ID})
	}
	return v.Done(jobPath(v, o, o.ID), "Canceling job.")
}

func (s *Site) unblockJob(v *pages.Visit) error {
	o, err := s.jobWith(v, identity.UnblockJob)
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	values := entered(o.Job, form)
	if err := s.Builds.Unblock(v.Context(), o.Job, v.User().ID, joined(values)); err != nil {
		return s.refused(v, buildOf(o), err, actionError{JobID: o.ID, Values: values})
	}
	return v.Done(PathOf(v.Org, o.Pipeline.Slug, o.Build.Number)+"#"+o.ID, "Unblocked.")
}

func buildOf(o builds.OnJob) builds.OnBuild {
	return builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}
}

// jobPath returns the path of a build's page with a job open.
func jobPath(v *pages.Visit, o builds.OnJob, id string) string {
	return PathOf(v.Org, o.Pipeline.Slug, o.Build.Number) + "?job=" + id + "#" + id
}

// refused shows the current build and why an action on it failed.
func (s *Site) refused(v *pages.Visit, o builds.OnBuild, err error, t actionError) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unprocessable && e.Kind != core.BadRequest && e.Kind != core.Conflict {
		return err
	}
	t.Message = e.Message
	if wrong, ok := pages.ProblemsOf(err); ok && len(e.Fields) > 0 {
		t.Message, t.Fields = "Not unblocked. Fix the fields marked below.", wrong
	}
	if now, err := s.Builds.LoadOnBuild(v.Request); err == nil {
		o = now // it may have changed since it was loaded
	}
	return s.showBuild(v, http.StatusUnprocessableEntity, o, t)
}
