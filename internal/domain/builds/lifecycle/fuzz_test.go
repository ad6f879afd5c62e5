package lifecycle_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/seal"
	"stackyard/internal/rules/flow"
)

// FuzzUpload uploads arbitrary definitions from a running job. Either the error says why not, and the build
// is as it was, or the build is one that goes on and comes to an end.
func FuzzUpload(f *testing.F) {
	for _, c := range stepCases {
		f.Add(c.yaml, false)
	}
	for _, yaml := range []string{
		`{"steps": [{"command": "a", "key": "a"}, "wait", {"command": "b", "depends_on": ["a", "up", "last", "gone"]}]}`,
		"[{group: Up, steps: [{command: a}, wait, block]}, {command: b, key: last}]",
		"[{group: Up, key: up, depends_on: last, steps: [{command: a, concurrency: 1, concurrency_group: g, parallelism: 3}]}]",
		"[{command: a, key: last, depends_on: null}, {trigger: hello, async: true}, {trigger: hello}, {trigger: none}]",
		"[{command: x, matrix: {setup: {a: [1, 2], b: [3]}, adjustments: [{with: {a: 9, b: 9}, soft_fail: [{exit_status: 1}]}]}}]",
		"[{wait: , continue_on_failure: true}, {input: x, fields: [{text: y, key: z}]}, {block: b, blocked_state: failed}]",
		"[{command: a, agents: {queue: nowhere}}]", "[{command: a, if: build.x}]", "steps: []", "&a [*a]", "{", "",
	} {
		f.Add(yaml, true)
	}
	u := newUploads(f)
	f.Fuzz(func(t *testing.T, yaml string, replace bool) { u.check(t, yaml, replace) })
}

// uploads are what it takes to upload to many builds of one database.
type uploads struct {
	db       *db.DB
	service  *lifecycle.Service
	pipeline *pipelines.Pipeline
	// build is the one that takes the next upload, up the job that makes it: what is refused must leave
	// them as they are.
	build, up string
	tried     int
}

func newUploads(f *testing.F) *uploads {
	f.Helper()
	u := &uploads{db: dbtest.New(f, db.SQLite)}
	key := seal.NewKey()
	if _, err := orgfile.Apply(f.Context(), u.db, key, core.SystemClock, []byte(servertest.World)); err != nil {
		f.Fatal(err)
	}
	u.service = lifecycle.New(u.db, pipelines.New(u.db, key, "http://ci.test", core.SystemClock, outbound.New(nil)), "http://ci.test", core.SystemClock, slog.New(slog.DiscardHandler))
	err := u.db.Read(f.Context(), func(q *db.Q) error {
		var org string
		if err := q.QueryRow(`SELECT organization_id FROM pipelines WHERE id = $1`, servertest.AcmePipelineID).Scan(&org); err != nil {
			return err
		}
		var err error
		u.pipeline, err = pipelines.ByID(q, pipelines.System(org), servertest.AcmePipelineID)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	u.pipeline.Configuration = "steps: [{group: Up, steps: [{command: up, key: up}]}, wait, {command: last, key: last}]"
	return u
}

// begin makes a build and starts the job that uploads.
func (u *uploads) begin(t *testing.T) {
	t.Helper()
	ctx, org := t.Context(), u.pipeline.OrganizationID
	build, err := u.service.Create(ctx, u.pipeline, lifecycle.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromAPI})
	if err != nil {
		t.Fatal(err)
	}
	u.build, u.up = build.ID, u.jobs(t, build.ID)[0].id
	for _, move := range []func() error{
		func() error { return buildstest.Assign(ctx, u.db, u.service, org, u.up) },
		func() error { return u.service.Accept(ctx, org, u.up, "") },
		func() error { return u.service.Start(ctx, org, u.up, "") },
	} {
		if err := move(); err != nil {
			t.Fatal(err)
		}
	}
}

// check uploads to a build, and ends the build if it took the steps.
func (u *uploads) check(t *testing.T, yaml string, replace bool) {
	if u.build == "" {
		u.begin(t)
	}
	done, err := u.service.Upload(t.Context(), u.pipeline.OrganizationID, u.up, lifecycle.Upload{ID: core.NewID(), Definition: []byte(yaml), Replace: replace})
	want := 3
	switch {
	case err != nil && core.KindOf(err) != core.Unprocessable:
		t.Fatalf("the error is not for a person: %v", err)
	case err == nil:
		want += *done.CreatedJobs
	}
	if jobs := u.jobs(t, u.build); len(jobs) != want || len(jobs) > 4000 {
		t.Errorf("the build has %d jobs, want %d", len(jobs), want)
	}
	u.wantSound(t)
	if u.tried++; err == nil || u.tried%1000 == 0 {
		u.end(t)
		u.forget(t)
	}
}

// end lets the build go on without the job that uploaded, and cancels what is left of it.
func (u *uploads) end(t *testing.T) {
	t.Helper()
	ctx, org := t.Context(), u.pipeline.OrganizationID
	if err := u.service.Finish(ctx, org, u.up, "", flow.Exit{}, ""); err != nil {
		t.Fatal(err)
	}
	state, tally := u.wantSound(t)
	if state.Ended() {
		return
	}
	if tally.Blocked+tally.Ready+tally.Held == 0 {
		t.Error("the build is stuck")
	}
	if err := u.service.Cancel(ctx, org, u.build, ""); err != nil {
		t.Fatal(err)
	}
	if state, _ := u.wantSound(t); !state.Ended() && state != flow.BuildCanceling {
		t.Errorf("the canceled build is %s", state)
	}
}

// An uploadedJob is what check asks about a job.
type uploadedJob struct {
	id    string
	state flow.JobState
}

func (u *uploads) jobs(t *testing.T, buildID string) []uploadedJob {
	t.Helper()
	var jobs []uploadedJob
	err := u.db.Read(t.Context(), func(q *db.Q) (err error) {
		jobs, err = db.All(q, func(scan db.Scan) (j uploadedJob, err error) { return j, scan(&j.id, &j.state) },
			`SELECT id, state FROM jobs WHERE build_id = $1 AND NOT retried ORDER BY position, id`, buildID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// wantSound fails the test unless the build's counts are those of its jobs.
func (u *uploads) wantSound(t *testing.T) (state flow.BuildState, kept flow.JobCounts) {
	t.Helper()
	err := u.db.Read(t.Context(), func(q *db.Q) error {
		var text string
		if err := q.QueryRow(`SELECT state, tally FROM builds WHERE id = $1`, u.build).Scan(&state, &text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &kept)
	})
	if err != nil {
		t.Fatal(err)
	}
	counted := kept
	counted.Waiting, counted.Blocked, counted.Ready, counted.Held = 0, 0, 0, 0
	jobs := u.jobs(t, u.build)
	for _, j := range jobs {
		switch {
		case j.state.Ended():
		case j.state.Held():
			counted.Held++
		case j.state.Ready():
			counted.Ready++
		case j.state == flow.Blocked:
			counted.Blocked++
		default:
			counted.Waiting++
		}
	}
	if counted != kept || kept.Jobs() != len(jobs) {
		t.Errorf("the build counts %+v, its %d jobs make %+v", kept, len(jobs), counted)
	}
	if state.Ended() != (kept.Live() == 0) {
		t.Errorf("the build is %s with %d jobs that have not ended", state, kept.Live())
	}
	return state, kept
}

// forget removes all builds, so that the database stays small.
func (u *uploads) forget(t *testing.T) {
	t.Helper()
	u.build = ""
	err := u.db.Write(t.Context(), func(q *db.Q) error {
		if _, err := q.Exec(`DELETE FROM tasks`); err != nil {
			return err
		}
		_, err := q.Exec(`DELETE FROM builds`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
