package stacks

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// The limits of notifications.
const (
	maxNotifications = 100 // for each job
	maxNotification  = 256 // characters
	lateFor          = 300 * time.Second
)

// A notification is a message of a stack about a job, shown on the build page.
type notification struct {
	index  int // in the request
	jobID  string
	detail string
	at     time.Time
}

// problems collects the errors of notifications: the indexes that each message is about.
type problems struct {
	messages []string // in the order of their first use
	indexes  map[string][]int
}

func (p *problems) add(message string, indexes ...int) {
	if p.indexes == nil {
		p.indexes = map[string][]int{}
	}
	if p.indexes[message] == nil {
		p.messages = append(p.messages, message)
	}
	p.indexes[message] = append(p.indexes[message], indexes...)
}

// notify stores the valid notifications and adds the problems of the others.
func (s *Service) notify(ctx context.Context, stack *Stack, list []notification, now time.Time, invalid *problems) error {
	list = slices.DeleteFunc(list, func(n notification) bool {
		switch {
		case strings.TrimSpace(n.detail) == "":
			invalid.add("detail is required", n.index)
		case utf8.RuneCountInString(n.detail) > maxNotification:
			invalid.add("detail exceeds its length limit of 256", n.index)
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
	var found problems
	err := s.db.Write(ctx, func(q *db.Q) error {
		found = problems{} // of the last attempt
		jobs, err := lockNotifiable(q, stack, ids)
		if err != nil {
			return err
		}
		var valid []notification
		for _, n := range list {
			job := jobs[n.jobID]
			if message := job.check(n, now); message != "" {
				found.add(message, n.index)
				continue
			}
			job.notifications++
			valid = append(valid, n)
			q.Announce(builds.Topic(job.BuildID))
		}
		return insertNotifications(q, stack.Key, valid)
	})
	for _, message := range found.messages {
		invalid.add(message, found.indexes[message]...)
	}
	return err
}

// A notifiableJob is a job with the number of its notifications.
type notifiableJob struct {
	builds.StackJob
	notifications int
}

// check returns the problem of a notification about the job, or "". A nil job does not exist.
func (j *notifiableJob) check(n notification, now time.Time) string {
	switch {
	case j == nil:
		return "job not found"
	case n.at.After(now):
		return "timestamp must not be in the future"
	case n.at.Before(j.CreatedAt.Truncate(time.Millisecond)):
		return "timestamp must not be before the job was created"
	case !j.FinishedAt.IsZero() && now.Sub(j.FinishedAt) > lateFor:
		return "job finished more than 300 seconds ago"
	case j.notifications >= maxNotifications:
		return "job stack notification count exceeded"
	}
	return ""
}

// lockNotifiable returns the command jobs of a stack's cluster, by job, without those of hosted queues. It
// locks them, so that no other request adds notifications meanwhile.
func lockNotifiable(q *db.Q, stack *Stack, jobIDs []string) (map[string]*notifiableJob, error) {
	if err := builds.LockJobs(q, stack.OrganizationID, jobIDs); err != nil {
		return nil, err
	}
	found, err := builds.StackJobs(q, stack.OrganizationID, jobIDs)
	if err != nil {
		return nil, err
	}
	counts, err := countNotifications(q, jobIDs)
	if err != nil {
		return nil, err
	}
	jobs := make(map[string]*notifiableJob, len(found))
	for id, j := range found {
		if j.ClusterID == stack.ClusterID && j.Type == flow.Script {
			jobs[id] = &notifiableJob{j, counts[id]}
		}
	}
	return jobs, nil
}

// countNotifications returns the numbers of notifications, by job.
func countNotifications(q *db.Q, jobIDs []string) (map[string]int, error) {
	in, arg := q.In("job_id", 1, jobIDs)
	counts := map[string]int{}
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var n int
		err := scan(&id, &n)
		counts[id] = n
		return err
	}, `SELECT job_id, COUNT(*) FROM stack_notifications WHERE `+in+` GROUP BY job_id`, arg)
	return counts, err
}

func insertNotifications(q *db.Q, stackKey string, list []notification) error {
	return db.InsertMany(q, `INSERT INTO stack_notifications (id, job_id, stack_key, detail, at)`, list, func(n notification) []any {
		return []any{core.NewID(), n.jobID, stackKey, n.detail, db.Micros(n.at)}
	}, "")
}

// LatestNotifications returns the latest notification of each job, by job.
func LatestNotifications(q *db.Q, jobIDs []string) (map[string]timeline.Event, error) {
	in, arg := q.In("job_id", 1, jobIDs)
	latest := make(map[string]timeline.Event)
	err := db.Each(q, func(scan db.Scan) error {
		e := timeline.Event{What: timeline.EventNotification}
		var id string
		err := scan(&id, db.ToTime(&e.At), &e.Stack, &e.Detail)
		latest[id] = e
		return err
	}, `
		SELECT job_id, at, stack_key, detail
		FROM (
			SELECT *, ROW_NUMBER() OVER (PARTITION BY job_id ORDER BY at DESC, id DESC) AS age
			FROM stack_notifications WHERE `+in+`
		) AS newest
		WHERE age = 1`, arg)
	return latest, err
}

// notificationsOf returns the notifications of a job, oldest first.
func notificationsOf(q *db.Q, jobID string) ([]timeline.Event, error) {
	return db.All(q, func(scan db.Scan) (timeline.Event, error) {
		e := timeline.Event{What: timeline.EventNotification}
		return e, scan(db.ToTime(&e.At), &e.Stack, &e.Detail)
	}, `SELECT at, stack_key, detail FROM stack_notifications WHERE job_id = $1 ORDER BY at, id`, jobID)
}
