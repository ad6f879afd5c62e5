package hosted

import (
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// An access is a kind of remote session.
type access struct {
	name      string
	platforms []clusters.Platform // that support it
}

var (
	vnc = access{"VNC", []clusters.Platform{clusters.MacOS}}
	ssh = access{"SSH", []clusters.Platform{clusters.MacOS, clusters.Linux}}
)

// check returns an error unless the organization allows remote access and the job runs on a machine that
// supports this access.
func (a access) check(q *db.Q, org *identity.Organization, j *builds.Job) error {
	set, err := settings.Of(q, org.ID)
	switch {
	case err != nil:
		return err
	case !org.Features.HostedAgents:
		return core.Errorf(core.NotFound, "%s access is unavailable: the organization has no hosted agents", a.name)
	case !set.TerminalAccess.Enabled():
		return core.Errorf(core.NotFound, "%s access is unavailable: the organization's pipeline settings do not allow remote access to hosted agents", a.name)
	}
	platform, err := clusters.PlatformOf(q, org.ID, j.QueueID)
	if err == nil && (j.Type != flow.Script || j.State != flow.Running || !slices.Contains(a.platforms, platform)) {
		err = core.Errorf(core.Unprocessable, "%s access needs a running command job on a hosted agent with %s", a.name, a.systems())
	}
	return err
}

// systems names the platforms that support the access.
func (a access) systems() string {
	names := map[clusters.Platform]string{clusters.MacOS: "macOS", clusters.Linux: "Linux"}
	list := make([]string, len(a.platforms))
	for i, p := range a.platforms {
		list[i] = names[p]
	}
	return strings.Join(list, " or ")
}
