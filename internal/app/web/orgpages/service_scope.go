package orgpages

import (
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// scopePickers find what scopes select, by name.
var scopePickers = map[notifications.Scope]pages.Picker{
	notifications.SomeProjects: pages.PickPipeline, notifications.ExcludeProjects: pages.PickPipeline,
	notifications.SomeTeams: pages.PickTeam, notifications.SomeClusters: pages.PickCluster,
}

// maxScopeNames bounds how many names of a form are looked up.
const maxScopeNames = 50

// within returns the visit as one of pages of an organization.
func within(v *pages.Visit, org pages.Membership) *pages.Visit {
	request := *v.Request
	request.Org, request.Member = &org.Organization, v.Caller.Membership(org.ID)
	inner := *v
	inner.Request = &request
	return &inner
}

// scopeIDs returns the ids of what was entered, one on each line. Those that are not found stay, and are refused.
func scopeIDs(v *pages.Visit, org pages.Membership, scope notifications.Scope, entered string) ([]string, error) {
	var ids []string
	picker, names := scopePickers[scope], 0
	for line := range strings.Lines(entered) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !isID(line) && names < maxScopeNames && picker != (pages.Picker{}) {
			names++
			id, _, err := picker.Find(within(v, org), line)
			if err != nil {
				return nil, err
			}
			if id != "" {
				line = id
			}
		}
		ids = append(ids, line)
	}
	return ids, nil
}

// scopeNames returns the names of what a service is about, one on each line; ids where there is none.
func scopeNames(v *pages.Visit, org pages.Membership, r *notifications.Receiver) (string, error) {
	if len(r.ScopeIDs) == 0 {
		return "", nil
	}
	names, err := scopePickers[r.Scope].Names(within(v, org))
	if err != nil {
		return "", err
	}
	lines := make([]string, len(r.ScopeIDs))
	for i, id := range r.ScopeIDs {
		if lines[i] = names[id]; lines[i] == "" {
			lines[i] = id
		}
	}
	return strings.Join(lines, "\n"), nil
}

func isID(text string) bool {
	_, ok := core.ParseID(text)
	return ok
}
