package stacks

import (
	"context"
	"slices"
	"strconv"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A scheduledJob is a job that waits for an agent, as the list shows it.
type scheduledJob struct {
	dispatch.ScheduledJob
	rules []string
	build builds.Summary
}

// cursor returns the job's position in the list.
func (j scheduledJob) cursor() core.Cursor {
	return core.Cursor{strconv.FormatInt(j.ScheduledAt.UnixMicro(), 10), j.ID}
}

// A page is a part of a queue's list of scheduled jobs.
type page struct {
	queue clusters.Queue
	jobs  []scheduledJob
	more  bool
}

// readTimeout bounds the time that a list takes in addition to its wait.
const readTimeout = 30 * time.Second

// listScheduled returns the unreserved jobs of a queue, oldest first, after a cursor. When there are none it
// waits for one, at most for wait.
func (s *Service) listScheduled(ctx context.Context, t *identity.AgentToken, queueKey string, after core.Cursor, limit int, wait time.Duration) (p page, err error) {
	afterTime, afterID, err := parseCursor(after)
	if err != nil {
		return p, err
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
			jobs, err := dispatch.Scheduled(q, p.queue.ID, afterTime, afterID, limit+1)
			if err != nil {
				return err
			}
			p.jobs, err = s.addDetails(q, t.Organization.ID, p.queue, jobs)
			return err
		})
		if err != nil || len(p.jobs) > 0 || wait == 0 {
			n := countFitting(p.jobs[:min(limit, len(p.jobs))])
			p.jobs, p.more = p.jobs[:n], len(p.jobs) > n
			return p, err
		}
		if woken == nil {
			// Read again after subscribing: a job may have been scheduled before.
			var unsubscribe func()
			woken, unsubscribe = s.bus.Subscribe(dispatch.Topic(p.queue.ID))
			defer unsubscribe()
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

// parseCursor returns the time and the id of the job that a cursor names; zero values for no cursor.
func parseCursor(c core.Cursor) (at time.Time, id string, err error) {
	if c == nil {
		return at, "", nil
	}
	micros, err := strconv.ParseInt(c[0], 10, 64)
	if err != nil {
		return at, "", core.Errorf(core.BadRequest, "after is not a cursor of this list")
	}
	return time.UnixMicro(micros), c[1], nil
}

// maxRuleBytes bounds the bytes of rules in one response, unless it has only one job.
const maxRuleBytes = 8 << 20

// countFitting returns how many of the jobs fit into one response.
func countFitting(jobs []scheduledJob) int {
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

// addDetails adds the builds and rules of jobs. Many jobs share them, so each is read once. Jobs of builds
// that were deleted meanwhile are left out.
func (s *Service) addDetails(q *db.Q, orgID string, queue clusters.Queue, jobs []dispatch.ScheduledJob) ([]scheduledJob, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	summaries, err := builds.Summaries(q, orgID, distinct(jobs, func(j dispatch.ScheduledJob) string { return j.BuildID }))
	if err != nil {
		return nil, err
	}
	ruleSets := distinct(jobs, func(j dispatch.ScheduledJob) string { return j.RuleSet })
	rules, err := s.ruleSets.Get(q, orgID, ruleSets)
	if err != nil {
		return nil, err
	}
	for _, id := range ruleSets {
		rules[id] = append([]string{"queue=" + queue.Key}, rules[id]...)
	}
	detailed := make([]scheduledJob, 0, len(jobs))
	for _, j := range jobs {
		if build, ok := summaries[j.BuildID]; ok {
			detailed = append(detailed, scheduledJob{j, rules[j.RuleSet], build})
		}
	}
	return detailed, nil
}

// distinct returns the different values that key returns for jobs.
func distinct(jobs []dispatch.ScheduledJob, key func(dispatch.ScheduledJob) string) []string {
	values := make([]string, len(jobs))
	for i, j := range jobs {
		values[i] = key(j)
	}
	slices.Sort(values)
	return slices.Compact(values)
}
