package agents_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// jobRoutes returns the routes that accept job tokens.
func jobRoutes(s *servertest.Server) []route.Route {
	var routes []route.Route
	for _, r := range s.Routes() {
		if r.Auth == route.Job {
			routes = append(routes, r)
		}
	}
	return routes
}

// fill returns the path of a route for a job and a build.
func fill(path, job, build string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case segment == "{job}":
			segments[i] = job
		case segment == "{build}":
			segments[i] = build
		case strings.HasPrefix(segment, "{"):
			segments[i] = core.NewID()
		}
	}
	return strings.Join(segments, "/")
}

func TestJobToken_ReachesItsOwnJobAndBuildAlone(t *testing.T) {
	servertest.EachRunning(t, []string{"{command: a, key: first}", "{command: b, key: second}"}, func(t *testing.T, w *servertest.RunningBuild) {
		neighbor := w.Show().String("jobs.1.id")
		build, job := w.CreateBuild()
		w.StartJob(neighbor)
		w.StartJob(job)
		for _, r := range jobRoutes(w.Server) {
			if strings.Contains(r.Path, "{job}") {
				for _, other := range []string{neighbor, job, core.NewID()} {
					w.Do(r.Method, fill(r.Path, other, ""), nil).Want(http.StatusForbidden)
				}
				w.Do(r.Method, fill(r.Path, "not-an-id", ""), nil).Want(http.StatusNotFound)
			}
			if strings.Contains(r.Path, "{build}") {
				for _, other := range []string{build, core.NewID()} {
					w.Do(r.Method, fill(r.Path, "", other), nil).Want(http.StatusForbidden)
				}
				w.Do(r.Method, fill(r.Path, "", "not-an-id"), nil).Want(http.StatusNotFound)
			}
		}
	})
}

func TestJobToken_DoesNotSpeakForItsAgent(t *testing.T) {
	servertest.EachRunning(t, nil, func(t *testing.T, w *servertest.RunningBuild) {
		for _, r := range w.Routes() {
			if r.Auth == route.Session {
				w.Do(r.Method, fill(r.Path, w.Job.ID, w.Build), nil).Want(http.StatusForbidden)
			}
		}
	})
}

// late are the path suffixes that accept requests for a while after the job has ended.
var late = []string{"/chunks", "/header_times", "/finish"}

func TestJobToken_IsGoodForNothingWhenTheJobHasEnded(t *testing.T) {
	servertest.EachRunning(t, []string{"{command: a, key: first}", "{command: b, key: second}"}, func(t *testing.T, w *servertest.RunningBuild) {
		w.Finish("0")
	routes:
		for _, r := range jobRoutes(w.Server) {
			for _, end := range late {
				if strings.HasSuffix(r.Path, end) {
					continue routes
				}
			}
			w.Do(r.Method, fill(r.Path, w.Job.ID, w.Build), nil).Want(http.StatusUnauthorized)
		}
	})
}

func TestJobToken_OfAnotherKindIsUnknown(t *testing.T) {
	servertest.EachRunning(t, nil, func(t *testing.T, w *servertest.RunningBuild) {
		for _, r := range jobRoutes(w.Server) {
			for _, token := range []string{"", "svcaj_", "svcaj_AAAA", servertest.AcmeAgent, servertest.Ada} {
				w.AsAgent(t, token).Do(r.Method, fill(r.Path, w.Job.ID, w.Build), nil).Want(http.StatusUnauthorized)
			}
		}
	})
}
