package builds_test

import (
	"testing"

	"stackyard/internal/domain/builds/buildstest"
)

const (
	acme  = buildstest.Acme
	hello = buildstest.Hello
)

type world struct{ *buildstest.World }

// each runs a test with a fresh world on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	buildstest.Each(t, func(t *testing.T, w *buildstest.World) { fn(t, &world{w}) })
}
