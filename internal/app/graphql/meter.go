package graphql

import (
	"context"
	"math"
	"strings"

	"github.com/graph-gophers/graphql-go/errors"
	"github.com/graph-gophers/graphql-go/introspection"
	"github.com/graph-gophers/graphql-go/trace/tracer"

	"stackyard/internal/platform/core"
)

const (
	// maxExpanded limits the words of a query with its fragments in place, and with them its fields. The library also
	// collects an error for each one that it leaves out after a request was canceled.
	maxExpanded = 50_000
	// maxFields limits the fields of a result.
	maxFields = 25_000
)

// A meter counts the fields of a result and their depth while it is made. The library checks only the text of a query,
// where a few fragments and aliases can stand for millions of fields.
type meter struct{}

func (meter) TraceQuery(ctx context.Context, _, _ string, _ map[string]any, _ map[string]*introspection.Type) (context.Context, tracer.QueryFinishFunc) {
	return ctx, func([]*errors.QueryError) {}
}

type depthKey struct{}

func (meter) TraceField(ctx context.Context, _, _, _ string, _ bool, _ map[string]any) (context.Context, tracer.FieldFinishFunc) {
	depth, _ := ctx.Value(depthKey{}).(int)
	callsOf(ctx).countField(depth + 1)
	return context.WithValue(ctx, depthKey{}, depth+1), func(*errors.QueryError) {}
}

// countField cancels a request whose result is too large.
func (c *calls) countField(depth int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.fields++
	switch {
	case c.refusal != nil:
	case depth > maxDepth:
		c.refusal = core.Errorf(core.BadRequest, "the query is too deep; fields can be nested %d deep", maxDepth)
	case c.fields > maxFields:
		c.refusal = core.Errorf(core.BadRequest, "the query is too expensive; its result has more than %d fields", maxFields)
	default:
		return
	}
	c.cancel()
}

// expandedSize returns the most words that a query can have after its fragments are put in place, as the library does before
// it runs one: with n spreads, a fragment can be used in 3^(n/3) places. It counts words and spreads wherever they are, also
// in strings, so nothing can be hidden from it.
func expandedSize(query string) float64 {
	words := len(strings.FieldsFunc(query, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}))
	return float64(words) * math.Pow(3, float64(strings.Count(query, "..."))/3)
}
