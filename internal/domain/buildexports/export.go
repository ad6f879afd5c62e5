package buildexports

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const (
	// root is the folder of all exports in a bucket, and layout the version of what is below it.
	root, layout = "stackyard-exports", 1
	// pageSize is how many jobs or artifacts are read at once.
	pageSize = 100
)

// A manifest lists the files of an exported build. It is written when all of them are complete.
type manifest struct {
	Version      int          `json:"version"`
	ExportedAt   core.Time    `json:"exported_at"`
	Organization manifestRef  `json:"organization"`
	Pipeline     manifestRef  `json:"pipeline"`
	Build        manifestHead `json:"build"`
	Files        []file       `json:"files"`
}

type manifestRef struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

type manifestHead struct {
	ID         string          `json:"id"`
	Number     int             `json:"number"`
	State      flow.BuildState `json:"state"`
	FinishedAt core.Time       `json:"finished_at"`
}

// A file is a file of an exported build, or says why a log is missing.
type file struct {
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Error string `json:"error,omitempty"`
}

// An export is one attempt to export a build.
type export struct {
	*Service
	org      *identity.Organization
	pipeline *pipelines.Pipeline
	build    *builds.Build
	metaData map[string]string
	bucket   *blob.Store
	folder   string
	resumed  bool // an attempt before may have written some files
	files    []file
}

// export writes the files of a build. It does nothing if the build was deleted, or runs again: then another event
// follows.
func (s *Service) export(ctx context.Context, org *identity.Organization, bucket *blob.Store, p pending) (err error) {
	defer core.CatchPanic(&err)
	x := &export{Service: s, org: org, bucket: bucket, resumed: p.attempts > 0}
	err = s.DB.Read(ctx, func(q *db.Q) error { return x.load(q, p) })
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil || !x.build.State.Ended() {
		return err
	}
	x.folder = path.Join(root, org.Slug, x.build.CreatedAt.UTC().Format(time.DateOnly), x.pipeline.Slug, x.build.ID)
	var logs []string // ids of jobs
	for _, f := range []struct {
		name string
		each func(context.Context, func(any) error) error
	}{
		{"build.json", x.eachBuild},
		{"jobs.jsonl", func(ctx context.Context, yield func(any) error) (err error) {
			logs, err = x.eachJob(ctx, yield)
			return err
		}},
		{"artifacts.jsonl", x.eachArtifact},
	} {
		if err := x.writeLines(ctx, f.name, f.each); err != nil {
			return err
		}
	}
	for _, jobID := range logs {
		if err := x.writeLog(ctx, jobID); err != nil {
			return err
		}
	}
	return x.writeLines(ctx, "manifest.json", func(_ context.Context, yield func(any) error) error { return yield(x.manifest()) })
}

func (x *export) load(q *db.Q, p pending) (err error) {
	if x.build, err = builds.ByID(q, p.orgID, p.buildID); err != nil {
		return err
	}
	if x.pipeline, err = pipelines.ByID(q, pipelines.System(p.orgID), x.build.PipelineID); err != nil {
		return err
	}
	byBuild, err := metadata.OfBuilds(q, []string{p.buildID}, nil)
	x.metaData = byBuild[p.buildID]
	return err
}

func (x *export) manifest() manifest {
	return manifest{
		Version:      layout,
		ExportedAt:   core.At(x.Clock()),
		Organization: manifestRef{x.org.ID, x.org.Slug, x.org.Name},
		Pipeline:     manifestRef{x.pipeline.ID, x.pipeline.Slug, x.pipeline.Name},
		Build:        manifestHead{x.build.ID, x.build.Number, x.build.State, core.At(x.build.FinishedAt)},
		Files:        append([]file{}, x.files...),
	}
}

func (x *export) eachBuild(_ context.Context, yield func(any) error) error {
	return yield(x.BuildAPI.EventBuild(x.org, x.pipeline, x.build, x.metaData))
}

// eachJob yields all jobs, retried attempts included, and returns the ids of those that may have a log.
func (x *export) eachJob(ctx context.Context, yield func(any) error) (logs []string, err error) {
	page := route.CursorPage{Size: pageSize}
	for {
		jobs, err := x.jobs(ctx, page)
		if core.KindOf(err) == core.BadRequest && page.Size > 0 {
			page.Size = 0 // the page is too large: read one job at a time
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if err := yield(x.BuildAPI.ExportedJob(x.org, x.pipeline, x.build, j)); err != nil {
				return nil, err
			}
			if j.Type == flow.Script && !j.StartedAt.IsZero() {
				logs = append(logs, j.ID)
			}
			page.After = core.Cursor{j.Position, j.ID}
		}
		if len(jobs) < page.Limit() {
			return logs, nil
		}
	}
}

func (x *export) jobs(ctx context.Context, page route.CursorPage) (jobs []*builds.Job, err error) {
	err = x.DB.Read(ctx, func(q *db.Q) (err error) {
		if jobs, err = builds.ListJobs(q, x.build.ID, builds.JobFilter{Retried: true}, page); err != nil {
			return err
		}
		return x.Builds.FillAgentNames(q, x.org.ID, jobs...)
	})
	return jobs, err
}

func (x *export) eachArtifact(ctx context.Context, yield func(any) error) error {
	for after := ""; ; {
		var views []any
		var last string
		err := x.DB.Read(ctx, func(q *db.Q) (err error) {
			views, last, err = x.Artifacts.Exported(q, x.org, x.pipeline, x.build, after, pageSize)
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range views {
			if err := yield(v); err != nil {
				return err
			}
		}
		if len(views) < pageSize {
			return nil
		}
		after = last
	}
}

// writeLog writes the log of a job, if it has one. A log whose bytes are gone is noted in the manifest.
func (x *export) writeLog(ctx context.Context, jobID string) error {
	name := "logs/" + jobID + ".log"
	log, err := x.Logs.Open(ctx, joblog.Job{OrganizationID: x.org.ID, PipelineID: x.pipeline.ID, BuildID: x.build.ID, ID: jobID})
	if err == nil && log.Size > 0 && !x.written(ctx, name, log.Size) {
		err = x.write(ctx, name, log.Size, func(ctx context.Context, w io.Writer) error { return log.Copy(ctx, w, 0, log.Size) })
	}
	if lost, ok := errors.AsType[*core.Error](err); ok && (lost.Kind == core.Gone || lost.Kind == core.NotFound) {
		x.files = append(x.files, file{Name: name, Error: lost.Message})
		return nil
	}
	return err
}

// written reports whether an attempt before has written a file completely.
func (x *export) written(ctx context.Context, name string, size int64) bool {
	if !x.resumed {
		return false
	}
	if got, err := x.bucket.Size(ctx, path.Join(x.folder, name)); err != nil || got != size {
		return false
	}
	x.files = append(x.files, file{Name: name, Size: size})
	return true
}
