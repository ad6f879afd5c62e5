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

// maxQueues is how many queues a cluster can have.
const maxQueues = 50

// A Queue is where the jobs of a cluster wait for agents of one kind.
type Queue struct {
	ID              string
	ClusterID       string
	Key             string // unique in the cluster, and never changed
	Description     string
	RetryAffinity   RetryAffinity
	Hosted          *HostedAgents // nil: self-hosted, unless its cluster is hosted
	inHostedCluster bool
	PausedAt        time.Time // zero: not paused
	PausedBy        *identity.User
	PausedNote      string
	PolledAt        time.Time // by a stack, the last time that is written down; zero: never
	CreatedBy       *identity.User
	CreatedAt       time.Time
}

// Connection says whether stacks look after a queue: whether any polls for its scheduled jobs.
type Connection string

// The connections of a queue.
const (
	NeverConnected Connection = "never_connected"
	Connected      Connection = "connected"
	Disconnected   Connection = "disconnected"
)

// Values lists every connection.
func (Connection) Values() []string {
	return []string{string(NeverConnected), string(Connected), string(Disconnected)}
}

// connectionLife is how long a poll keeps a queue connected. The specification says five to six minutes;
// polls are written down in batches, a few seconds early or late, and stay within that.
const connectionLife = 5*time.Minute + 30*time.Second

// connection returns whether the queue is connected at a time.
func (q *Queue) connection(now time.Time) Connection {
	switch {
	case q.PolledAt.IsZero():
		return NeverConnected
	case now.Sub(q.PolledAt) <= connectionLife:
		return Connected
	default:
		return Disconnected
	}
}

// RetryAffinity says which agent of a queue a retried job prefers.
type RetryAffinity string

// The affinities.
const (
	PreferWarmest   RetryAffinity = "prefer-warmest"   // the one that finished a job most recently
	PreferDifferent RetryAffinity = "prefer-different" // any but the one that ran the job before
)

// Values lists every affinity.
func (RetryAffinity) Values() []string {
	return []string{string(PreferWarmest), string(PreferDifferent)}
}

var queueKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// defaultQueueAliases are the keys by which stacks call a cluster's default queue, so that no queue
// can have them.
var defaultQueueAliases = []string{"__default__", "_default", "~", "-"}

// IsDefaultQueue reports whether a key is one by which stacks call a cluster's default queue.
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

// check notes what is wrong with what people say about a queue.
func (q *Queue) check(problems *core.Problems) {
	if rule := queueKeyRule(q.Key); rule != "" {
		problems.Add("key", "%s", rule)
	}
	checkText(problems, "description", q.Description, maxDescription)
	if !slices.Contains(q.RetryAffinity.Values(), string(q.RetryAffinity)) {
		problems.Add("retry_agent_affinity", "must be %s or %s", PreferWarmest, PreferDifferent)
	}
}

// hosting returns what the service itself runs the queue's agents with, or nil when somebody else
// runs them. A queue is hosted when it says so or its cluster does.
func (q *Queue) hosting() *HostedAgents {
	if q.Hosted == nil && q.inHostedCluster {
		return onPlatform(Linux)
	}
	return q.Hosted
}

// pause stops new jobs from being dispatched.
func (q *Queue) pause(by *identity.User, note string, now time.Time) error {
	if !q.PausedAt.IsZero() {
		return core.Errorf(core.Unprocessable, "Cluster queue is already paused")
	}
	q.PausedAt, q.PausedBy, q.PausedNote = now, by, note
	return nil
}

// resume lets jobs be dispatched again.
func (q *Queue) resume() error {
	if q.PausedAt.IsZero() {
		return core.Errorf(core.Unprocessable, "Cluster queue is not paused")
	}
	q.PausedAt, q.PausedBy, q.PausedNote = time.Time{}, nil, ""
	return nil
}

// createQueue adds a queue to a cluster that has room for it. Its key must be free.
func (s *Service) createQueue(ctx context.Context, c Cluster, queue Queue) (Queue, error) {
	err := s.db.Write(ctx, func(q *db.Q) error {
		if _, err := Lock(q, c.OrganizationID, c.ID); err != nil {
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
	return queue, taken(err, "key")
}

// changeQueue changes a queue. Nobody else changes it meanwhile.
func (s *Service) changeQueue(ctx context.Context, p part[Queue], change func(*Queue) error) (queue Queue, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if _, err = Lock(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if queue, err = queueByID(q, p.ID, p.it.ID); err != nil {
			return err
		}
		if err = change(&queue); err != nil {
			return err
		}
		q.Announce(dispatch.Topic(queue.ID)) // it may be paused no more
		return updateQueue(q, queue)
	})
	return queue, err
}

// removeQueue deletes a queue, unless it is the default one of its cluster.
func (s *Service) removeQueue(ctx context.Context, p part[Queue]) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		c, err := Lock(q, p.OrganizationID, p.ID)
		if err != nil {
			return err
		}
		if c.DefaultQueueID == p.it.ID {
			return core.Errorf(core.Unprocessable, "The default queue of a cluster cannot be deleted; make another queue the default first")
		}
		q.Announce(QueueRemoved)
		return deleteQueue(q, p.ID, p.it.ID)
	})
}

// QueueRemoved is what the bus calls the end of queues, by themselves or with their cluster.
const QueueRemoved = "queue removed"
