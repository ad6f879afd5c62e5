package clusters

import "stackyard/internal/platform/db"

// A QueueName says whose a queue is.
type QueueName struct{ OrganizationID, Cluster, Queue string }

// QueueNames returns the names of all queues, by id.
func QueueNames(q *db.Q) (map[string]QueueName, error) {
	names := map[string]QueueName{}
	err := db.Each(q, func(row db.Scan) error {
		var id string
		var n QueueName
		err := row(&id, &n.OrganizationID, &n.Cluster, &n.Queue)
		names[id] = n
		return err
	}, `SELECT q.id, c.organization_id, c.name, q.key FROM queues q JOIN clusters c ON c.id = q.cluster_id`)
	return names, err
}
