package clusters

import (
	"reflect"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A QueueSpec describes a queue of a cluster in the organization file. The key identifies the queue.
type QueueSpec struct {
	Line    int         `yaml:"-"`
	Key     string      `yaml:"key"`
	ID      string      `yaml:"id"`
	Default *bool       `yaml:"default"`
	Hosted  *HostedSpec `yaml:"hosted"`
}

// A HostedSpec makes a queue hosted: the service runs its agents. A queue with agents of the same platform
// keeps their shape; other queues get the platform's default.
type HostedSpec struct {
	Line     int      `yaml:"-"`
	Platform Platform `yaml:"platform"`
}

func (s Spec) checkQueues(c *core.Complaints) {
	marked := 0
	for _, queue := range s.Queues {
		queue.Check(c)
		if queue.Default == nil || !*queue.Default {
			continue
		}
		if marked++; marked > 1 {
			c.Add(queue.Line, "a cluster has at most one default queue")
		}
	}
	core.ComplainTwice(c, s.Queues, "queue", func(s QueueSpec) (int, string) { return s.Line, s.Key })
}

// Check reports errors in the spec that can be found without a database.
func (s QueueSpec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	if rule := queueKeyRule(s.Key); rule != "" {
		c.Add(s.Line, "the key of a queue %s", rule)
	}
	if s.Hosted != nil && !slices.Contains(s.Hosted.Platform.Values(), string(s.Hosted.Platform)) {
		c.Add(s.Hosted.Line, "%q is not a platform of hosted agents; the platforms are %s", s.Hosted.Platform, strings.Join(s.Hosted.Platform.Values(), ", "))
	}
}

// queues creates or updates the queues of a cluster and chooses the default queue.
func (a *applier) queues(c *Cluster, specs []QueueSpec) error {
	var unmarked []Queue // new queues whose spec does not set default
	for _, spec := range specs {
		queue, created, err := a.queue(*c, spec)
		if err != nil {
			return err
		}
		switch {
		case queue == nil:
		case spec.Default == nil && created:
			unmarked = append(unmarked, *queue)
		case spec.Default == nil:
		case *spec.Default:
			c.DefaultQueueID = queue.ID
		case c.DefaultQueueID == queue.ID:
			c.DefaultQueueID = ""
		}
	}
	if c.DefaultQueueID != "" || len(unmarked) == 0 {
		return nil
	}
	total, err := countQueues(a.Q, c.ID)
	c.DefaultQueueID = implicitDefault(unmarked, total)
	return err
}

// implicitDefault returns the id of the new queue that becomes the default without being marked, or "". total
// is the number of queues of the cluster.
func implicitDefault(created []Queue, total int) string {
	for _, queue := range created {
		if queue.Key == "default" || total == 1 {
			return queue.ID
		}
	}
	return ""
}

// queue creates or updates a queue. It returns nil after a complaint.
func (a *applier) queue(c Cluster, spec QueueSpec) (queue *Queue, created bool, err error) {
	known, err := queueByKey(a.Q, c.ID, spec.Key)
	if core.KindOf(err) == core.NotFound {
		queue, err = a.newQueue(c, spec)
		return queue, true, err
	}
	if err != nil {
		return nil, false, err
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "the queue %s exists with the id %s, which cannot be changed", known.Key, known.ID)
		return nil, false, nil
	}
	wanted := known
	spec.applyTo(&wanted)
	if reflect.DeepEqual(wanted, known) {
		return &known, false, nil
	}
	a.Changes.Changed("queue", a.name(c, known.Key))
	return &wanted, false, updateQueue(a.Q, wanted)
}

func (a *applier) newQueue(c Cluster, spec QueueSpec) (*Queue, error) {
	id, ok, err := db.FreeID(a.Q, "queues", spec.ID)
	if err != nil {
		return nil, err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another queue", id)
		return nil, nil
	}
	n, err := countQueues(a.Q, c.ID)
	if err != nil {
		return nil, err
	}
	if n >= maxQueues {
		a.Complaints.Add(spec.Line, "a cluster can have at most %d queues", maxQueues)
		return nil, nil
	}
	queue := Queue{ID: id, ClusterID: c.ID, Key: spec.Key, RetryAffinity: PreferWarmest, CreatedAt: a.Now}
	spec.applyTo(&queue)
	a.Changes.Created("queue", a.name(c, queue.Key))
	return &queue, insertQueue(a.Q, queue)
}

// applyTo writes the fields that the spec gives into queue.
func (s QueueSpec) applyTo(queue *Queue) {
	if s.Hosted == nil {
		return
	}
	if queue.Hosted == nil || queue.Hosted.shape().Platform != s.Hosted.Platform {
		queue.Hosted = defaultHostedAgents(s.Hosted.Platform)
	}
}
