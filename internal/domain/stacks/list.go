package stacks

import (
	"context"
	"slices"
	"strconv"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A scheduledJob is one that waits for an agent, as the list shows it.
type scheduledJob struct {
	id          string
	priority    int
	ruleSet     string
	rules       []string
	scheduledAt time.Time
	pipelineID  string
	buildID     string
	build       listedBuild
	stepKey     string
}

// A listedBuild is what the list shows of a build.
type listedBuild struct {
	id           string
	number       int
	branch       string
	pipelineSlug string
}

// cursor is the job's place in the list.
func (j scheduledJob) cursor() core.Cursor {
	return core.Cursor{strconv.FormatInt(j.scheduledAt.UnixMicro(), 10), j.id}
}

// A page is a part of a queue's list of scheduled jobs.
type page struct {
	queue clusters.Queue
	jobs  []scheduledJob
	more  bool
}

// list returns scheduled jobs of a queue that nobody has reserved, oldest first, after a cursor. When
// there are none it waits for one, for as long as it is told to.
func (s *Service) list(ctx context.Context, t *identity.AgentToken, queueKey string, after core.Cursor, limit int, wait time.Duration) (p page, err error) {
	since := int64(0)
	sinceID := ""
	if after != nil {
		if since, err = strconv.ParseInt(after[0], 10, 64); err != nil {
			return p, core.Errorf(core.BadRequest, "after is not a cursor of this list")
		}
		sinceID = after[1]
	}
	ctx, cancel := context.WithTimeout(ctx, wait+readTimeout)
	defer cancel()
	deadline := time.After(wait)
	var woken <-chan struct{}
	for {
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			if p.queue, err = queueOf(q, t, queueKey); err != nil {
				return err
			}
			if p.jobs, err = scheduled(q, p.queue.ID, since, sinceID, limit+1); err != nil || len(p.jobs) == 0 {
				return err
			}
			p.jobs, err = s.describe(q, t.Organization.ID, p.queue, p.jobs)
			return err
		})
		if err != nil || len(p.jobs) > 0 || wait == 0 {
			n := fitting(p.jobs[:min(limit, len(p.jobs))])
			p.jobs, p.more = p.jobs[:n], len(p.jobs) > n
			return p, err
		}
		if woken == nil {
			// Look once more, since a job may have come before anybody listened.
			var stop func()
			woken, stop = s.bus.Subscribe(dispatch.Topic(p.queue.ID))
			defer stop()
			continue
		}
		select {
		case <-woken:
		case <-deadline:
			return p, nil
		case <-s.agents.Draining():
			return p, nil
		case <-ctx.Done():
			return p, nil
		}
	}
}

// maxRuleBytes is how many bytes of rules one answer has at most, unless it has one job only.
const maxRuleBytes = 8 << 20

// fitting returns how many of the jobs fit into one answer.
func fitting(jobs []scheduledJob) int {
	bytes := 0
	for i, j := range jobs {
		for _, rule := range j.rules {
			bytes += len(rule)
		}
		if bytes > maxRuleBytes && i > 0 {
			return i
		}
	}
	return len(jobs)
}

// readTimeout bounds how long a list may take beyond what it waits.
const readTimeout = 30 * time.Second

// scheduled reads the list. It begins at its place in the index, and reads neither reserved jobs nor
// anything but the rows of the list.
func scheduled(q *db.Q, queueID string, since int64, sinceID string, limit int) ([]scheduledJob, error) {
	return db.All(q, func(scan db.Scan) (j scheduledJob, err error) {
		return j, scan(&j.id, &j.priority, &j.ruleSet, db.ToTime(&j.scheduledAt), &j.pipelineID, &j.buildID, db.ToText(&j.stepKey))
	}, scheduledText, queueID, since, sinceID, limit)
}

const scheduledText = `
	SELECT job_id, priority, rule_set, scheduled_at, pipeline_id, build_id, step_key FROM runnable
	WHERE queue_id = $1 AND reserved_until IS NULL AND (scheduled_at, job_id) > ($2, $3)
	ORDER BY scheduled_at, job_id
	LIMIT $4`

// describe gives jobs what they have in common with others: the builds that they are of and the rules that
// they have are few, and are looked up once. Jobs of builds that have been deleted meanwhile are left out.
func (s *Service) describe(q *db.Q, orgID string, queue clusters.Queue, jobs []scheduledJob) ([]scheduledJob, error) {
	builds, err := listedBuilds(q, orgID, distinct(jobs, func(j scheduledJob) string { return j.buildID }))
	if err != nil {
		return nil, err
	}
	sets := distinct(jobs, func(j scheduledJob) string { return j.ruleSet })
	rules, err := s.rules.Get(q, orgID, sets)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		rules[set] = append([]string{"queue=" + queue.Key}, rules[set]...)
	}
	for i := range jobs {
		jobs[i].build, jobs[i].rules = builds[jobs[i].buildID], rules[jobs[i].ruleSet]
	}
	return slices.DeleteFunc(jobs, func(j scheduledJob) bool { return j.build.id == "" }), nil
}

func listedBuilds(q *db.Q, orgID string, ids []string) (map[string]listedBuild, error) {
	in, arg := q.In("b.id", 2, ids)
	builds := make(map[string]listedBuild, len(ids))
	_, err := db.All(q, func(scan db.Scan) (b listedBuild, err error) {
		err = scan(&b.id, &b.number, &b.branch, &b.pipelineSlug)
		builds[b.id] = b
		return b, err
	}, `
		SELECT b.id, b.number, b.branch, p.slug
		FROM builds b JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL
		WHERE b.organization_id = $1 AND `+in, orgID, arg)
	return builds, err
}

// distinct returns what jobs have, each once, in the order in which they have it.
func distinct(jobs []scheduledJob, of func(scheduledJob) string) []string {
	seen := make(map[string]bool)
	var values []string
	for _, j := range jobs {
		if v := of(j); !seen[v] {
			seen[v] = true
			values = append(values, v)
		}
	}
	return values
}
