package clusters

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noQueue = "No cluster queue found"

const selectQueue = `
	SELECT q.id, q.cluster_id, q.key, q.description, q.retry_agent_affinity, q.hosted_agents, c.hosted,
		q.dispatch_paused_at, q.dispatch_paused_note, l.polled_at, q.created_at,
		p.id, p.email, p.name, p.created_at, ` + identity.UserColumns + `
	FROM queues q
	JOIN clusters c ON c.id = q.cluster_id
	LEFT JOIN queue_polls l ON l.queue_id = q.id
	LEFT JOIN users p ON p.id = q.dispatch_paused_by
	LEFT JOIN users u ON u.id = q.created_by`

func scanQueue(scan db.Scan) (Queue, error) {
	var q Queue
	var pausedBy, by identity.User
	dest := []any{
		&q.ID, &q.ClusterID, &q.Key, &q.Description, &q.RetryAffinity, db.ToJSON(&q.Hosted), &q.inHostedCluster,
		db.ToTime(&q.PausedAt), db.ToText(&q.PausedNote), db.ToTime(&q.PolledAt), db.ToTime(&q.CreatedAt),
	}
	dest = append(dest, identity.UserDest(&pausedBy)...)
	err := scan(append(dest, identity.UserDest(&by)...)...)
	q.PausedBy, q.CreatedBy = pausedBy.OrNil(), by.OrNil()
	return q, err
}

// queueByID returns a queue of a cluster, or a NotFound error.
func queueByID(q *db.Q, clusterID, id string) (Queue, error) {
	return db.Find(q, noQueue, scanQueue, selectQueue+` WHERE q.cluster_id = $1 AND q.id = $2`, clusterID, id)
}

// queueByKey returns the queue of a cluster with this key, or a NotFound error.
func queueByKey(q *db.Q, clusterID, key string) (Queue, error) {
	return db.Find(q, noQueue, scanQueue, selectQueue+` WHERE q.cluster_id = $1 AND q.key = $2`, clusterID, key)
}

// QueueOf returns a queue of an organization, or a NotFound error.
func QueueOf(q *db.Q, orgID, queueID string) (Queue, error) {
	return db.Find(q, noQueue, scanQueue, selectQueue+` WHERE c.organization_id = $1 AND q.id = $2`, orgID, queueID)
}

// QueueIn returns the queue of a cluster with an id as given by a user, or a NotFound error.
func QueueIn(q *db.Q, c Cluster, id string) (Queue, error) {
	id, ok := core.ParseID(id)
	if !ok {
		return Queue{}, core.Errorf(core.NotFound, noQueue)
	}
	return queueByID(q, c.ID, id)
}

// PlatformOf returns the platform of a queue's hosted agents. It returns "" if the queue is self-hosted or does
// not exist.
func PlatformOf(q *db.Q, orgID, queueID string) (Platform, error) {
	queue, err := QueueOf(q, orgID, queueID)
	if core.KindOf(err) == core.NotFound || err == nil && queue.hosting() == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return queue.hosting().shape().Platform, nil
}

// listQueues returns one page of a cluster's queues, oldest first, and the total.
func listQueues(q *db.Q, clusterID string, limit, offset int) ([]Queue, int, error) {
	return db.ListPage(q, scanQueue, selectQueue+` WHERE q.cluster_id = $1 ORDER BY q.created_at, q.id`,
		`SELECT COUNT(*) FROM queues WHERE cluster_id = $1`, limit, offset, clusterID)
}

func countQueues(q *db.Q, clusterID string) (int, error) {
	return db.Count(q, `SELECT COUNT(*) FROM queues WHERE cluster_id = $1`, clusterID)
}

func insertQueue(q *db.Q, queue Queue) error {
	_, err := queueRows.Exec(q, queue.ID, `
		INSERT INTO queues (id, cluster_id, key, description, retry_agent_affinity, hosted_agents, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		queue.ID, queue.ClusterID, queue.Key, queue.Description, queue.RetryAffinity, db.JSON(queue.Hosted),
		queue.CreatedBy.IDOrNull(), db.Micros(queue.CreatedAt))
	return err
}

// updateQueue writes all columns that can change.
func updateQueue(q *db.Q, queue Queue) error {
	_, err := queueRows.Exec(q, queue.ID, `
		UPDATE queues SET description = $2, retry_agent_affinity = $3, hosted_agents = $4,
			dispatch_paused_at = $5, dispatch_paused_by = $6, dispatch_paused_note = $7
		WHERE id = $1`,
		queue.ID, queue.Description, queue.RetryAffinity, db.JSON(queue.Hosted),
		db.Micros(queue.PausedAt), queue.PausedBy.IDOrNull(), db.Text(queue.PausedNote))
	return err
}

// deleteQueue removes a queue of a cluster, or returns a NotFound error.
func deleteQueue(q *db.Q, clusterID, id string) error {
	return deleteOne(q, queueRows, id, noQueue, `DELETE FROM queues WHERE cluster_id = $1 AND id = $2`, clusterID, id)
}

// checkDefaultQueue reports a default queue that is not in the cluster.
func checkDefaultQueue(q *db.Q, c *Cluster, problems *core.Problems) error {
	if c.DefaultQueueID == "" {
		return nil
	}
	id, ok := core.ParseID(c.DefaultQueueID)
	if ok {
		_, err := queueByID(q, c.ID, id)
		if err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
		ok = err == nil
	}
	if !ok {
		problems.Add("default_queue_id", "must be the id of a queue of this cluster")
	}
	c.DefaultQueueID = id
	return nil
}

// QueueIDs returns the ids of a cluster's queues by key. The id of its default queue is that of the key "".
func QueueIDs(q *db.Q, c Cluster) (map[string]string, error) {
	ids := map[string]string{}
	err := queueIDsLater(q, c.ID, ids)
	if err == nil {
		err = q.Flush()
	}
	if c.DefaultQueueID != "" {
		ids[""] = c.DefaultQueueID
	}
	return ids, err
}

func queueIDsLater(q *db.Q, clusterID string, into map[string]string) error {
	return db.EachLater(q, func(scan db.Scan) error {
		var key, id string
		err := scan(&key, &id)
		into[key] = id
		return err
	}, `SELECT key, id FROM queues WHERE cluster_id = $1`, clusterID)
}

// WithQueueIDs reads a cluster of an organization and the ids of its queues. Statements that wait run first; result
// returns them, or a NotFound error. See [db.Q.Later].
func WithQueueIDs(q *db.Q, organizationID, id string) (result func() (Cluster, map[string]string, error), err error) {
	var c Cluster
	ids := map[string]string{}
	err = db.EachLater(q, func(scan db.Scan) (err error) {
		c, err = scanCluster(scan)
		return err
	}, selectCluster+` WHERE c.organization_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`, organizationID, id)
	if err == nil {
		err = queueIDsLater(q, id, ids)
	}
	result = func() (Cluster, map[string]string, error) {
		err := q.Flush()
		switch {
		case err != nil:
		case c.ID == "":
			err = core.Errorf(core.NotFound, noCluster)
		case c.DefaultQueueID != "":
			ids[""] = c.DefaultQueueID
		}
		return c, ids, err
	}
	return result, err
}

// QueueForAgents returns the queue of a cluster that an agent joins when it registers with a key; "" is the
// default queue. An agent cannot join a hosted queue. Errors are Unprocessable and addressed to the person who
// set up the agent.
func QueueForAgents(q *db.Q, c Cluster, key string) (Queue, error) {
	var queue Queue
	var err error
	switch {
	case key != "":
		queue, err = queueByKey(q, c.ID, key)
	case c.DefaultQueueID == "":
		return queue, core.Errorf(core.Unprocessable, "The cluster %q has no default queue; give the agent the tag queue=KEY of one of its queues", c.Name)
	default:
		queue, err = queueByID(q, c.ID, c.DefaultQueueID)
	}
	if core.KindOf(err) == core.NotFound {
		return queue, core.Errorf(core.Unprocessable, "The cluster %q has no queue with the key %q", c.Name, key)
	}
	if err == nil && queue.hosting() != nil {
		err = core.Errorf(core.Unprocessable, "The queue %q is hosted: the service runs its agents, and other agents cannot join", queue.Key)
	}
	return queue, err
}
