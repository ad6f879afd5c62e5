package accountpages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/identity"
)

// Every scope has a description, except those that only other products use.
func TestScopeGroups_DescribeEveryScope(t *testing.T) {
	var worded []identity.Scope
	for _, group := range scopeGroups {
		for _, w := range group.Scopes {
			if !w.Scope.Valid() || w.Text == "" || slices.Contains(worded, w.Scope) {
				t.Errorf("%s is not a scope, has no text or occurs twice", w.Scope)
			}
			if writes := strings.HasPrefix(string(w.Scope), "write_"); writes != w.Changes {
				t.Errorf("%s changes things: %v", w.Scope, w.Changes)
			}
			worded = append(worded, w.Scope)
		}
	}
	for _, s := range identity.AllScopes {
		elsewhere := s == "graphql" || strings.HasSuffix(string(s), "_registries") || strings.HasSuffix(string(s), "_packages") || strings.HasSuffix(string(s), "_portals")
		if slices.Contains(worded, s) == elsewhere {
			t.Errorf("%s has a text: %v", s, !elsewhere)
		}
	}
}

func TestDescribeScopes(t *testing.T) {
	for _, c := range []struct {
		scopes identity.Scopes
		want   string
	}{
		{identity.Scopes{"*"}, "{Everything:true All:false Changes:[] Sees:[] Unused:[]}"},
		{identity.Scopes{"read_user", "write_builds", "graphql"}, "{Everything:false All:false Changes:[{Scope:write_builds Text:Start, cancel, rebuild, retry and unblock builds and jobs Changes:true}] Sees:[{Scope:read_user Text:See your name and email Changes:false}] Unused:[graphql]}"},
	} {
		if got := fmt.Sprintf("%+v", describeScopes(c.scopes)); got != c.want {
			t.Errorf("%v: %s, want %s", c.scopes, got, c.want)
		}
	}
	if !describeScopes(identity.AllScopes).All {
		t.Error("all scopes are not everything")
	}
}
