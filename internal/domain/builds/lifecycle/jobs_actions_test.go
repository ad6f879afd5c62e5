package lifecycle_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const onlyFailed = "Only failed, timed out or canceled jobs can be retried"

func TestRetry_AnswersWithTheNewJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a, label: A, priority: 3, parallelism: 2}", "{command: b, key: b, depends_on: a}")
		first := w.create(nil).String("jobs.1.id")
		w.start(first)
		w.end(first, 1)
		w.ada.Put(acme+"/jobs/"+first+"/reprioritize", map[string]any{"priority": 9}).Want(http.StatusOK)
		w.Clock.Advance(1e9)
		second := w.ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK)
		id := second.String("id")
		wantAt(t, second, map[string]any{
			"state": "scheduled", "type": "script", "name": "A", "step_key": "a", "command": "a", "priority.number": 9, "exit_status": nil,
			"parallel_group_index": 1, "parallel_group_total": 2, "cluster_queue_id": servertest.AcmeQueueID,
			"retried": false, "retried_in_job_id": nil, "retries_count": 1, "retry_type": "manual", "retry_source": nil, "retry_source_job_id": first, "retried_by": nil,
			"created_at": w.now(), "runnable_at": w.now(), "started_at": nil, "finished_at": nil,
		})
		wantAt(t, w.ada.Get(acme+"/jobs/"+first), map[string]any{
			"state": "failed", "retried": true, "retried_in_job_id": id, "retries_count": nil, "retry_type": nil, "retry_source": nil, "exit_status": 1, "retried_by.id": servertest.AdaID,
		})
		wantEqual(t, "step", second.String("step.id"), w.ada.Get(acme+"/jobs/"+first).String("step.id"))
		// Each job can be retried once; the way on is the new job's id.
		for _, path := range paths(1, first) {
			w.ada.Put(path+"/retry", nil).WantMessage(http.StatusUnprocessableEntity, "This job has already been retried")
		}
		w.start(id)
		w.end(id, 2)
		third := w.ada.Put(paths(1, id)[1]+"/retry", map[string]any{}).Want(http.StatusOK)
		wantAt(t, third, map[string]any{"retries_count": 2, "retry_source_job_id": id})
		w.wantStates(1, "running", "a scheduled, a failed, a failed, a scheduled, b waiting")
	})
}

func TestRetry_IsForJobsThatEndedBadly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		for _, name := range []string{"failed", "soft", "timed-out", "canceled", "expired"} {
			w.ada.Put(acme+"/jobs/"+w.job(1, name)+"/retry", nil).Want(http.StatusOK)
			wantEqual(t, name, w.ada.Get(acme+"/jobs/"+w.job(1, name)).String("state"), "scheduled")
		}
		for _, name := range []string{"passed", "running", "promised", "assigned", "accepted", "scheduled", "limited", "canceling", "timing-out", "broken", "blocked", "unblocked", "blocked-later", "wait", "retried"} {
			w.ada.Put(acme+"/jobs/"+w.job(1, name)+"/retry", nil).WantMessage(http.StatusBadRequest, onlyFailed)
		}
		// What failed before them runs again, so these wait again.
		wantEqual(t, "stopped", w.ada.Get(acme+"/jobs/"+w.job(1, "stopped")).String("state"), "waiting")
		w.ada.Put(acme+"/jobs/"+w.job(1, "stopped")+"/retry", nil).WantMessage(http.StatusBadRequest, onlyFailed)
	})
}

func TestRetry_FollowsWhatTheStepSays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps(
			"{command: a, key: never, retry: {manual: false}}",
			"{command: a, key: reasoned, retry: {manual: {allowed: false, reason: it deploys}}}",
			"{command: a, key: again, retry: {manual: {permit_on_passed: true}}}",
		)
		w.create(nil)
		w.run(1, "never", 1)
		w.run(1, "reasoned", 1)
		w.run(1, "again", 0)
		w.ada.Put(acme+"/jobs/"+w.job(1, "never")+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "This job cannot be retried by hand, because its step does not allow it")
		w.ada.Put(acme+"/jobs/"+w.job(1, "reasoned")+"/retry", nil).
			WantMessage(http.StatusUnprocessableEntity, "This job cannot be retried by hand: it deploys")
		w.ada.Put(acme+"/jobs/"+w.job(1, "again")+"/retry", nil).Want(http.StatusOK)
		w.wantStates(1, "failing", "never failed, reasoned failed, again passed, again scheduled")
	})
}

func TestRetry_RefusesJobsOfCanceledBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "{command: b, key: b}")
		w.create(nil)
		w.run(1, "a", 1)
		w.start(w.job(1, "b"))
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		for range 2 { // while it is canceling, and after
			w.ada.Put(acme+"/jobs/"+w.job(1, "a")+"/retry", nil).WantMessage(http.StatusUnprocessableEntity, "Jobs from canceled builds cannot be retried")
			if w.build(1).String("state") == "canceling" {
				w.end(w.job(1, "b"), 1)
			}
		}
		w.wantStates(1, "canceled", "a failed, b canceled")
	})
}

func TestRetry_HappensOnceHoweverManyAsk(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}")
		w.create(nil)
		w.run(1, "a", 1)
		id := w.job(1, "a")
		var mu sync.Mutex
		statuses := map[int]int{}
		var people sync.WaitGroup
		for range 8 {
			people.Go(func() {
				got := w.ada.Put(acme+"/jobs/"+id+"/retry", nil)
				mu.Lock()
				defer mu.Unlock()
				statuses[got.Status]++
			})
		}
		people.Wait()
		if statuses[http.StatusOK] != 1 || statuses[http.StatusUnprocessableEntity] != 7 {
			t.Errorf("got %v", statuses)
		}
		w.wantStates(1, "running", "a failed, a scheduled")
	})
}

func TestReprioritize_ReplacesThePriority(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "{block: Go, key: ask}", "wait")
		w.create(nil)
		id := w.job(1, "a")
		for i, priority := range []any{5, -3, 0, 2147483647, -2147483648} {
			path := paths(1, id)[i%2]
			answer := w.ada.Put(path+"/reprioritize", map[string]any{"priority": priority}).Want(http.StatusOK)
			wantAt(t, answer, map[string]any{"id": id, "state": "scheduled"})
			if got, want := answer.At("priority.number"), float64(priority.(int)); got != want {
				t.Errorf("priority is %v, want %v", got, want)
			}
		}
		for _, body := range []any{`{"priority": 1.5}`, `{"priority": 1.0}`, `{"priority": 1e2}`, `{"priority": "1"}`, `{"priority": null}`, `{"priority": true}`, `{"priority": [1]}`, `{"priority": {}}`, `{"priority": 99999999999999999999}`, `{"priority": 2147483648}`, `{}`, nil} {
			for _, path := range paths(1, id) {
				w.ada.Put(path+"/reprioritize", body).WantMessage(http.StatusBadRequest, "Priority must be an integer")
			}
		}
		w.ada.Put(acme+"/jobs/"+id+"/reprioritize", `[1]`).Want(http.StatusBadRequest)
		for _, name := range []string{"ask", "waiter"} {
			w.ada.Put(acme+"/jobs/"+w.job(1, name)+"/reprioritize", map[string]any{"priority": 1}).WantMessage(http.StatusUnprocessableEntity, "Only command jobs have a priority")
		}
	})
}

func TestUnblock_ReleasesABlockJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "{block: Go, key: ask}", "{command: b, key: b}", "{input: Who, key: who, depends_on: ~}", "{command: c, key: c, depends_on: who}")
		w.create(nil)
		w.wantStates(1, "scheduled", "a scheduled, ask waiting, b waiting, who blocked, c waiting")
		const mustBeBlocked = "The job's state must be blocked"
		w.ada.Put(acme+"/jobs/"+w.job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, mustBeBlocked)
		for _, name := range []string{"a", "b"} {
			w.ada.Put(acme+"/jobs/"+w.job(1, name)+"/unblock", nil).WantMessage(http.StatusBadRequest, "This job type cannot be unblocked")
		}
		w.run(1, "a", 0)
		w.wantStates(1, "passed", "a passed, ask blocked, b waiting, who blocked, c waiting")
		w.Clock.Advance(1e9)
		unblocked := w.ada.Put(paths(1, w.job(1, "ask"))[1]+"/unblock?Fields=x", map[string]any{}).Want(http.StatusOK)
		wantAt(t, unblocked, map[string]any{"state": "unblocked", "type": "manual", "unblocked_at": w.now(), "unblocked_by.id": servertest.AdaID, "unblockable": false})
		w.wantStates(1, "running", "a passed, ask unblocked, b scheduled, who blocked, c waiting")
		for _, path := range paths(1, w.job(1, "ask")) {
			w.ada.Put(path+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, mustBeBlocked)
		}
		w.ada.Put(acme+"/jobs/"+w.job(1, "who")+"/unblock", map[string]any{"unblocker": servertest.BoID, "fields": map[string]any{"unknown": "x"}}).Want(http.StatusOK)
		wantEqual(t, "unblocker", w.ada.Get(acme+"/jobs/"+w.job(1, "who")).String("unblocked_by.email"), "bo@acme.test")
		w.wantStates(1, "running", "a passed, ask unblocked, b scheduled, who unblocked, c scheduled")
		wantAt(t, w.build(1), map[string]any{"meta_data": map[string]any{}})
	})
}

func TestUnblock_RefusesWhoIsNotOfTheOrganization(t *testing.T) {
	const invalid = "The unblocker is not a valid user id for this organization"
	each(t, func(t *testing.T, w *world) {
		w.steps("{block: Go, key: ask}")
		w.create(nil)
		path := acme + "/jobs/" + w.job(1, "ask") + "/unblock"
		for _, unblocker := range []string{servertest.CyID, core.NewID(), "bo", "bo@acme.test"} {
			w.ada.Put(path, map[string]any{"unblocker": unblocker}).WantMessage(http.StatusUnprocessableEntity, invalid)
		}
		w.ada.Put(path, map[string]any{"unblocker": 7}).WantFieldError("unblocker", "must be")
		w.ada.Put(path, map[string]any{"fields": []string{"a"}}).WantFieldError("fields", "must be")
		w.wantStates(1, "passed", "ask blocked")
		w.ada.Put(path, map[string]any{"unblocker": strings.ToUpper(servertest.BoID)}).Want(http.StatusOK)
	})
}

func TestUnblock_TakesNullAndEmptyForTheCaller(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{block: Go, key: ask}")
		for i, unblocker := range []any{nil, ""} {
			w.create(nil)
			got := w.ada.Put(acme+"/jobs/"+w.job(i+1, "ask")+"/unblock", map[string]any{"unblocker": unblocker, "fields": nil}).Want(http.StatusOK)
			wantEqual(t, "unblocked_by", got.String("unblocked_by.id"), servertest.AdaID)
		}
	})
}

func TestUnblock_RefusesJobsOfCanceledBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "{input: Go, key: ask}")
		w.create(nil)
		w.start(w.job(1, "a"))
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		const canceled = "Jobs from canceled builds cannot be unblocked"
		w.ada.Put(acme+"/jobs/"+w.job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, canceled)
		w.end(w.job(1, "a"), 1)
		w.ada.Put(acme+"/jobs/"+w.job(1, "ask")+"/unblock", nil).WantMessage(http.StatusUnprocessableEntity, canceled)
		w.ada.Put(acme+"/jobs/"+w.job(1, "a")+"/unblock", nil).WantMessage(http.StatusBadRequest, "This job type cannot be unblocked")
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
		configure(w.Server, t, fields)
		w.create(nil)
		path := acme + "/jobs/" + w.job(1, "ask") + "/unblock"
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
			w.ada.Put(path, with(c.key, c.value)).WantFieldError("fields."+c.key, c.problem)
		}
		w.ada.Put(path, nil).WantFieldError("fields.version", "is required").WantFieldError("fields.channel", "is required")
		w.ada.Put(path, with("notes", map[string]any{"a": 1})).WantFieldError("fields", "must be")
		w.wantStates(1, "passed", "ask blocked, a waiting")
		wantAt(t, w.build(1), map[string]any{"meta_data": map[string]any{}})

		w.ada.Put(path, with("regions", []string{"eu", "us"})).Want(http.StatusOK)
		wantAt(t, w.build(1), map[string]any{"meta_data": map[string]any{"version": "1.2", "channel": "beta", "owner": "ada", "regions": "eu\nus"}})
	})
}

func TestUnblock_FillsInDefaultsAndKeepsMetaData(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		configure(w.Server, t, fields)
		w.create(map[string]any{"meta_data": map[string]any{"kept": "1", "owner": "nobody"}})
		w.ada.Put(acme+"/jobs/"+w.job(1, "ask")+"/unblock", map[string]any{"fields": map[string]any{"version": 1.5, "channel": "stable", "other": "x"}}).Want(http.StatusOK)
		wantAt(t, w.build(1), map[string]any{"meta_data": map[string]any{"kept": "1", "version": "1.5", "channel": "stable", "owner": "ada", "regions": "eu"}})
		wantEqual(t, "found by it", numbers(t, w.ada.Get(hello+"?meta_data[channel]=stable")), "1")
	})
}

// Choosing none of several options is an answer of its own, and not the default.
func TestUnblock_KeepsAnEmptySelection(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		configure(w.Server, t, `
steps:
  - block: Release
    key: ask
    fields:
      - {select: Regions, key: regions, multiple: true, required: false, default: [eu], options: [{label: EU, value: eu}, {label: US, value: us}]}
      - {select: Checks, key: checks, multiple: true, required: true, default: [unit], options: [{label: Unit, value: unit}]}
      - {text: Owner, key: owner, required: false, default: ada}
`)
		w.create(nil)
		path := acme + "/jobs/" + w.job(1, "ask") + "/unblock"
		w.ada.Put(path, map[string]any{"fields": map[string]any{"checks": []string{}}}).WantFieldError("fields.checks", "is required")
		w.ada.Put(path, map[string]any{"fields": map[string]any{"regions": []string{}, "checks": nil, "owner": ""}}).Want(http.StatusOK)
		wantAt(t, w.build(1), map[string]any{"meta_data": map[string]any{"regions": "", "checks": "unit", "owner": "ada"}})
	})
}

func TestUnblock_IsForTheTeamsThatTheStepAllows(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.withLevels("read_only", "build_and_read")
		w.Apply("organizations: [{slug: acme, teams: [{name: Releasers, slug: releasers, members: [bo@acme.test]}]}]")
		id := w.ada.Get(acme + "/teams/releasers").String("id")
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
			w.ada.Patch(acme+"/pipelines/"+c.slug, map[string]any{"configuration": "steps: [" + step + "]"}).Want(http.StatusOK)
			for who, want := range map[*servertest.Client]int{w.ada: c.ada, bo: c.bo} {
				created := w.ada.Post(acme+"/pipelines/"+c.slug+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
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
		w.steps("{command: a, key: a}", "{command: b, key: b}", "{command: soft, key: soft, soft_fail: true}", "{command: c, key: c, depends_on: a, allow_dependency_failure: true}", "{block: Go, key: ask, depends_on: ~}")
		w.create(nil)
		canceled := w.ada.Put(acme+"/jobs/"+w.job(1, "a")+"/cancel", nil).Want(http.StatusOK)
		wantAt(t, canceled, map[string]any{"state": "canceled", "finished_at": w.now()})
		w.start(w.job(1, "b"))
		wantEqual(t, "b", w.ada.Put(paths(1, w.job(1, "b"))[1]+"/cancel", nil).Want(http.StatusOK).String("state"), "canceling")
		w.ada.Put(acme+"/jobs/"+w.job(1, "b")+"/cancel", nil).Want(http.StatusOK)
		w.end(w.job(1, "b"), 143)
		wantAt(t, w.ada.Get(acme+"/jobs/"+w.job(1, "b")), map[string]any{"state": "canceled", "exit_status": 143})
		wantAt(t, w.ada.Put(acme+"/jobs/"+w.job(1, "soft")+"/cancel", nil), map[string]any{"state": "canceled", "soft_failed": true})
		w.ada.Put(acme+"/jobs/"+w.job(1, "ask")+"/cancel", nil).Want(http.StatusOK)
		w.wantStates(1, "failed", "a canceled, b canceled, soft canceled, c waiting_failed, ask canceled")
		w.ada.Put(acme+"/jobs/"+w.job(1, "a")+"/cancel", nil).WantMessage(http.StatusUnprocessableEntity, "Job can't be canceled because it's already finished.")
		w.ada.Put(acme+"/jobs/"+w.job(1, "a")+"/retry", nil).Want(http.StatusOK)
		w.wantStates(1, "failing", "a canceled, a scheduled, b canceled, soft canceled, c waiting, ask canceled")
	})
}

func TestExplain_SaysWhyAJobIsWhereItIs(t *testing.T) {
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
			for _, path := range paths(1, w.job(1, name)) {
				got := w.ada.Get(path + "/explain").Want(http.StatusOK)
				wantEqual(t, name, got.String("reason"), want)
				wantEqual(t, name, got.String("state"), w.ada.Get(path).String("state"))
			}
			w.Clock.Advance(1e9) // for the rate limit
		}
		limited := w.ada.Get(acme + "/jobs/" + w.job(1, "limited") + "/explain")
		wantAt(t, limited, map[string]any{"concurrency": map[string]any{"group": "one", "limit": 1, "active": 1, "ahead": 0}, "queue.key": "default", "queue.paused": false})
		waiting := w.ada.Get(acme + "/jobs/" + w.job(1, "blocked-later") + "/explain")
		wantAt(t, waiting, map[string]any{"waits_for.0.key": "running", "queue": nil, "concurrency": nil})
		w.ada.Post(acme+"/clusters/"+servertest.AcmeClusterID+"/queues/"+servertest.AcmeQueueID+"/pause_dispatch", nil).Want(http.StatusOK)
		wantEqual(t, "paused", w.ada.Get(acme+"/jobs/"+w.job(1, "scheduled")+"/explain").String("reason"), "Its queue default is paused.")
	})
}
