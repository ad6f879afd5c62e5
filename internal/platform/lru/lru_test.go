package lru_test

import (
	"slices"
	"testing"

	"stackyard/internal/platform/lru"
)

func TestAdd_EvictsTheLeastRecentlyUsed(t *testing.T) {
	c := lru.New[string, int](2)
	c.Add("a", 1)
	c.Add("b", 2)
	c.Get("a")
	if evicted, ok := c.Add("c", 3); !ok || evicted != 2 {
		t.Errorf("evicted %d, %t; want 2", evicted, ok)
	}
	if _, ok := c.Get("b"); ok {
		t.Error("b is still there")
	}
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Errorf("a is %d, %t", v, ok)
	}
	if c.Len() != 2 {
		t.Errorf("%d entries", c.Len())
	}
}

func TestAdd_ReplacesTheValueOfAKey(t *testing.T) {
	c := lru.New[string, int](2)
	c.Add("a", 1)
	if replaced, ok := c.Add("a", 2); !ok || replaced != 1 {
		t.Errorf("replaced %d, %t; want 1", replaced, ok)
	}
	if v, _ := c.Get("a"); v != 2 || c.Len() != 1 {
		t.Errorf("a is %d of %d entries", v, c.Len())
	}
}

func TestClear_ReturnsAllValues(t *testing.T) {
	c := lru.New[string, int](2)
	c.Add("a", 1)
	c.Add("b", 2)
	if got := c.Clear(); !slices.Equal(got, []int{2, 1}) {
		t.Errorf("cleared %v", got)
	}
	if _, ok := c.Get("a"); ok || c.Len() != 0 {
		t.Error("the cache is not empty")
	}
}
