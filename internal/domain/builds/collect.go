package builds

import (
	"maps"
	"slices"
)

// distinct returns the different values of a field of items.
func distinct[T any](items []T, of func(T) string) []string {
	seen := make(map[string]bool, len(items))
	for _, item := range items {
		seen[of(item)] = true
	}
	return keys(seen)
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }
