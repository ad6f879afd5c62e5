// Package clusters manages an organization's clusters with their queues, agent tokens, secrets and maintainers.
//
// A cluster is a boundary inside an organization: a pipeline belongs to one cluster, an agent registers into
// one cluster with its token, and a job reaches only agents, queues and secrets of its pipeline's cluster. This
// package also decides who can change a cluster: administrators, members with the permission to manage
// clusters, and the cluster's maintainers.
//
// Each resource has its own files: queues.go and shapes.go, tokens.go, secrets.go and policy.go,
// maintainers.go, each with its _store.go and _http.go. This package does not dispatch jobs; package dispatch
// respects the paused mark of a queue.
package clusters

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Cluster is a part of an organization with its own queues, agents and secrets.
type Cluster struct {
	ID             string
	OrganizationID string
	Name           string // unique in the organization
	Description    string
	Emoji          string // "": none
	Color          string // "": none
	Default        bool   // the cluster of new pipelines; at most one in an organization
	Hosted         bool   // the service runs the agents of all its queues
	DefaultQueueID string // "": none; jobs and agents that name no queue have none then
	GitMirror      bool   // hosted agents clone through a mirror
	ContainerCache bool   // hosted agents cache container layers
	CreatedBy      *identity.User
	CreatedAt      time.Time
}

// Limits on texts, in characters.
const (
	maxName        = 255
	maxDescription = 2048
)

// check reports errors in the fields that callers set.
func (c *Cluster) check(problems *core.Problems) {
	checkText(problems, "name", c.Name, maxName)
	if strings.TrimSpace(c.Name) == "" {
		problems.Add("name", "is required")
	}
	checkText(problems, "description", c.Description, maxDescription)
	if c.Emoji != "" && !core.ValidEmoji(c.Emoji) {
		problems.Add("emoji", "must be an emoji, or the name of one between colons, such as :rocket:")
	}
	if c.Color != "" && !core.ValidColor(c.Color) {
		problems.Add("color", "must be a color in hex, such as #A9CCE3")
	}
}

func checkText(problems *core.Problems, field, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		problems.Add(field, "must have at most %d characters, not %d", most, n)
	}
}

// maintained is a cluster with its maintainers, which decide who can change it.
type maintained struct {
	Cluster
	maintainers []Maintainer
}

// Permits reports whether the caller has a permission on the cluster or on anything in it, either in the
// organization or as a maintainer of the cluster.
func (m maintained) Permits(r *route.Request, p identity.Permission) bool {
	if r.Member.Can(p, r.Org) {
		return true
	}
	return p == identity.ManageClusters && slices.ContainsFunc(m.maintainers, func(by Maintainer) bool {
		return by.includes(&r.Caller.User, r.Member)
	})
}

// A resource is something in a cluster, loaded with the cluster, which decides who can change it.
type resource[T any] struct {
	maintained
	item T
}
