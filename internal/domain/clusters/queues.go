package clusters

import (
	"context"
	"regexp"
	"slices"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// maxQueues limits the queues of a cluster.
const maxQueues = 50

// A Queue holds jobs of a cluster that wait for agents of one kind.
type Queue struct {
	ID              string
	ClusterID       string
	Key             string // unique in the cluster, immutable
	Description     string
	RetryAffinity   RetryAffinity
	Hosted          *HostedAgents // nil: self-hosted, unless the cluster is hosted
	inHostedCluster bool
	PausedAt        time.Time // zero: not paused
	PausedBy        *identity.User
	PausedNote      string
	PolledAt        time.Time // last recorded poll by a stack; zero: never
	CreatedBy       *identity.User
	CreatedAt       time.Time
}

// Connection is whether any stack polls the queue for scheduled jobs.
type Connection string

const (
	NeverConnected Connection = "never_connected"
	Connected      Connection = "connected"
	Disconnected   Connection = "disconnected"
)

// Values lists all values.
func (Connection) Values() []string {
	return []string{string(NeverConnected), string(Connected), string(Disconnected)}
}

// connectionTimeout is how long a poll keeps a queue connected. The specification says five to six minutes;
// polls are recorded in batches, a few seconds early or late, which stays within that range.
const connectionTimeout = 5*time.Minute + 30*time.Second

// connection returns the queue's connection at a time.
func (q *Queue) connection(now time.Time) Connection {
	switch {
	case q.PolledAt.IsZero():
		return NeverConnected
	case now.Sub(q.PolledAt) <= connectionTimeout:
		return Connected
	default:
		return Disconnected
	}
}

// RetryAffinity is which agent of a queue a retried job prefers.
type RetryAffinity string

const (
	PreferWarmest   RetryAffinity = "prefer-warmest"   // the agent that finished a job most recently
	PreferDifferent RetryAffinity = "prefer-different" // any agent other than the one that ran the job before
)

// Values lists all values.
func (RetryAffinity) Values() []string {
	return []string{string(PreferWarmest), string(PreferDifferent)}
}

var queueKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// defaultQueueAliases are keys that stacks use for a cluster's default queue. No queue can have them.
var defaultQueueAliases = []string{"__default__", "_default", "~", "-"}

// IsDefaultQueue reports whether stacks use key for a cluster's default queue.
func IsDefaultQueue(key string) bool { return slices.Contains(defaultQueueAliases, key) }

// queueKeyRule returns the rule that a queue's key breaks, or "".
func queueKeyRule(key string) string {
	switch {
	case key == "":
		return "is required"
	case slices.Contains(defaultQueueAliases, key):
		return "cannot be " + key + ", which stands for the default queue of a cluster"
	case !queueKeyPattern.MatchString(key):
		return "must have only letters, digits, hyphens and underscores"
	case len(key) > maxName:
		return "is too long"
	default:
		return ""
	}
}

// check reports errors in the fields that callers set.
func (q *Queue) check(problems *core.Problems) {
	if rule := queueKeyRule(q.Key); rule != "" {
		problems.Add("key", "%s", rule)
	}
	checkText(problems, "description", q.Description, maxDescription)
	if !slices.Contains(q.RetryAffinity.Values(), string(q.RetryAffinity)) {
		problems.Add("retry_agent_affinity", "must be %s or %s", PreferWarmest, PreferDifferent)
	}
}

// hosting returns the hosted agents of the queue, or nil if it is self-hosted. A queue is hosted if it or its
// cluster says so.
func (q *Queue) hosting() *HostedAgents {
	if q.Hosted == nil && q.inHostedCluster {
		return defaultHostedAgents(Linux)
	}
	return q.Hosted
}

// pause stops the dispatch of jobs to the queue's agents.
func (q *Queue) pause(by *identity.User, note string, now time.Time) error {
	if !q.PausedAt.IsZero() {
		return core.Errorf(core.Unprocessable, "Cluster queue is already paused")
	}
	q.PausedAt, q.PausedBy, q.PausedNote = now, by, note
	return nil
}

// resume allows dispatch again.
func (q *Queue) resume() error {
	if q.PausedAt.IsZero() {
		return core.Errorf(core.Unprocessable, "Cluster queue is not paused")
	}
	q.PausedAt, q.PausedBy, q.PausedNote = time.Time{}, nil, ""
	return nil
}

// createQueue adds a queue to a cluster, within the limit of queues. Its key must be unique.
func (s *Service) createQueue(ctx context.Context, c Cluster, queue Queue) (Queue, error) {
	err := s.db.Write(ctx, func(q *db.Q) error {
		c, err := Lock(q, c.OrganizationID, c.ID)
		if err != nil {
			return err
		}
		if err := s.checkImageOf(q, c, Queue{}, queue); err != nil {
			return err
		}
		n, err := countQueues(q, c.ID)
		if err != nil {
			return err
		}
		if n >= maxQueues {
			return core.Errorf(core.Unprocessable, "A cluster can have at most %d queues", maxQueues)
		}
		if err := insertQueue(q, queue); err != nil {
			return err
		}
		queue, err = queueByID(q, c.ID, queue.ID)
		return err
	})
	return queue, uniqueError(err, "key")
}

// changeQueue applies change to a queue while holding the lock of the cluster.
func (s *Service) changeQueue(ctx context.Context, p resource[Queue], change func(*Queue) error) (queue Queue, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		c, err := Lock(q, p.OrganizationID, p.ID)
		if err != nil {
			return err
		}
		if queue, err = queueByID(q, p.ID, p.item.ID); err != nil {
			return err
		}
		before := queue
		if err = change(&queue); err != nil {
			return err
		}
		if err := s.checkImageOf(q, c, before, queue); err != nil {
			return err
		}
		q.Announce(dispatch.Topic(queue.ID)) // item may have been resumed
		return updateQueue(q, queue)
	})
	return queue, err
}

// removeQueue deletes a queue unless it is the default queue of its cluster.
func (s *Service) removeQueue(ctx context.Context, p resource[Queue]) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		c, err := Lock(q, p.OrganizationID, p.ID)
		if err != nil {
			return err
		}
		if c.DefaultQueueID == p.item.ID {
			return core.Errorf(core.Unprocessable, "The default queue of a cluster cannot be deleted; make another queue the default first")
		}
		q.Announce(QueueRemoved)
		return deleteQueue(q, p.ID, p.item.ID)
	})
}

// QueueRemoved is the bus topic of queues being removed, alone or with their cluster.
const QueueRemoved = "queue removed"
