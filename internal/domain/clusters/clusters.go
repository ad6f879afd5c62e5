// Package clusters keeps an organization's clusters and all that is in them: queues, the tokens that
// agents register with, secrets for jobs, and the maintainers who may change it all.
//
// A cluster is the wall inside of an organization. Pipelines belong to one, agents register into one
// with its token, and a job of a pipeline reaches only agents, queues and secrets of its own cluster.
// Who may change a cluster is decided here too: administrators, members who may manage clusters, and
// the cluster's maintainers.
//
// Each part has its own files: queues.go and shapes.go, tokens.go, secrets.go and policy.go,
// maintainers.go, each with its _store.go and _http.go. What runs on queues is not here; pausing a
// queue is a mark that dispatching obeys.
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

// A Cluster is a part of an organization with queues, agents and secrets of its own.
type Cluster struct {
	ID             string
	OrganizationID string
	Name           string // unique in the organization
	Description    string
	Emoji          string // "": none
	Color          string // "": none
	Default        bool   // new pipelines get it; at most one of an organization is
	Hosted         bool   // the service itself runs the agents of all its queues
	DefaultQueueID string // "": none; jobs and agents that name no queue have none then
	GitMirror      bool   // hosted agents clone through a mirror
	ContainerCache bool   // hosted agents keep container layers
	CreatedBy      *identity.User
	CreatedAt      time.Time
}

// The longest texts, in characters.
const (
	maxName        = 255
	maxDescription = 2048
)

// check notes what is wrong with what people say about a cluster.
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

// maintained is a cluster together with its maintainers: what it takes to know who may change it.
type maintained struct {
	Cluster
	maintainers []Maintainer
}

// Permits reports whether the request's caller may do something to the cluster or to anything in it:
// by a permission in the organization, or as one of its maintainers.
func (m maintained) Permits(r *route.Request, p identity.Permission) bool {
	if r.Member.Can(p, r.Org) {
		return true
	}
	return p == identity.ManageClusters && slices.ContainsFunc(m.maintainers, func(by Maintainer) bool {
		return by.is(&r.Caller.User, r.Member)
	})
}

// part is something in a cluster, loaded together with its cluster, which decides who may change it.
type part[T any] struct {
	maintained
	it T
}
