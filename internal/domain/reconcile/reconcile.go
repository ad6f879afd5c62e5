// Package reconcile compares the rows of builds with their blobs. In the background it removes blobs of builds that no
// longer exist, and marks artifacts and logs whose bytes are gone, so that they are shown as what they are.
//
// Neither is normal: blobs are removed by tasks that are repeated until they succeed, and rows are written after their
// bytes. Both appear after a backup was restored without all of its blobs, or when something else deletes objects. A
// server with the wrong database or the wrong store must not remove what it does not know. So nothing is changed when
// much is missing; an administrator decides.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const (
	// orphansTask lists all blobs, which takes long with many.
	orphansTask    = "blob-orphans"
	orphansEvery   = 24 * time.Hour
	orphansTimeout = 2 * time.Hour
	// orphansGrace is how long, in addition to orphanAge, the server itself leaves blobs alone: a restored database may be
	// replaced by a newer one.
	orphansGrace = 6 * 24 * time.Hour
	// manyOrphans is from how many objects on a removal needs an administrator if they are more than half of all.
	manyOrphans = 1000

	// missingTask checks missingBatch artifacts and as many logs at a time, and begins again after the last.
	missingTask    = "blob-missing"
	missingEvery   = time.Hour
	missingTimeout = 10 * time.Minute
	missingBatch   = 500
	// manyMissing is how many of a batch can be missing before an administrator has to look.
	manyMissing = 50
)

// Reconciler compares rows and blobs.
type Reconciler struct {
	db    *db.DB
	blobs *blob.Store
	logs  *joblog.Service
	files *artifacts.Service
	clock core.Clock
	log   *slog.Logger

	orphaned prometheus.Gauge
	removed  prometheus.Counter
	missing  *prometheus.CounterVec
}

// New returns a Reconciler.
func New(d *db.DB, blobs *blob.Store, files *artifacts.Service, logs *joblog.Service, clock core.Clock, log *slog.Logger, metrics prometheus.Registerer) *Reconciler {
	r := &Reconciler{
		db: d, blobs: blobs, files: files, logs: logs, clock: clock, log: log,
		orphaned: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stackyard_blobs_orphaned", Help: "Blobs of builds that no longer exist and were not removed, when this process last looked."}),
		removed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "stackyard_blobs_orphaned_removed_total", Help: "Blobs of builds that no longer existed."}),
		missing:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stackyard_blobs_missing_total", Help: "Artifacts and logs whose bytes were found missing."}, []string{"kind"}),
	}
	metrics.MustRegister(r.orphaned, r.removed, r.missing)
	for _, k := range r.kinds() {
		r.missing.WithLabelValues(k.name)
	}
	return r
}

// Background registers the comparisons.
func (r *Reconciler) Background(runner *tasks.Runner) {
	runner.Repeat(orphansTask, orphansEvery, orphansTimeout, func(ctx context.Context) (more bool, err error) {
		return false, r.removeOrphans(ctx)
	})
	runner.Repeat(missingTask, missingEvery, missingTimeout, func(ctx context.Context) (more bool, err error) {
		for _, k := range r.kinds() {
			err = errors.Join(err, r.findMissing(ctx, k))
		}
		return false, err
	})
}

// removeOrphans removes blobs of builds that no longer exist, unless they are most of all blobs.
func (r *Reconciler) removeOrphans(ctx context.Context) error {
	old := r.clock().Add(-orphansGrace)
	found, err := FindOrphans(ctx, r.db, r.blobs, old)
	if err != nil {
		return err
	}
	r.orphaned.Set(float64(found.Objects))
	switch {
	case found.Objects == 0:
		return nil
	case found.Objects >= manyOrphans && found.Objects > found.Checked/2:
		r.log.Error("most blobs belong to no build, removed none; check --database and --blobs, then run: stackyard doctor --remove-orphans",
			"orphaned", found.Objects, "blobs", found.Checked, "example", found.Example)
		return nil
	}
	if found, err = RemoveOrphans(ctx, r.db, r.blobs, old); err != nil {
		return err
	}
	r.orphaned.Set(0)
	r.removed.Add(float64(found.Objects))
	r.log.Warn("removed blobs without builds", "objects", found.Objects, "bytes", found.Bytes, "example", found.Example)
	return nil
}

// A row refers to a blob.
type row struct {
	id  string
	key string // of a blob, or a prefix of keys; "" if there is none
}

// A kind is a kind of rows that refer to blobs.
type kind struct {
	name string
	// after returns some rows after a position, and the position of the last.
	after func(q *db.Q, position string, limit int) (rows []row, last string, err error)
	// exists reports whether the blob of a row exists.
	exists func(ctx context.Context, r row) (bool, error)
	// mark records that the bytes of a row are gone.
	mark func(ctx context.Context, r row) error
}

func (r *Reconciler) kinds() []kind {
	return []kind{
		{
			name: "artifact",
			after: func(q *db.Q, position string, limit int) (rows []row, last string, err error) {
				list, last, err := artifacts.StoredAfter(q, position, r.clock().Add(-time.Hour), limit)
				for _, a := range list {
					rows = append(rows, row{a.ID, a.Prefix()})
				}
				return rows, last, err
			},
			exists: func(ctx context.Context, row row) (bool, error) { return r.hasSome(ctx, row.key) },
			mark:   func(ctx context.Context, row row) error { return r.files.MarkMissing(ctx, row.id) },
		},
		{
			name: "log",
			after: func(q *db.Q, position string, limit int) (rows []row, last string, err error) {
				list, err := joblog.ArchivesAfter(q, position, limit)
				for _, a := range list {
					rows, last = append(rows, row{a.JobID, a.Key}), a.JobID
				}
				return rows, last, err
			},
			exists: func(ctx context.Context, row row) (bool, error) {
				_, err := r.blobs.Size(ctx, row.key)
				if errors.Is(err, blob.ErrNotFound) {
					return false, nil
				}
				return err == nil, err
			},
			mark: func(ctx context.Context, row row) error { return r.logs.MarkMissing(ctx, row.id, row.key) },
		},
	}
}

// hasSome reports whether there is a blob with a prefix.
func (r *Reconciler) hasSome(ctx context.Context, prefix string) (bool, error) {
	for _, err := range r.blobs.List(ctx, prefix) {
		return err == nil, err
	}
	return false, nil
}

// findMissing checks some rows of a kind and marks those whose bytes are gone, unless many are.
func (r *Reconciler) findMissing(ctx context.Context, k kind) error {
	var position, next string
	var rows []row
	err := r.db.Read(ctx, func(q *db.Q) (err error) {
		if position, err = positionOf(q, k.name); err != nil {
			return err
		}
		rows, next, err = k.after(q, position, missingBatch)
		return err
	})
	if err != nil {
		return err
	}
	var missing []row
	for _, row := range rows {
		if row.key == "" {
			continue
		}
		exists, err := k.exists(ctx, row)
		if err != nil {
			return err
		}
		if !exists {
			missing = append(missing, row)
		}
	}
	if len(rows) < missingBatch {
		next = "" // begin again
	}
	r.missing.WithLabelValues(k.name).Add(float64(len(missing)))
	if len(missing) >= manyMissing {
		r.log.Error("many blobs are missing, marked none; check that --blobs is the store of this database, or restore them from a backup",
			"kind", k.name, "missing", len(missing), "checked", len(rows), "example", missing[0].key)
	} else {
		for _, row := range missing {
			r.log.Warn("bytes are missing", "kind", k.name, "id", row.id, "blob", row.key)
			if err := k.mark(ctx, row); err != nil {
				return err
			}
		}
	}
	if next == position {
		return nil
	}
	return r.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`
			INSERT INTO reconciliations (name, position, updated_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at`, k.name, next, db.Micros(r.clock()))
		return err
	})
}

func positionOf(q *db.Q, name string) (position string, err error) {
	err = q.QueryRow(`SELECT position FROM reconciliations WHERE name = $1`, name).Scan(&position)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return position, err
}
