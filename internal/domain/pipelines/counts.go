package pipelines

import (
	"slices"
	"strings"

	"stackyard/internal/platform/db"
)

// Counts are the numbers of unfinished builds of a pipeline and of their command jobs.
type Counts struct {
	ScheduledBuilds, RunningBuilds          int
	ScheduledJobs, RunningJobs, WaitingJobs int
}

// Plus returns the sum of two counts.
func (c Counts) Plus(other Counts) Counts {
	return Counts{
		c.ScheduledBuilds + other.ScheduledBuilds, c.RunningBuilds + other.RunningBuilds,
		c.ScheduledJobs + other.ScheduledJobs, c.RunningJobs + other.RunningJobs, c.WaitingJobs + other.WaitingJobs,
	}
}

// Minus returns the difference between two counts.
func (c Counts) Minus(other Counts) Counts {
	return c.Plus(Counts{
		-other.ScheduledBuilds, -other.RunningBuilds,
		-other.ScheduledJobs, -other.RunningJobs, -other.WaitingJobs,
	})
}

// CountChanges collects changes of pipeline counts within one transaction. The zero value is ready to use.
//
// The counts of a pipeline are spread over up to 16 rows, by the last digit of the build's id. Transactions on
// different builds of a pipeline therefore rarely wait for the same row, and reading the counts costs the same
// for any number of builds. With a single writer new changes all go to one row, which is written once for all
// transactions of a commit. Each row alone means nothing.
type CountChanges struct{ bySlot map[countSlot]Counts }

// A countSlot identifies a row of pipeline_counts.
type countSlot struct{ pipelineID, slot string }

// Add records a change of a pipeline's counts by one of its builds.
func (c *CountChanges) Add(pipelineID, buildID string, change Counts) {
	if c.bySlot == nil {
		c.bySlot = make(map[countSlot]Counts)
	}
	slot := countSlot{pipelineID, buildID[len(buildID)-1:]}
	c.bySlot[slot] = c.bySlot[slot].Plus(change)
}

// Save writes the changes at the end of the transaction.
func (c *CountChanges) Save(q *db.Q) {
	for slot, change := range c.bySlot {
		if change == (Counts{}) {
			delete(c.bySlot, slot)
		}
	}
	if len(c.bySlot) > 0 {
		countFold.Add(q, *c)
	}
}

var countFold = &db.Fold[CountChanges]{Write: writeCounts}

// writeCounts writes changes of counts. All writers lock the rows in the same order.
func writeCounts(q *db.Q, changes []CountChanges) error {
	sums := map[countSlot]Counts{}
	for _, c := range changes {
		for slot, change := range c.bySlot {
			if q.SingleWriter() {
				slot.slot = "0"
			}
			sums[slot] = sums[slot].Plus(change)
		}
	}
	slots := make([]countSlot, 0, len(sums))
	for slot, change := range sums {
		if change != (Counts{}) {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b countSlot) int {
		return strings.Compare(a.pipelineID+a.slot, b.pipelineID+b.slot)
	})
	for _, slot := range slots {
		n := sums[slot]
		err := q.Later(`
			INSERT INTO pipeline_counts AS c (pipeline_id, slot, scheduled_builds, running_builds, scheduled_jobs, running_jobs, waiting_jobs)
			VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (pipeline_id, slot) DO UPDATE SET
				scheduled_builds = c.scheduled_builds + excluded.scheduled_builds,
				running_builds   = c.running_builds + excluded.running_builds,
				scheduled_jobs   = c.scheduled_jobs + excluded.scheduled_jobs,
				running_jobs     = c.running_jobs + excluded.running_jobs,
				waiting_jobs     = c.waiting_jobs + excluded.waiting_jobs`,
			slot.pipelineID, slot.slot, n.ScheduledBuilds, n.RunningBuilds, n.ScheduledJobs, n.RunningJobs, n.WaitingJobs)
		if err != nil {
			return err
		}
	}
	return nil
}

// loadCounts sets the counts of pipelines.
func loadCounts(q *db.Q, pipelines ...*Pipeline) error {
	byID := make(map[string]*Pipeline, len(pipelines))
	ids := make([]string, len(pipelines))
	for i, p := range pipelines {
		byID[p.ID], ids[i] = p, p.ID
	}
	in, arg := q.In("pipeline_id", 1, ids)
	type row struct {
		id string
		Counts
	}
	rows, err := db.All(q, func(scan db.Scan) (r row, err error) {
		return r, scan(&r.id, &r.ScheduledBuilds, &r.RunningBuilds, &r.ScheduledJobs, &r.RunningJobs, &r.WaitingJobs)
	}, `
		SELECT pipeline_id, scheduled_builds, running_builds, scheduled_jobs, running_jobs, waiting_jobs
		FROM pipeline_counts
		WHERE `+in, arg)
	for _, r := range rows {
		byID[r.id].Counts = byID[r.id].Counts.Plus(r.Counts)
	}
	return err
}
