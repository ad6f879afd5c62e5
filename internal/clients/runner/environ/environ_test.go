package environ

import (
	"maps"
	"slices"
	"testing"
)

func TestSet_KeepsBothNamesOfAServiceVariableTheSame(t *testing.T) {
	e := Environment{}
	e.Set("SERVICE_COMMAND", "make")
	e.Set("BUILDKITE_BRANCH", "main")
	e.Set("HOME", "/root")
	want := Environment{
		"SERVICE_COMMAND": "make", "BUILDKITE_COMMAND": "make",
		"SERVICE_BRANCH": "main", "BUILDKITE_BRANCH": "main",
		"HOME": "/root",
	}
	if !maps.Equal(e, want) {
		t.Errorf("got %v, want %v", e, want)
	}
	e.Delete("BUILDKITE_COMMAND")
	if e.Service("COMMAND") != "" || e.Service("BRANCH") != "main" {
		t.Errorf("after one was deleted: %v", e)
	}
}

func TestService_FallsBackToTheOtherName(t *testing.T) {
	if got := (Environment{"BUILDKITE_REPO": "b"}).Service("REPO"); got != "b" {
		t.Errorf("got %q", got)
	}
	if got := (Environment{"BUILDKITE_REPO": "b", "SERVICE_REPO": "s"}).Service("REPO"); got != "s" {
		t.Errorf("got %q", got)
	}
}

func TestApply_MakesWhatAScriptChanged(t *testing.T) {
	before := Environment{"A": "1", "B": "2", "SERVICE_COMMAND": "old", "BUILDKITE_COMMAND": "old", "SERVICE_TAG": "v1", "BUILDKITE_TAG": "v1"}
	after := Environment{"A": "1", "C": "3", "SERVICE_COMMAND": "old", "BUILDKITE_COMMAND": "new", "BUILDKITE_TAG": "v1"}
	e := maps.Clone(before)
	e.Apply(before.Diff(after))
	want := Environment{"A": "1", "C": "3", "SERVICE_COMMAND": "new", "BUILDKITE_COMMAND": "new"}
	if !maps.Equal(e, want) {
		t.Errorf("got %v, want %v", e, want)
	}
}

func TestApply_PrefersTheServicesOwnNameWhenBothChanged(t *testing.T) {
	e := Environment{}
	e.Apply(Change{Set: map[string]string{"BUILDKITE_COMMAND": "b", "SERVICE_COMMAND": "s"}})
	if e.Service("COMMAND") != "s" || e["BUILDKITE_COMMAND"] != "s" {
		t.Errorf("got %v", e)
	}
}

func TestParse_ReadsWhatLinesWrites(t *testing.T) {
	e := Environment{"A": "1=2", "B": "", "C": "two\nlines"}
	if got := Parse(e.Lines()); !maps.Equal(got, e) {
		t.Errorf("got %v", got)
	}
	if lines := e.Lines(); !slices.IsSorted(lines) {
		t.Errorf("lines %q", lines)
	}
	if got := Parse([]string{"=C:=x", "broken"}); len(got) != 0 {
		t.Errorf("got %v of lines without names", got)
	}
}
