package oidc_test

import (
	"testing"

	"stackyard/internal/app/server/servertest"
)

type fields = map[string]any

// A runningBuild is a build whose first job runs.
type runningBuild struct{ *servertest.RunningBuild }

// whileRunning runs a test on each engine while the first job of a build with these steps runs.
func whileRunning(t *testing.T, steps []string, fn func(t *testing.T, w *runningBuild)) {
	servertest.EachRunning(t, steps, func(t *testing.T, b *servertest.RunningBuild) { fn(t, &runningBuild{b}) })
}
