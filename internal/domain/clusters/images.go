package clusters

import (
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// CheckImages registers check, which returns an error if a queue of a cluster cannot use an image reference. The
// cluster is locked.
func (s *Service) CheckImages(check func(q *db.Q, c Cluster, ref string) error) { s.checkImage = check }

// checkImageOf checks the image of a queue's agents if it has changed.
func (s *Service) checkImageOf(q *db.Q, c Cluster, before, after Queue) error {
	ref := after.imageRef()
	if s.checkImage == nil || ref == "" || ref == before.imageRef() {
		return nil
	}
	return s.checkImage(q, c, ref)
}

// imageRef returns the image of the queue's agents, or "".
func (q *Queue) imageRef() string {
	if q.Hosted == nil {
		return ""
	}
	return q.Hosted.ImageRef
}

// QueuesWithImage returns the keys of a cluster's queues whose agents use an image. The caller has locked the cluster.
func QueuesWithImage(q *db.Q, clusterID, ref string) (keys []string, err error) {
	queues, _, err := listQueues(q, clusterID, maxQueues, 0)
	for _, queue := range queues {
		if queue.imageRef() == ref {
			keys = append(keys, queue.Key)
		}
	}
	return keys, err
}

// ReplaceImage lets the agents of a cluster's queues that use one image use another one. The caller has locked the
// cluster.
func ReplaceImage(q *db.Q, clusterID, before, after string) error {
	queues, _, err := listQueues(q, clusterID, maxQueues, 0)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		if queue.imageRef() != before {
			continue
		}
		queue.Hosted.ImageRef = after
		if err := updateQueue(q, queue); err != nil {
			return err
		}
	}
	return nil
}

// Any returns a cluster of any organization, or a NotFound error. It is for background work.
func Any(q *db.Q, id string) (Cluster, error) { return oneCluster(q, `WHERE c.id = $1`, id) }

// HostedQueueForAgents returns the hosted queue of a cluster with a key, for agents of the service.
func HostedQueueForAgents(q *db.Q, c Cluster, key string) (Queue, error) {
	queue, err := queueByKey(q, c.ID, key)
	if core.KindOf(err) == core.NotFound || err == nil && queue.hosting() == nil {
		err = core.Errorf(core.Unprocessable, "The cluster %q has no hosted queue with the key %q", c.Name, key)
	}
	return queue, err
}

// A HostedQueue is a queue whose agents the service runs.
type HostedQueue struct {
	OrganizationID string
	Queue
	Shape    Shape
	ImageRef string // "": the base image
}

// HostedQueues returns the hosted queues of some platforms, of all organizations, that are not paused.
func HostedQueues(q *db.Q, platforms ...Platform) ([]HostedQueue, error) {
	type row struct {
		org   string
		queue Queue
	}
	rows, err := db.All(q, func(scan db.Scan) (r row, err error) {
		return r, scan(&r.org, &r.queue.ID, &r.queue.ClusterID, &r.queue.Key, db.ToJSON(&r.queue.Hosted), &r.queue.inHostedCluster)
	}, `
		SELECT c.organization_id, q.id, q.cluster_id, q.key, q.hosted_agents, c.hosted
		FROM queues q JOIN clusters c ON c.id = q.cluster_id
		WHERE c.deleted_at IS NULL AND q.dispatch_paused_at IS NULL AND (c.hosted OR q.hosted_agents IS NOT NULL)
		ORDER BY q.id`)
	var queues []HostedQueue
	for _, r := range rows {
		h := r.queue.hosting()
		if slices.Contains(platforms, h.shape().Platform) {
			queues = append(queues, HostedQueue{OrganizationID: r.org, Queue: r.queue, Shape: h.shape(), ImageRef: h.ImageRef})
		}
	}
	return queues, err
}
