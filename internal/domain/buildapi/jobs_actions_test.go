package buildapi_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
)

const onlyFailed = "Only failed, timed out or canceled jobs can be retried"

func TestRetry_AnswersWithTheNewJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, label: A, priority: 3, parallelism: 2}", "{command: b, key: b, depends_on: a}")
		first := w.Create(nil).String("jobs.1.id")
		w.Start(first)
		w.End(first, 1)
		w.Ada.Put(acme+"/jobs/"+first+"/reprioritize", map[string]any{"priority": 9}).Want(http.StatusOK)
		w.Clock.Advance(1e9)
		second := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK)
		id := second.String("id")
		servertest.WantAt(t, second, map[string]any{
			"state": "scheduled", "type": "script", "name": "A", "step_key": "a", "command": "a", "priority.number": 9, "exit_status": nil,
			"parallel_group_index": 1, "parallel_group_total": 2, "cluster_queue_id": servertest.AcmeQueueID,
			"retried": false, "retried_in_job_id": nil, "retries_count": 1, "retry_type": "manual", "retry_source": nil, "retry_source_job_id": first, "retried_by": nil,
			"created_at": w.Now(), "runnable_at": w.Now(), "started_at": nil, "finished_at": nil,
		})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+first), map[string]any{
			"state": "failed", "retried": true, "retried_in_job_id": id, "retries_count": nil, "retry_type": nil, "retry_source": nil, "exit_status": 1, "retried_by.id": servertest.AdaID,
		})
		servertest.WantEqual(t, "step", second.String("step.id"), w.Ada.Get(acme+"/jobs/"+first).String("step.id"))
		// Each job can be retried once; the way on is the new job's id.
		for _, path := range paths(1, first) {
			w.Ada.Put(path+"/retry", nil).WantMessage(http.StatusUnprocessableEntity, "This job has already been retried")
		}
		w.Start(id)
		w.End(id, 2)
		third := w.Ada.Put(paths(1, id)[1]+"/retry", map[string]any{}).Want(http.StatusOK)
		servertest.WantAt(t, third, map[string]any{"retries_count": 2, "retry_source_job_id": id})
		w.WantStates(1, "running", "a scheduled, a failed, a failed, a scheduled, b waiting")
	})
}

func TestRetry_IsForJobsThatEndedBadly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		for _, name := range []string{"failed", "soft", "timed-out", "canceled", "expired"} {
			w.Ada.Put(acme+"/jobs/"+w.Job(1, name)+"/retry", nil).Want(http.StatusOK)
			servertest.WantEqual(t, name, w.Ada.Get(acme+"/jobs/"+w.Job(1, name)).String("state"), "scheduled")
		}
		for _, name := range []string{"passed", "running", "promised", "assigned", "accepted", "scheduled", "limited", "canceling", "timing-out", "broken", "blocked", "unblocked", "blocked-later", "wait", "retried"} {
			w.Ada.Put(acme+"/jobs/"+w.Job(1, name)+"/retry", nil).WantMessage(http.StatusBadRequest, onlyFailed)
		}
		// What failed before them runs again, so these wait again.
		servertest.WantEqual(t, "stopped", w.Ada.Get(acme+"/jobs/"+w.Job(1, "stopped")).String("state"), "waiting")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "stopped")+"/retry", nil).WantMessage(http.StatusBadRequest, onlyFailed)
	})
}

func TestRetry_FollowsWhatTheStepSays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			"{command: a, key: never, retry: {manual: false}}",
			"{command: a, key: reasoned, retry: {manual: {allowed: false, reason: it deploys}}}",
			"{command: a, key: again, retry: {manual: {permit_on_passed: true}}}",
		)
		w.Create(nil)
		w.Run(1, "never", 1)
		w.Run(1, "reasoned", 1)
		w.Run(1, "again", 0)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "never")+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "This job cannot be retried by hand, because its step does not allow it")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "reasoned")+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "This job cannot be retried by hand: it deploys")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "again")+"/retry", nil).Want(http.StatusOK)
		w.WantStates(1, "failing", "never failed, reasoned failed, again passed, again scheduled")
	})
}

func TestRetry_RefusesJobsOfCanceledBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}")
		w.Create(nil)
		w.Run(1, "a", 1)
		w.Start(w.Job(1, "b"))
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		for range 2 { // while it is canceling, and after
			w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).WantMessage(http.StatusUnprocessableEntity, "Jobs from canceled builds cannot be retried")
			if w.Build(1).String("state") == "canceling" {
				w.End(w.Job(1, "b"), 1)
			}
		}
		w.WantStates(1, "canceled", "a failed, b canceled")
	})
}

func TestRetry_HappensOnceHoweverManyAsk(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}")
		w.Create(nil)
		w.Run(1, "a", 1)
		id := w.Job(1, "a")
		var mu sync.Mutex
		statuses := map[int]int{}
		var people sync.WaitGroup
		for range 8 {
			people.Go(func() {
				got := w.Ada.Put(acme+"/jobs/"+id+"/retry", nil)
				mu.Lock()
				defer mu.Unlock()
				statuses[got.Status]++
			})
		}
		people.Wait()
		if statuses[http.StatusOK] != 1 || statuses[http.StatusUnprocessableEntity] != 7 {
			t.Errorf("got %v", statuses)
		}
		w.WantStates(1, "running", "a failed, a scheduled")
	})
}

func TestReprioritize_ReplacesThePriority(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}", "wait")
		w.Create(nil)
		id := w.Job(1, "a")
		for i, priority := range []any{5, -3, 0, 2147483647, -2147483648} {
			path := paths(1, id)[i%2]
			response := w.Ada.Put(path+"/reprioritize", map[string]any{"priority": priority}).Want(http.StatusOK)
			servertest.WantAt(t, response, map[string]any{"id": id, "state": "scheduled"})
			if got, want := response.At("priority.number"), float64(priority.(int)); got != want {
				t.Errorf("priority is %v, want %v", got, want)
			}
		}
		for _, body := range []any{`{"priority": 1.5}`, `{"priority": 1.0}`, `{"priority": 1e2}`, `{"priority": "1"}`, `{"priority": null}`, `{"priority": true}`, `{"priority": [1]}`, `{"priority": {}}`, `{"priority": 99999999999999999999}`, `{"priority": 2147483648}`, `{}`, nil} {
			for _, path := range paths(1, id) {
				w.Ada.Put(path+"/reprioritize", body).WantMessage(http.StatusBadRequest, "Priority must be an integer")
			}
		}
		w.Ada.Put(acme+"/jobs/"+id+"/reprioritize", `[1]`).Want(http.StatusBadRequest)
		for _, name := range []string{"ask", "waiter"} {
			w.Ada.Put(acme+"/jobs/"+w.Job(1, name)+"/reprioritize", map[string]any{"priority": 1}).WantMessage(http.StatusUnprocessableEntity, "Only command jobs have a priority")
		}
	})
}

func TestUnblock_ReleasesABlockJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask}", "{command: b, key: b}", "{input: Who, key: who, depends_on: ~}", "{command: c, key: c, depends_on: who}")
		w.Create(nil)
		w.WantStates(1, "scheduled", "a scheduled, ask waiting, b waiting, who blocked, c waiting")
		const mustBeBlocked = "The job's state must be blocked"
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, mustBeBlocked)
		for _, name := range []string{"a", "b"} {
			w.Ada.Put(acme+"/jobs/"+w.Job(1, name)+"/unblock", nil).WantMessage(http.StatusBadRequest, "This job type cannot be unblocked")
		}
		w.Run(1, "a", 0)
		w.WantStates(1, "passed", "a passed, ask blocked, b waiting, who blocked, c waiting")
		w.Clock.Advance(1e9)
		unblocked := w.Ada.Put(paths(1, w.Job(1, "ask"))[1]+"/unblock?Fields=x", map[string]any{}).Want(http.StatusOK)
		servertest.WantAt(t, unblocked, map[string]any{"state": "unblocked", "type": "manual", "unblocked_at": w.Now(), "unblocked_by.id": servertest.AdaID, "unblockable": false})
		w.WantStates(1, "running", "a passed, ask unblocked, b scheduled, who blocked, c waiting")
		for _, path := range paths(1, w.Job(1, "ask")) {
			w.Ada.Put(path+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, mustBeBlocked)
		}
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "who")+"/unblock", map[string]any{"unblocker": servertest.BoID, "fields": map[string]any{"unknown": "x"}}).Want(http.StatusOK)
		servertest.WantEqual(t, "unblocker", w.Ada.Get(acme+"/jobs/"+w.Job(1, "who")).String("unblocked_by.email"), "bo@acme.test")
		w.WantStates(1, "running", "a passed, ask unblocked, b scheduled, who unblocked, c scheduled")
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data": map[string]any{}})
	})
}

func TestUnblock_RefusesPeopleOutsideTheOrganization(t *testing.T) {
	const invalid = "The unblocker is not a valid user id for this organization"
	each(t, func(t *testing.T, w *world) {
		w.Steps("{block: Go, key: ask}")
		w.Create(nil)
		path := acme + "/jobs/" + w.Job(1, "ask") + "/unblock"
		for _, unblocker := range []string{servertest.CyID, core.NewID(), "bo", "bo@acme.test"} {
			w.Ada.Put(path, map[string]any{"unblocker": unblocker}).WantMessage(http.StatusUnprocessableEntity, invalid)
		}
		w.Ada.Put(path, map[string]any{"unblocker": 7}).WantFieldError("unblocker", "must be")
		w.Ada.Put(path, map[string]any{"fields": []string{"a"}}).WantFieldError("fields", "must be")
		w.WantStates(1, "passed", "ask blocked")
		w.Ada.Put(path, map[string]any{"unblocker": strings.ToUpper(servertest.BoID)}).Want(http.StatusOK)
	})
}

func TestUnblock_TakesNullAndEmptyForTheCaller(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{block: Go, key: ask}")
		for i, unblocker := range []any{nil, ""} {
			w.Create(nil)
			got := w.Ada.Put(acme+"/jobs/"+w.Job(i+1, "ask")+"/unblock", map[string]any{"unblocker": unblocker, "fields": nil}).Want(http.StatusOK)
			servertest.WantEqual(t, "unblocked_by", got.String("unblocked_by.id"), servertest.AdaID)
		}
	})
}

func TestUnblock_RefusesJobsOfCanceledBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{input: Go, key: ask}")
		w.Create(nil)
		w.Start(w.Job(1, "a"))
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		const canceled = "Jobs from canceled builds cannot be unblocked"
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, canceled)
		w.End(w.Job(1, "a"), 1)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, canceled)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/unblock", nil).WantMessage(http.StatusBadRequest, "This job type cannot be unblocked")
	})
}

const fields = `
steps:
  - block: Release
    key: ask
    fields:
      - {text: Version, key: version, format: "[0-9]+\\.[0-9]+"}
      - {text: Notes, key: notes, required: false}
      - {text: Owner, key: owner, default: ada}
      - {select: Channel, key: channel, options: [{label: Stable, value: stable}, {label: Beta, value: beta}]}
      - {select: Regions, key: regions, multiple: true, required: false, default: [eu], options: [{label: EU, value: eu}, {label: US, value: us}]}
  - {command: a, key: a}
`

func TestUnblock_ChecksTheFieldsOfTheStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, fields)
		w.Create(nil)
		path := acme + "/jobs/" + w.Job(1, "ask") + "/unblock"
		good := map[string]any{"version": "1.2", "channel": "beta"}
		with := func(key string, value any) map[string]any {
			sent := map[string]any{key: value}
			for k, v := range good {
				if _, given := sent[k]; !given {
					sent[k] = v
				}
			}
			return map[string]any{"fields": sent}
		}
		for _, c := range []struct {
			key     string
			value   any
			problem string
		}{
			{"version", "", "is required"},
			{"version", nil, "is required"},
			{"version", "x1.2", "must match"},
			{"version", "1.2\n", "must match"},
			{"version", "1.2 1.3", "must match"},
			{"channel", "", "is required"},
			{"channel", "gamma", "must be one of"},
			{"channel", "Beta", "must be one of"},
			{"channel", []string{"stable", "beta"}, "must be one of"},
			{"regions", []string{"eu", "asia"}, "must be one of"},
			{"notes", strings.Repeat("x", 100_001), "too long"},
		} {
			w.Ada.Put(path, with(c.key, c.value)).WantFieldError("fields."+c.key, c.problem)
		}
		w.Ada.Put(path, nil).WantFieldError("fields.version", "is required").WantFieldError("fields.channel", "is required")
		w.Ada.Put(path, with("notes", map[string]any{"a": 1})).WantFieldError("fields", "must be")
		w.WantStates(1, "passed", "ask blocked, a waiting")
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data": map[string]any{}})

		w.Ada.Put(path, with("regions", []string{"eu", "us"})).Want(http.StatusOK)
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data": map[string]any{"version": "1.2", "channel": "beta", "owner": "ada", "regions": "eu\nus"}})
	})
}

func TestUnblock_FillsInDefaultsAndKeepsMetaData(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, fields)
		w.Create(map[string]any{"meta_data": map[string]any{"kept": "1", "owner": "nobody"}})
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/unblock", map[string]any{"fields": map[string]any{"version": 1.5, "channel": "stable", "other": "x"}}).Want(http.StatusOK)
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data": map[string]any{"kept": "1", "version": "1.5", "channel": "stable", "owner": "ada", "regions": "eu"}})
		servertest.WantEqual(t, "found by it", buildstest.Numbers(t, w.Ada.Get(hello+"?meta_data[channel]=stable")), "1")
	})
}

// Choosing none of several options is an answer of its own, and not the default.
func TestUnblock_KeepsAnEmptySelection(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
steps:
  - block: Release
    key: ask
    fields:
      - {select: Regions, key: regions, multiple: true, required: false, default: [eu], options: [{label: EU, value: eu}, {label: US, value: us}]}
      - {select: Checks, key: checks, multiple: true, required: true, default: [unit], options: [{label: Unit, value: unit}]}
      - {text: Owner, key: owner, required: false, default: ada}
`)
		w.Create(nil)
		path := acme + "/jobs/" + w.Job(1, "ask") + "/unblock"
		w.Ada.Put(path, map[string]any{"fields": map[string]any{"checks": []string{}}}).WantFieldError("fields.checks", "is required")
		w.Ada.Put(path, map[string]any{"fields": map[string]any{"regions": []string{}, "checks": nil, "owner": ""}}).Want(http.StatusOK)
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data": map[string]any{"regions": "", "checks": "unit", "owner": "ada"}})
	})
}

func TestUnblock_IsForTheTeamsThatTheStepAllows(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.withLevels("read_only", "build_and_read")
		w.Apply("organizations: [{slug: acme, teams: [{name: Releasers, slug: releasers, members: [bo@acme.test]}]}]")
		id := w.Ada.Get(acme + "/teams/releasers").String("id")
		bo := w.As(t, servertest.Bo)
		for number, c := range []struct {
			slug, teams string
			ada, bo     int
		}{
			{"read-only", "", http.StatusOK, http.StatusForbidden},
			{"build-and-read", "", http.StatusOK, http.StatusOK},
			{"read-only", "releasers", http.StatusForbidden, http.StatusOK},
			{"read-only", id, http.StatusForbidden, http.StatusOK},
			{"build-and-read", "everyone", http.StatusOK, http.StatusForbidden},
			{"build-and-read", "[gone, everyone]", http.StatusOK, http.StatusForbidden},
		} {
			step := "{block: Go, key: ask}"
			if c.teams != "" {
				step = "{block: Go, key: ask, allowed_teams: " + c.teams + "}"
			}
			w.Ada.Patch(acme+"/pipelines/"+c.slug, map[string]any{"configuration": "steps: [" + step + "]"}).Want(http.StatusOK)
			for who, want := range map[*servertest.Client]int{w.Ada: c.ada, bo: c.bo} {
				created := w.Ada.Post(acme+"/pipelines/"+c.slug+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
				got := who.Put(acme+"/jobs/"+created.String("jobs.0.id")+"/unblock", nil)
				if got.Status != want {
					t.Errorf("case %d: status %d, want %d: %s", number, got.Status, want, got.Body)
				}
			}
		}
	})
}

func TestCancelJob_EndsOneJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}", "{command: soft, key: soft, soft_fail: true}", "{command: c, key: c, depends_on: a, allow_dependency_failure: true}", "{block: Go, key: ask, depends_on: ~}")
		w.Create(nil)
		canceled := w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/cancel", nil).Want(http.StatusOK)
		servertest.WantAt(t, canceled, map[string]any{"state": "canceled", "finished_at": w.Now()})
		w.Start(w.Job(1, "b"))
		servertest.WantEqual(t, "b", w.Ada.Put(paths(1, w.Job(1, "b"))[1]+"/cancel", nil).Want(http.StatusOK).String("state"), "canceling")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "b")+"/cancel", nil).Want(http.StatusOK)
		w.End(w.Job(1, "b"), 143)
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(1, "b")), map[string]any{"state": "canceled", "exit_status": 143})
		servertest.WantAt(t, w.Ada.Put(acme+"/jobs/"+w.Job(1, "soft")+"/cancel", nil), map[string]any{"state": "canceled", "soft_failed": true})
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "ask")+"/cancel", nil).Want(http.StatusOK)
		w.WantStates(1, "failed", "a canceled, b canceled, soft canceled, c waiting_failed, ask canceled")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/cancel", nil).WantMessage(http.StatusUnprocessableEntity, "Job can't be canceled because it's already finished.")
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "a")+"/retry", nil).Want(http.StatusOK)
		w.WantStates(1, "failing", "a canceled, a scheduled, b canceled, soft canceled, c waiting, ask canceled")
	})
}

func TestExplain_ReportsWhyAJobIsWhereItIs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		for name, want := range map[string]string{
			"passed":        "It passed.",
			"failed":        "It failed with exit status 1.",
			"soft":          "It failed with exit status 1, which its step allows.",
			"running":       "It runs.",
			"scheduled":     "It waits for an agent of the queue default.",
			"assigned":      "It has been offered to an agent, which has not accepted it yet.",
			"accepted":      "An agent has taken it and is about to start it.",
			"limited":       "Its concurrency group one lets 1 of its jobs run at a time; 1 do, and 0 are ahead of it.",
			"canceled":      "It was canceled.",
			"canceling":     "It has been canceled, and its agent is stopping it.",
			"timed-out":     "It ran for too long and was stopped.",
			"timing-out":    "It has run for too long, and its agent is stopping it.",
			"expired":       "No agent took it in time.",
			"stopped":       "A step that it depends on failed or was canceled, so it does not run unless that is retried.",
			"blocked":       "It waits for a person to unblock it.",
			"unblocked":     "A person has unblocked it.",
			"blocked-later": "It waits for other steps to end: running.",
			"broken":        "Its step is skipped.",
		} {
			for _, path := range paths(1, w.Job(1, name)) {
				got := w.Ada.Get(path + "/explain").Want(http.StatusOK)
				servertest.WantEqual(t, name, got.String("reason"), want)
				servertest.WantEqual(t, name, got.String("state"), w.Ada.Get(path).String("state"))
			}
			w.Clock.Advance(1e9) // for the rate limit
		}
		limited := w.Ada.Get(acme + "/jobs/" + w.Job(1, "limited") + "/explain")
		servertest.WantAt(t, limited, map[string]any{"concurrency": map[string]any{"group": "one", "limit": 1, "active": 1, "ahead": 0}, "queue.key": "default", "queue.paused": false})
		waiting := w.Ada.Get(acme + "/jobs/" + w.Job(1, "blocked-later") + "/explain")
		servertest.WantAt(t, waiting, map[string]any{"waits_for.0.key": "running", "queue": nil, "concurrency": nil})
		w.Ada.Post(acme+"/clusters/"+servertest.AcmeClusterID+"/queues/"+servertest.AcmeQueueID+"/pause_dispatch", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "paused", w.Ada.Get(acme+"/jobs/"+w.Job(1, "scheduled")+"/explain").String("reason"), "Its queue default is paused.")
	})
}
