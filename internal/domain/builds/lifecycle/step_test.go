package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/jobapi"
	"stackyard/internal/platform/core"
)

// step returns an attribute of a step of the first build as text.
func (w *world) step(name, attribute string) string {
	w.T.Helper()
	step, err := w.Service.Step(w.T.Context(), w.OrgID, w.Build(1).String("id"), name)
	w.WantNoError(err)
	text, err := jobapi.ExportStep(step, attribute, false)
	w.WantNoError(err)
	return text
}

// update changes an attribute of a step of the first build.
func (w *world) update(name string, u lifecycle.StepUpdate) error {
	w.T.Helper()
	if u.ID == "" {
		u.ID = core.NewID()
	}
	return w.Service.UpdateStep(w.T.Context(), w.OrgID, w.Build(1).String("id"), name, u)
}

func TestStep_ReportsItsAttributes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			`{command: first, key: first, label: First}`,
			`{command: "echo <hi>", key: second, label: Second, if: build.branch == "main", depends_on: [first, later], agents: {queue: default, os: linux}, `+
				`env: {B: "2", A: "1"}, priority: 7, parallelism: 3, timeout_in_minutes: 9, concurrency: 2, concurrency_group: deploys, notify: [{slack: "#team"}]}`,
			`{block: "Really?", key: ask}`,
		)
		w.Create(nil)
		for attribute, want := range map[string]string{
			"key": "second", "type": "command", "label": "Second", "state": "waiting_for_dependencies", "outcome": "neutral",
			"command": "echo <hi>", "agents": "queue=default\nos=linux", "env": "A=1\nB=2", "if": `build.branch == "main"`,
			"depends_on": "first\nlater", "notify": `[{"slack":"#team"}]`, "priority": "7", "parallelism": "3", "timeout": "9",
			"concurrency_key": "deploys", "concurrency_limit": "2",
		} {
			servertest.WantEqual(t, attribute, w.step("second", attribute), want)
		}
		for attribute, want := range map[string]string{"key": "ask", "type": "block", "label": "Really?", "command": "", "agents": "", "timeout": "", "concurrency_key": "", "notify": ""} {
			servertest.WantEqual(t, attribute, w.step("ask", attribute), want)
		}
		servertest.WantEqual(t, "by id", w.step(w.step("second", "id"), "label"), "Second")
		var whole map[string]any
		w.WantNoError(json.Unmarshal([]byte(w.step("second", "")), &whole))
		servertest.WantEqual(t, "whole", fmt.Sprint(whole["priority"], whole["depends_on"]), "7 [first later]")
	})
}

func TestStep_ExportsJSON(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: 'say "<hi>"', key: one, agents: {queue: default}, env: {A: "1"}}`)
		w.Create(nil)
		step, err := w.Service.Step(t.Context(), w.OrgID, w.Build(1).String("id"), "one")
		w.WantNoError(err)
		for attribute, want := range map[string]string{
			"command": `"say \"<hi>\""`, "agents": `["queue=default"]`, "env": `{"A":"1"}`, "timeout": "null", "priority": "0", "depends_on": "[]",
		} {
			got, err := jobapi.ExportStep(step, attribute, true)
			w.WantNoError(err)
			servertest.WantEqual(t, attribute, got, want)
		}
		_, err = jobapi.ExportStep(step, "color", false)
		wantRefused(t, err, `no attribute "color"`, "outcome, parallelism")
	})
}

func TestStep_ReportsHowItEnded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(
			`{command: good, key: good}`,
			`{command: bad, key: bad}`,
			`{command: soft, key: soft, soft_fail: true}`,
			`{command: long, key: long, timeout_in_minutes: 1}`,
			`{command: twice, key: twice, parallelism: 2}`,
			`{command: never, key: never, if: build.branch == "other"}`,
			`{group: Both, key: both, steps: [{command: in, key: in}]}`,
			`{wait: , key: barrier}`,
			`{command: after, key: after}`,
		)
		w.Create(nil)
		want := func(name, state, outcome string) {
			t.Helper()
			servertest.WantEqual(t, name, w.step(name, "state")+" "+w.step(name, "outcome"), state+" "+outcome)
		}
		want("good", "ready", "neutral")
		want("both", "ready", "neutral")
		want("never", "ignored", "neutral")
		want("barrier", "waiting_for_dependencies", "neutral")
		w.Start(w.Job(1, "good"))
		want("good", "running", "neutral")
		w.End(w.Job(1, "good"), 0)
		want("good", "finished", "passed")
		w.Run(1, "in", 0)
		want("both", "finished", "passed")
		w.Run(1, "soft", 3)
		want("soft", "finished", "soft_failed")
		w.Run(1, "bad", 3)
		want("bad", "finished", "hard_failed")
		w.Run(1, "twice", 3)
		want("twice", "failing", "neutral")
		long := w.Job(1, "long")
		w.Start(long)
		w.WantNoError(w.Service.TimeOut(t.Context(), w.OrgID, long))
		want("long", "running", "neutral")
		w.End(long, 255)
		want("long", "finished", "errored")
		for _, j := range w.Jobs(1) {
			if j.StepKey == "twice" && j.State == "scheduled" {
				w.Start(j.ID)
				w.End(j.ID, 0)
			}
		}
		want("twice", "finished", "hard_failed")
		want("barrier", "finished", "errored")
		want("after", "finished", "errored")
	})
}

func TestStep_IsNotFoundElsewhere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one}`, `{command: two, depends_on: one}`)
		id, other := w.Create(nil).String("id"), w.Create(nil).String("id")
		step, err := w.Service.Step(t.Context(), w.OrgID, id, "one")
		w.WantNoError(err)
		for _, c := range [][3]string{{w.OrgID, id, "none"}, {w.OrgID, other, step.ID}, {w.OrgID, id, core.NewID()}, {core.NewID(), id, "one"}, {w.OrgID, core.NewID(), "one"}} {
			if _, err := w.Service.Step(t.Context(), c[0], c[1], c[2]); core.KindOf(err) != core.NotFound {
				t.Errorf("%v: got %v", c, err)
			}
		}
	})
}

func TestUpdateStep_ChangesLabelNotifyAndPriority(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one, label: One, parallelism: 2, notify: [{slack: "#a"}]}`)
		w.Create(nil)
		w.Start(w.Jobs(1)[0].ID)
		w.WantNoError(w.update("one", lifecycle.StepUpdate{Attribute: "label", Value: "New"}))
		w.WantNoError(w.update(w.step("one", "id"), lifecycle.StepUpdate{Attribute: "label", Value: " and more", Append: true}))
		servertest.WantEqual(t, "label", w.step("one", "label"), "New and more")
		servertest.WantEqual(t, "label of the job", w.Build(1).String("jobs.0.name"), "New and more")
		w.WantNoError(w.update("one", lifecycle.StepUpdate{Attribute: "notify", Value: `[{"slack":"#b"}]`, Append: true}))
		servertest.WantEqual(t, "notify", w.step("one", "notify"), `[{"slack":"#a"},{"slack":"#b"}]`)
		w.WantNoError(w.update("one", lifecycle.StepUpdate{Attribute: "notify", Value: `[{"slack":"#c"}]`}))
		servertest.WantEqual(t, "notify", w.step("one", "notify"), `[{"slack":"#c"}]`)
		w.WantNoError(w.update("one", lifecycle.StepUpdate{Attribute: "priority", Value: "5\n"}))
		servertest.WantAt(t, w.Build(1), map[string]any{"jobs.0.priority.number": 0, "jobs.1.priority.number": 5})
	})
}

func TestUpdateStep_AddsOnceHoweverOftenItIsSent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one, label: One}`)
		w.Create(nil)
		again := lifecycle.StepUpdate{ID: core.NewID(), Attribute: "label", Value: "!", Append: true}
		for range 3 {
			w.WantNoError(w.update("one", again))
		}
		servertest.WantEqual(t, "label", w.step("one", "label"), "One!")
		again.ID = strings.ToUpper(again.ID)
		w.WantNoError(w.update("one", again))
		servertest.WantEqual(t, "label", w.step("one", "label"), "One!")
	})
}

func TestUpdateStep_ReportsProblems(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one, label: One}`, `{block: Ask, key: ask}`)
		w.Create(nil)
		for _, c := range []struct {
			name   string
			update lifecycle.StepUpdate
			text   string
		}{
			{"one", lifecycle.StepUpdate{Attribute: "command", Value: "x"}, `"command" of a step cannot be changed`},
			{"one", lifecycle.StepUpdate{Attribute: "parallelism", Value: "3"}, "cannot be changed"},
			{"one", lifecycle.StepUpdate{ID: "x", Attribute: "label"}, "must be a UUID"},
			{"one", lifecycle.StepUpdate{Attribute: "label", Value: strings.Repeat("x", 1001)}, "1000 characters, not 1001"},
			{"one", lifecycle.StepUpdate{Attribute: "priority", Value: "high"}, "an integer"},
			{"one", lifecycle.StepUpdate{Attribute: "priority", Value: "1", Append: true}, "an integer"},
			{"ask", lifecycle.StepUpdate{Attribute: "priority", Value: "1"}, "Only command steps"},
			{"one", lifecycle.StepUpdate{Attribute: "notify", Value: "#team"}, "a JSON list"},
			{"one", lifecycle.StepUpdate{Attribute: "notify", Value: `[{"slack":"x","if":"nope"}]`}, `no variable "nope"`},
			{"one", lifecycle.StepUpdate{Attribute: "notify", Value: "[" + strings.Repeat(`{"slack":"x"},`, 100) + `{"slack":"x"}]`}, "100 notifications, not 101"},
		} {
			wantRefused(t, w.update(c.name, c.update), c.text)
		}
		if err := w.update("none", lifecycle.StepUpdate{Attribute: "label"}); core.KindOf(err) != core.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelStep_EndsItsJobsAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one}`, `{command: two, key: two, parallelism: 2}`, `{command: in, key: in}`)
		id := w.Create(nil).String("id")
		w.Start(w.Job(1, "two"))
		got, err := w.Service.CancelStep(t.Context(), w.OrgID, id, "two", false, 0)
		w.WantNoError(err)
		servertest.WantEqual(t, "id", got, w.step("two", "id"))
		w.WantStates(1, "failing", "one scheduled, two canceled, two canceling, in scheduled")
		_, err = w.Service.CancelStep(t.Context(), w.OrgID, id, "two", false, 0)
		w.WantNoError(err)
		if _, err = w.Service.CancelStep(t.Context(), w.OrgID, id, "none", false, 0); core.KindOf(err) != core.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelStep_WithForceDoesNotWaitForTheAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{command: one, key: one}`, `{command: two, key: two}`)
		id := w.Create(nil).String("id")
		w.Start(w.Job(1, "one"))
		w.Start(w.Job(1, "two"))
		cancel := func(name string, force bool, grace time.Duration) {
			t.Helper()
			_, err := w.Service.CancelStep(t.Context(), w.OrgID, id, name, force, grace)
			w.WantNoError(err)
		}
		cancel("one", true, 10*time.Second)
		cancel("two", false, 0)
		w.Pass(10 * time.Second)
		w.WantStates(1, "failing", "one canceled, two canceling")
		cancel("two", true, 5*time.Second)
		cancel("two", true, time.Hour)
		w.Pass(5 * time.Second)
		w.WantStates(1, "failed", "one canceled, two canceled")
	})
}
