package testresults

import (
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// manageRoutes are the routes with which people manage tests: labels, and whether tests run and count.
func (s *Service) manageRoutes() []route.Route {
	const tag, one = "Test results", testsPath + "/{test}"
	routes := []route.Route{{
		Method: http.MethodPatch, Path: one + "/labels", Tag: tag, Summary: "Add or remove labels of a test",
		Description: "Removing the label flaky also forgets that the test was found to be flaky, until it is found again.",
		Scope:       identity.WriteSuites, Permission: identity.EditSuite,
		Errors:  []int{http.StatusUnprocessableEntity},
		Handler: route.OnBody(s.loadTest, s.patchLabels),
	}}
	for _, change := range []struct {
		path, summary, description string
		state                      TestState
	}{
		{"/mute", "Mute a test", "It still runs, but clients that ask for muted tests ignore its failures.", Muted},
		{"/skip", "Skip a test", "Clients that ask for skipped tests do not run it.", SkippedTest},
		{"/enable", "Enable a test", "Ends muting or skipping it.", Enabled},
	} {
		routes = append(routes, route.Route{
			Method: http.MethodPut, Path: one + change.path, Tag: tag, Summary: change.summary, Description: change.description,
			Scope: identity.WriteSuites, Permission: identity.EditSuite,
			Handler: route.On(s.loadTest, func(r *route.Request, o onTest) (testView, error) { return s.putState(r, o, change.state) }),
		})
	}
	for _, state := range []TestState{Muted, SkippedTest} {
		routes = append(routes, route.Route{
			Method: http.MethodGet, Path: testsPath + "/" + string(state), Tag: tag, Summary: "List the " + string(state) + " tests of a suite",
			Description: "By scope and name.",
			Scope:       identity.ReadSuites,
			Query:       route.PageParams,
			Handler: route.On(s.suites.Load, func(r *route.Request, suite *suites.Suite) (route.Paged[testView], error) {
				return s.listManaged(r, suite, state)
			}),
		})
	}
	return routes
}

// Permits reports whether the caller can edit the suite of the test.
func (o onTest) Permits(r *route.Request, p identity.Permission) bool { return o.suite.Permits(r, p) }

type labelsChange struct {
	Operator string   `json:"operator" doc:"add or remove."`
	Labels   []string `json:"labels"`
}

// The bounds of labels.
const (
	maxLabel  = 100 // bytes
	maxLabels = 50  // of a test
)

// check returns the labels, trimmed and each once, or an error with all problems.
func (c labelsChange) check() (labels []string, err error) {
	var problems core.Problems
	if c.Operator != "add" && c.Operator != "remove" {
		problems.Add("operator", "must be add or remove")
	}
	for _, label := range c.Labels {
		label = strings.TrimSpace(label)
		switch {
		case label == "" || len(label) > maxLabel || strings.ContainsAny(label, ",\n") || strings.HasPrefix(label, "!"):
			problems.Add("labels", "must have 1 to %d bytes, no commas and no ! at the beginning; %.50q is not such a label", maxLabel, label)
		case !slices.Contains(labels, label):
			labels = append(labels, label)
		}
	}
	if len(c.Labels) == 0 || len(labels) > maxLabels {
		problems.Add("labels", "must be 1 to %d labels", maxLabels)
	}
	return labels, problems.Err()
}

func (s *Service) patchLabels(r *route.Request, o onTest, body labelsChange) (v testView, err error) {
	labels, err := body.check()
	if err != nil {
		return v, err
	}
	var t Test
	err = s.results.Write(r.Context(), func(q *db.Q) error {
		if err := q.Lock("tests", o.ID); err != nil {
			return err
		}
		if body.Operator == "add" {
			err = addLabels(q, o.suite.ID, o.ID, labels)
		} else {
			err = removeLabels(q, o.ID, labels)
		}
		if err != nil {
			return err
		}
		if t, err = testByID(q, o.suite.ID, o.ID); err == nil && len(t.Labels) > maxLabels {
			return core.Problems{{Field: "labels", Code: "would be more than a test can have, which is 50"}}.Err()
		}
		return err
	})
	return s.testView(r.Org, o.suite, t), err
}

func (s *Service) putState(r *route.Request, o onTest, state TestState) (testView, error) {
	err := s.results.Write(r.Context(), func(q *db.Q) error {
		_, err := q.Exec(`UPDATE tests SET state = $2 WHERE id = $1`, o.ID, string(state))
		return err
	})
	o.State = state
	return s.testView(r.Org, o.suite, o.Test), err
}

func (s *Service) listManaged(r *route.Request, suite *suites.Suite, state TestState) (none route.Paged[testView], err error) {
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	var tests []Test
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		tests, err = listTests(q, suite.ID, testFilter{state: state}, page.More(), page.Offset())
		return err
	})
	return route.MapMore(tests, page, func(t Test) testView { return s.testView(r.Org, suite, t) }), err
}
