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
	"time"

	"stackyard/internal/identity"
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
