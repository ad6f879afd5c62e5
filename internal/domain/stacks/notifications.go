package stacks

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// The limits of notifications.
const (
	maxNotifications = 100 // for each job
	maxNotification  = 256 // characters
	lateFor          = 300 * time.Second
)

// A notification tells people how a stack gets on with a job.
type notification struct {
	index  int // in the request
	jobID  string
	detail string
	at     time.Time
}

// complaints gathers what is wrong with notifications, by text.
type complaints struct {
	texts   []string
	indexes map[string][]int
}

func (c *complaints) add(index int, text string) {
	if c.indexes == nil {
		c.indexes = map[string][]int{}
	}
	if c.indexes[text] == nil {
		c.texts = append(c.texts, text)
	}
	c.indexes[text] = append(c.indexes[text], index)
}

// notify keeps the notifications that are right, and complains of the others.
func (s *Service) notify(ctx context.Context, stack *Stack, list []notification, now time.Time, wrong *complaints) error {
	list = slices.DeleteFunc(list, func(n notification) bool {
		switch {
		case strings.TrimSpace(n.detail) == "":
			wrong.add(n.index, "detail is required")
		case utf8.RuneCountInString(n.detail) > maxNotification:
			wrong.add(n.index, "detail exceeds its length limit of 256")
		default:
			return false
		}
		return true
	})
	if len(list) == 0 {
		return nil
	}
	ids := make([]string, len(list))
	for i, n := range list {
		ids[i] = n.jobID
	}
	var found complaints
	err := s.db.Write(ctx, func(q *db.Q) error {
		found = complaints{}
		about, err := notified(q, stack, ids)
		if err != nil {
			return err
		}
		var right []notification
		for _, n := range list {
			job := about[n.jobID]
			if text := job.refuses(n, now); text != "" {
				found.add(n.index, text)
				continue
			}
			job.count++
			right = append(right, n)
			q.Announce(builds.Topic(job.buildID))
		}
		return insertNotifications(q, stack.Key, right)
	})
	for _, text := range found.texts {
		for _, i := range found.indexes[text] {
			wrong.add(i, text)
		}
	}
	return err
}

// A notifiedJob is what counts of a job that notifications are about.
type notifiedJob struct {
	buildID    string
	count      int
	createdAt  time.Time
	finishedAt time.Time // zero: it has not ended
}

// refuses says what is wrong with a notification of the job, or "". A nil job does not exist.
func (j *notifiedJob) refuses(n notification, now time.Time) string {
	switch {
	case j == nil:
		return "job not found"
	case n.at.After(now):
		return "timestamp must not be in the future"
	case n.at.Before(j.createdAt.Truncate(time.Millisecond)):
		return "timestamp must not be before the job was created"
	case !j.finishedAt.IsZero() && now.Sub(j.finishedAt) > lateFor:
		return "job finished more than 300 seconds ago"
	case j.count >= maxNotifications:
		return "job stack notification count exceeded"
	}
	return ""
}

// notified returns what counts of jobs of a stack's cluster, by job, without those of hosted queues. They are
// locked, so that nobody else adds to their notifications meanwhile.
func notified(q *db.Q, stack *Stack, jobIDs []string) (map[string]*notifiedJob, error) {
	some, ids := q.In("id", 2, jobIDs)
	_, err := db.All(q, func(scan db.Scan) (id string, err error) { return id, scan(&id) }, `
		SELECT id FROM jobs WHERE organization_id = $1 AND `+some+` ORDER BY id`+q.ForUpdate(), stack.OrganizationID, ids)
	if err != nil {
		return nil, err
	}
	in, arg := q.In("j.id", 3, jobIDs)
	found := make(map[string]*notifiedJob, len(jobIDs))
	_, err = db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		j := &notifiedJob{}
		err = scan(&id, &j.buildID, db.ToTime(&j.createdAt), db.ToTime(&j.finishedAt), &j.count)
		found[id] = j
		return none, err
	}, `
		SELECT j.id, j.build_id, j.created_at, j.finished_at, (SELECT COUNT(*) FROM stack_notifications n WHERE n.job_id = j.id)
		FROM jobs j
		JOIN builds b ON b.id = j.build_id
		JOIN clusters c ON c.id = b.cluster_id
		LEFT JOIN queues qu ON qu.id = j.queue_id
		WHERE j.organization_id = $1 AND c.id = $2 AND NOT c.hosted AND qu.hosted_agents IS NULL AND j.type = 'script' AND `+in, stack.OrganizationID, stack.ClusterID, arg)
	return found, err
}

// maxInserted bounds the rows of one statement.
const maxInserted = 100

func insertNotifications(q *db.Q, stackKey string, list []notification) error {
	for some := range slices.Chunk(list, maxInserted) {
		var st db.Statement
		key := st.Arg(stackKey)
		rows := make([]string, len(some))
		for i, n := range some {
			rows[i] = "(" + st.Arg(core.NewID()) + ", " + st.Arg(n.jobID) + ", " + key + ", " + st.Arg(n.detail) + ", " + st.Arg(db.Micros(n.at)) + ")"
		}
		_, err := q.Exec(`INSERT INTO stack_notifications (id, job_id, stack_key, detail, at) VALUES `+strings.Join(rows, ", "), st.Args()...)
		if err != nil {
			return err
		}
	}
	return nil
}
