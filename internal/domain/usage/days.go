package usage

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	dayTask = "usage-days"
	// dayEvery is how old the numbers of today can be.
	dayEvery   = time.Hour
	dayTimeout = 10 * time.Minute
	// recounted is how many days are counted again each time: jobs of yesterday's builds can still run. Older days stay as
	// they are, also when their builds are removed.
	recounted = 3
	// keepDays is how long days are kept.
	keepDays = 400
	// removeBatch bounds the days that are removed in one transaction.
	removeBatch = 1000

	day = 24 * time.Hour
)

// Totals are numbers of builds that were created in a period.
type Totals struct {
	Builds     int64
	Jobs       int64 // of these builds, that were started
	JobSeconds int64 // how long these jobs have run; those that run do not count yet
}

// A Count returns the totals of an organization in a period.
type Count func(q *db.Q, organizationID string, from, to time.Time) (Totals, error)

// A Day is what an organization used on a day.
type Day struct {
	Day time.Time // its beginning in UTC
	Totals
}

// Background registers the counting of days.
func Background(r *tasks.Runner, d *db.DB, clock core.Clock, count Count) {
	r.Repeat(dayTask, dayEvery, dayTimeout, func(ctx context.Context) (more bool, err error) { return false, countDays(ctx, d, clock(), count) })
	r.Sweep("usage-day-removal", day, func(q *db.Q) (more bool, err error) {
		n, err := q.DeleteSome(removeBatch, "usage_days", "day < $1", number(clock().Add(-keepDays*day)))
		return n == removeBatch, err
	})
}

// countDays counts the last days of all organizations. What it costs does not grow with older builds.
func countDays(ctx context.Context, d *db.DB, now time.Time, count Count) error {
	var orgs []identity.Organization
	err := d.Read(ctx, func(q *db.Q) (err error) {
		orgs, err = identity.Organizations(q)
		return err
	})
	if err != nil {
		return err
	}
	today := now.UTC().Truncate(day)
	for _, org := range orgs {
		var counted []Day
		err := d.Read(ctx, func(q *db.Q) error {
			for i := range recounted {
				from := today.Add(-time.Duration(i) * day)
				totals, err := count(q, org.ID, from, from.Add(day))
				if err != nil {
					return err
				}
				counted = append(counted, Day{from, totals})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := saveDays(ctx, d, org.ID, counted); err != nil {
			return err
		}
	}
	return nil
}

// saveDays stores days that have changed, so that an idle server writes nothing.
func saveDays(ctx context.Context, d *db.DB, orgID string, counted []Day) error {
	known := map[time.Time]Totals{}
	err := d.Read(ctx, func(q *db.Q) error {
		list, err := Since(q, orgID, counted[len(counted)-1].Day)
		for _, day := range list {
			known[day.Day] = day.Totals
		}
		return err
	})
	if err != nil {
		return err
	}
	var changed []Day
	for _, day := range counted {
		// Builds that were removed were used nevertheless.
		before := known[day.Day]
		day.Totals = Totals{Builds: max(day.Builds, before.Builds), Jobs: max(day.Jobs, before.Jobs), JobSeconds: max(day.JobSeconds, before.JobSeconds)}
		if day.Totals != before {
			changed = append(changed, day)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return d.Write(ctx, func(q *db.Q) error {
		return db.InsertMany(q, `INSERT INTO usage_days (organization_id, day, builds, jobs, job_seconds)`, changed, func(d Day) []any {
			return []any{orgID, number(d.Day), d.Builds, d.Jobs, d.JobSeconds}
		}, `ON CONFLICT (organization_id, day) DO UPDATE SET builds = excluded.builds, jobs = excluded.jobs, job_seconds = excluded.job_seconds`)
	})
}

// Since returns the days of an organization from one on, oldest first. Days without builds are left out.
func Since(q *db.Q, orgID string, from time.Time) ([]Day, error) {
	return db.All(q, func(scan db.Scan) (d Day, err error) {
		var n int64
		err = scan(&n, &d.Builds, &d.Jobs, &d.JobSeconds)
		d.Day = time.Unix(n*int64(day/time.Second), 0).UTC()
		return d, err
	}, `SELECT day, builds, jobs, job_seconds FROM usage_days WHERE organization_id = $1 AND day >= $2 ORDER BY day`, orgID, number(from))
}

// number returns the day of a time, in days since 1970.
func number(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }
