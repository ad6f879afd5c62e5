package clusters

import "stackyard/internal/platform/db"

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
