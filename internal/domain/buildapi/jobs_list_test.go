package buildapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
)

// zoo makes a build of hello with jobs in many states.
func (w *world) zoo() {
	w.T.Helper()
	w.Steps(
		"{command: a, key: passed}", "{command: a, key: failed}", "{command: a, key: soft, soft_fail: true}", "{command: a, key: retried}",
		"{command: a, key: running}", "{command: a, key: promised}", "{command: a, key: promised-soft, soft_fail: [{exit_status: 3}]}",
		"{command: a, key: assigned}", "{command: a, key: accepted}", "{command: a, key: scheduled}",
		"{command: a, key: holder, concurrency: 1, concurrency_group: one}", "{command: a, key: limited, concurrency: 1, concurrency_group: one}",
		"{command: a, key: canceled}", "{command: a, key: canceling}", "{command: a, key: timed-out}", "{command: a, key: timing-out}",
		"{command: a, key: expired}", "{command: a, key: broken, skip: true}",
		"{command: a, key: stopped, depends_on: failed}", "{block: Go, key: blocked, depends_on: passed}", "{block: Go, key: unblocked, depends_on: passed}",
		"{block: Go, key: blocked-later, depends_on: running}", "{wait: ~, key: wait, depends_on: passed}", "{wait: ~, key: wait-failed, depends_on: failed}",
	)
	w.Create(nil)
	ctx := w.T.Context()
	for name, status := range map[string]int{"passed": 0, "failed": 1, "soft": 1, "retried": 1} {
		w.Run(1, name, status)
	}
	w.Ada.Put(acme+"/jobs/"+w.Job(1, "retried")+"/retry", nil).Want(http.StatusOK)
	for _, name := range []string{"running", "promised", "promised-soft", "canceling", "timed-out", "timing-out"} {
		w.Start(w.Job(1, name))
	}
	w.WantNoError(w.Service.Promise(ctx, w.OrgID, w.Job(1, "promised"), "", 3, "", true))
	w.WantNoError(w.Service.Promise(ctx, w.OrgID, w.Job(1, "promised-soft"), "", 3, "", true))
	w.WantNoError(w.Assign(w.Job(1, "assigned")))
	w.WantNoError(w.Assign(w.Job(1, "accepted")))
	w.WantNoError(w.Service.Accept(ctx, w.OrgID, w.Job(1, "accepted"), ""))
	w.WantNoError(w.Service.CancelJob(ctx, w.OrgID, w.Job(1, "canceled")))
	w.WantNoError(w.Service.CancelJob(ctx, w.OrgID, w.Job(1, "canceling")))
	w.WantNoError(w.Service.TimeOut(ctx, w.OrgID, w.Job(1, "timed-out")))
	w.End(w.Job(1, "timed-out"), 143)
	w.WantNoError(w.Service.TimeOut(ctx, w.OrgID, w.Job(1, "timing-out")))
	w.WantNoError(w.Service.Expire(ctx, w.OrgID, w.Job(1, "expired")))
	w.Ada.Put(acme+"/jobs/"+w.Job(1, "unblocked")+"/unblock", nil).Want(http.StatusOK)
}

func keysOf(jobs []buildstest.Job) string {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name()
	}
	return strings.Join(names, " ")
}

func TestJobs_ShowStatesInTheWordsOfTheSpecification(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		w.WantStates(1, "failing", strings.Join([]string{
			"passed passed", "failed failed", "soft failed", "retried failed", "retried scheduled",
			"running running", "promised running", "promised-soft running", "assigned assigned", "accepted accepted", "scheduled scheduled",
			"holder scheduled", "limited limited", "canceled canceled", "canceling canceling", "timed-out timed_out", "timing-out timing_out",
			"expired expired", "broken broken", "stopped waiting_failed", "blocked blocked", "unblocked unblocked", "blocked-later waiting",
			"wait passed", "wait-failed waiting_failed",
		}, ", "))
	})
}

func TestJobs_ListByState(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		for query, want := range map[string]string{
			"state[]=passed":                     "passed wait",
			"state[]=failed":                     "failed soft retried promised",
			"state=failed":                       "failed soft retried promised",
			"state[]=running":                    "running promised-soft",
			"state[]=running&state[]=failed":     "failed soft retried running promised promised-soft",
			"state[]=scheduled":                  "retried scheduled holder",
			"state[]=limited":                    "limited",
			"state[]=assigned&state[]=accepted":  "assigned accepted",
			"state[]=canceled&state[]=canceling": "canceled canceling",
			"state[]=timed_out":                  "timed-out",
			"state[]=timing_out":                 "timing-out",
			"state[]=expired":                    "expired",
			"state[]=broken":                     "broken",
			"state[]=waiting":                    "blocked-later",
			"state[]=waiting_failed":             "stopped wait-failed",
			"state[]=blocked":                    "blocked",
			"state[]=unblocked":                  "unblocked",
			"state[]=blocked_failed&state[]=unblocked_failed&state[]=pending&state[]=skipped": "",
			"state[]=failed&include_retried_jobs=false":                                       "failed soft promised",
			"state[]=scheduled&step_key=retried":                                              "retried",
			"include_retried_jobs=0&step_key=retried":                                         "retried",
			"step_key=retried":  "retried retried",
			"step_key=unknown":  "",
			"group_key=unknown": "",
			"step_key=Passed":   "",
			"step_key=":         "",
			"group_key=":        "",
		} {
			servertest.WantEqual(t, query, keysOf(w.ListJobs(hello+"/1/jobs?per_page=100&"+query)), want)
		}
		// Where organizations do not count promises, they are running jobs.
		w.Apply("organizations: [{slug: acme, features: {early_failures: false}}]")
		servertest.WantEqual(t, "running", keysOf(w.ListJobs(hello+"/1/jobs?state[]=running")), "running promised promised-soft")
		servertest.WantEqual(t, "failed", keysOf(w.ListJobs(hello+"/1/jobs?state[]=failed")), "failed soft retried")
	})
}

func TestJobs_ShowWhatAJobPromised(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.zoo()
		promised := w.Ada.Get(acme + "/jobs/" + w.Job(1, "promised"))
		servertest.WantAt(t, promised, map[string]any{"state": "running", "promised_exit_status": 3, "promised_exit_status_at": w.Now(), "exit_status": nil})
		for _, field := range []string{"promised_exit_status", "promised_exit_status_at"} {
			servertest.WantEqual(t, field+" of a job that promised nothing", w.Ada.Get(acme+"/jobs/"+w.Job(1, "running")).Has(field), false)
		}
		// The promise wins over an exit that would have passed.
		w.End(w.Job(1, "promised"), 0)
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(1, "promised")), map[string]any{"state": "failed", "exit_status": 3, "promised_exit_status": 3})
	})
}

func TestPromise_CountsNowhereWithoutEarlyFailures(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply("organizations: [{slug: acme, features: {early_failures: false}}]")
		w.Steps("{command: a, key: a}", "{command: b, key: b, cancel_on_build_failing: true}")
		w.Create(nil)
		agent := w.Register(t, nil)
		job := agent.Acquire(w.Job(1, "a")).Start()
		job.Put(job.Path("/promise_failure"), map[string]any{"exit_status": 3}).Want(http.StatusNoContent)
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+job.ID), map[string]any{"state": "running", "promised_exit_status": 3})
		w.WantStates(1, "running", "a running, b scheduled")
		servertest.WantEqual(t, "failed jobs", keysOf(w.ListJobs(hello+"/1/jobs?state[]=failed")), "")
		// The promise is not kept either, whatever becomes of the switch.
		w.Apply("organizations: [{slug: acme, features: {early_failures: true}}]")
		servertest.WantEqual(t, "running jobs", keysOf(w.ListJobs(hello+"/1/jobs?state[]=running")), "a")
		job.Finish("0")
		w.WantStates(1, "running", "a passed, b scheduled")
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+job.ID), map[string]any{"exit_status": 0, "promised_exit_status": 3})
	})
}

func TestJobs_RefuseWrongParameters(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a, parallelism: 3}")
		w.Create(nil)
		link, err := url.Parse(w.Ada.Get(hello + "/1/jobs?per_page=1").Want(http.StatusOK).String("links.next"))
		if err != nil {
			t.Fatal(err)
		}
		cursor := link.Query().Get("after")
		w.Create(nil)
		elsewhere, err := url.Parse(w.Ada.Get(hello + "/2/jobs?per_page=1").Want(http.StatusOK).String("links.next"))
		if err != nil {
			t.Fatal(err)
		}
		foreign := elsewhere.Query().Get("after")
		for query, message := range map[string]string{
			"state[]=finished":                      `"finished" is not a state of a job`,
			"state[]=reserved":                      `"reserved" is not a state of a job`,
			"state[]=passed&state[]=x":              `"x" is not a state of a job`,
			"state[]=":                              `"" is not a state of a job`,
			"state[]=Passed":                        `"Passed" is not a state of a job`,
			"state[]=%20passed":                     `" passed" is not a state of a job`,
			"state[0]=passed":                       "state[0] is not a parameter; repeat state[] for each value",
			"per_page=":                             "per_page must be an integer from 1 to 100",
			"after=":                                "cursor",
			"before=":                               "cursor",
			"after=" + foreign:                      "belongs to another list",
			"before=" + foreign:                     "belongs to another list",
			"per_page=0":                            "per_page must be an integer from 1 to 100",
			"per_page=101":                          "per_page must be an integer from 1 to 100",
			"per_page=-1":                           "per_page must be an integer from 1 to 100",
			"per_page=x":                            "per_page must be an integer from 1 to 100",
			"per_page=1.5":                          "per_page must be an integer from 1 to 100",
			"after=x":                               "cursor",
			"before=!!":                             "cursor",
			"after=" + cursor[:len(cursor)/2]:       "cursor",
			"after=" + cursor + "&before=" + cursor: "after and before cannot be used together",
			"include_retried_jobs=x":                "include_retried_jobs must be true or false",
		} {
			refused := w.Ada.Get(hello + "/1/jobs?" + query).Want(http.StatusBadRequest)
			if !strings.Contains(refused.String("message"), message) {
				t.Errorf("%s: got %s, want %q", query, refused.Body, message)
			}
		}
	})
}

func TestJobs_ListByGroup(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, `
steps:
  - {command: a, key: before}
  - group: First
    key: first
    steps:
      - {command: b, key: b, parallelism: 2}
      - wait
      - {command: c, key: c}
  - group: Second
    key: second
    steps:
      - {command: d, key: d}
`)
		w.Create(nil)
		for query, want := range map[string]string{
			"":                            "before b b waiter c d",
			"group_key=first":             "b b waiter c",
			"group_key=second":            "d",
			"group_key=first&step_key=b":  "b b",
			"group_key=second&step_key=b": "",
			"step_key=first":              "",
			"group_key=before":            "",
		} {
			servertest.WantEqual(t, query, keysOf(w.ListJobs(hello+"/1/jobs?"+query)), want)
		}
		for name, group := range map[string]any{"before": nil, "b": "first", "c": "first", "d": "second"} {
			if got := w.Ada.Get(acme + "/jobs/" + w.Job(1, name)).At("group_key"); got != group {
				t.Errorf("group_key of %s is %v, want %v", name, got, group)
			}
		}
	})
}

// places says which jobs a page has, by step and place in it.
func places(r *servertest.Response) string {
	var list struct {
		Items []struct {
			StepKey string `json:"step_key"`
			Index   int    `json:"parallel_group_index"`
		}
	}
	r.Want(http.StatusOK).JSON(&list)
	var texts []string
	for _, j := range list.Items {
		texts = append(texts, fmt.Sprintf("%s%d", j.StepKey, j.Index))
	}
	return strings.Join(texts, " ")
}

func TestJobs_PageBothWaysWithTheirFilters(t *testing.T) {
	const filters = "state[]=scheduled&state[]=waiting&step_key=many&include_retried_jobs=false&per_page=5"
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: many, parallelism: 23}", "{command: b, key: other}", "wait", "{command: c, key: last, parallelism: 12}")
		w.Create(nil)
		page := w.Ada.Get(hello + "/1/jobs?" + filters)
		servertest.WantEqual(t, "self", page.String("links.self"), w.URL+hello+"/1/jobs?"+filters)
		servertest.WantEqual(t, "prev of the first", page.At("links.prev"), nil)
		var forth, back []string
		for {
			forth = append(forth, places(page))
			next, ok := page.At("links.next").(string)
			if !ok {
				break
			}
			link, err := url.Parse(next)
			if err != nil {
				t.Fatal(err)
			}
			query := link.Query()
			if query.Get("step_key") != "many" || query.Get("per_page") != "5" || query.Get("include_retried_jobs") != "false" ||
				!slices.Equal(query["state[]"], []string{"scheduled", "waiting"}) || !query.Has("after") || len(query) != 5 {
				t.Errorf("the link %s has lost filters", next)
			}
			// Clients read no more of the link than its query.
			page = w.Ada.Get(hello + "/1/jobs?" + link.RawQuery)
		}
		for {
			back = append(back, places(page))
			prev, ok := page.At("links.prev").(string)
			if !ok {
				break
			}
			page = w.Ada.Get(prev)
		}
		servertest.WantEqual(t, "forth", strings.Join(forth, " | "),
			"many0 many1 many2 many3 many4 | many5 many6 many7 many8 many9 | many10 many11 many12 many13 many14 | many15 many16 many17 many18 many19 | many20 many21 many22")
		slices.Reverse(back)
		servertest.WantEqual(t, "back", strings.Join(back, " | "), strings.Join(forth, " | "))
	})
}

func TestJobs_ShowThirtyUnlessMoreAreRequested(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, parallelism: 37}")
		w.Create(nil)
		all := w.Ada.Get(hello + "/1/jobs")
		servertest.WantEqual(t, "a page", all.Len("items"), 30)
		servertest.WantEqual(t, "the rest", w.Ada.Get(all.String("links.next")).Len("items"), 7)
		servertest.WantEqual(t, "next of a full last page", w.Ada.Get(hello+"/1/jobs?per_page=37").At("links.next"), nil)
		servertest.WantEqual(t, "a large page", w.Ada.Get(hello+"/1/jobs?per_page=100").Len("items"), 37)
	})
}

// A cursor holds its place when jobs change, come or leave the list.
func TestJobs_CursorsSurviveChanges(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}", "{command: c, key: c}", "{command: d, key: d}")
		w.Create(nil)
		first := w.Ada.Get(hello + "/1/jobs?per_page=2&state[]=scheduled")
		servertest.WantEqual(t, "the second", first.String("items.1.step_key"), "b")
		w.Run(1, "b", 1)
		w.Run(1, "c", 1)
		w.Ada.Put(acme+"/jobs/"+w.Job(1, "c")+"/retry", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "what follows", buildstest.Describe(w.ListJobs(first.String("links.next"))), "c scheduled, d scheduled")
	})
}

// Whatever leaves the list behind the reader's back, the way back to its start leads on again.
func TestJobs_PagingBackToTheStartOffersNext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{command: b, key: b}", "{command: c, key: c}")
		w.Create(nil)
		const scheduled = hello + "/1/jobs?per_page=1&state[]=scheduled"
		second := w.Ada.Get(w.Ada.Get(scheduled).String("links.next"))
		w.Start(w.Job(1, "a"))
		start := w.Ada.Get(second.String("links.prev"))
		servertest.WantEqual(t, "before the second job", buildstest.Describe(w.ListJobs(second.String("links.prev"))), "")
		servertest.WantEqual(t, "what follows", buildstest.Describe(w.ListJobs(start.String("links.next"))), "b scheduled")
	})
}
