package clusters

import (
	"reflect"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A QueueSpec is what the organization file says about a queue of a cluster, which is known by its
// key.
type QueueSpec struct {
	Line    int         `yaml:"-"`
	Key     string      `yaml:"key"`
	ID      string      `yaml:"id"`
	Default *bool       `yaml:"default"`
	Hosted  *HostedSpec `yaml:"hosted"`
}

// A HostedSpec says that the service itself runs the agents of a queue. A queue that has agents of
// the platform already keeps their shape; others get the platform's default.
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

// Check complains about what is wrong with the spec itself.
func (s QueueSpec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	if rule := queueKeyRule(s.Key); rule != "" {
		c.Add(s.Line, "the key of a queue %s", rule)
	}
	if s.Hosted != nil && !slices.Contains(s.Hosted.Platform.Values(), string(s.Hosted.Platform)) {
		c.Add(s.Hosted.Line, "%q is not a platform of hosted agents; the platforms are %s", s.Hosted.Platform, strings.Join(s.Hosted.Platform.Values(), ", "))
	}
}

// queues makes the queues of a cluster what their specs say, and decides which is the default one.
func (a *applying) queues(c *Cluster, specs []QueueSpec) error {
	var unmarked []Queue // that are new, and that the file says nothing about
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
	c.DefaultQueueID = obviousDefault(unmarked, total)
	return err
}

// obviousDefault returns the id of the queue that is the default one without being marked, among the
// new ones of a cluster that has a number of them in total, or "".
func obviousDefault(created []Queue, total int) string {
	for _, queue := range created {
		if queue.Key == "default" || total == 1 {
			return queue.ID
		}
	}
	return ""
}

// queue makes a queue what its spec says; nil after a complaint.
func (a *applying) queue(c Cluster, spec QueueSpec) (queue *Queue, created bool, err error) {
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
	spec.to(&wanted)
	if reflect.DeepEqual(wanted, known) {
		return &known, false, nil
	}
	a.Changes.Changed("queue", a.name(c, known.Key))
	return &wanted, false, updateQueue(a.Q, wanted)
}

func (a *applying) newQueue(c Cluster, spec QueueSpec) (*Queue, error) {
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
	spec.to(&queue)
	a.Changes.Created("queue", a.name(c, queue.Key))
	return &queue, insertQueue(a.Q, queue)
}

// to writes what the spec says into a queue.
func (s QueueSpec) to(queue *Queue) {
	if s.Hosted == nil {
		return
	}
	if queue.Hosted == nil || queue.Hosted.shape().Platform != s.Hosted.Platform {
		queue.Hosted = onPlatform(s.Hosted.Platform)
	}
}
