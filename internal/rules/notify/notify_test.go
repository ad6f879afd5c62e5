package notify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/notify"
)

func read(t *testing.T, text string) []notify.Notification {
	t.Helper()
	var list any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return notify.Read(list)
}

func TestRead_ReadsEveryForm(t *testing.T) {
	for text, want := range map[string]string{
		`[{"email": "dev@acme.test"}]`:                                                 "email dev@acme.test",
		`[{"webhook": "https://acme.test/hook"}]`:                                      "webhook https://acme.test/hook",
		`[{"slack": "#builds"}]`:                                                       "slack #builds",
		`[{"slack": {"channels": ["#a", "@ada"], "message": "see"}}]`:                  "slack #a (see), slack @ada (see)",
		`[{"github_commit_status": {"context": "lint"}}]`:                              "github_commit_status lint",
		`["github_check"]`:                                                             "github_check ",
		`[{"email": ""}, {"email": 1}, {"slack": {}}, {"pagerduty": "x"}, 7, "slack"]`: "",
		`[{"email": "a@b.test", "if": "nope"}]`:                                        "",
		`{"email": "a@b.test"}`:                                                        "",
	} {
		var got []string
		for _, n := range read(t, text) {
			shown := string(n.Kind) + " " + n.Target
			if n.Text != "" {
				shown += " (" + n.Text + ")"
			}
			got = append(got, shown)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestRead_BoundsNotifications(t *testing.T) {
	if n := len(read(t, `["github_check"`+strings.Repeat(`, "github_check"`, 500)+`]`)); n != notify.Max {
		t.Errorf("%d notifications", n)
	}
}

func TestHolds_EvaluatesTheCondition(t *testing.T) {
	list := read(t, `[{"email": "a@b.test", "if": "build.state == \"failed\""}, {"email": "a@b.test"}]`)
	for state, want := range map[string]bool{"failed": true, "passed": false} {
		c := &condition.Context{Build: condition.Build{State: state}}
		if list[0].Holds(c) != want || !list[1].Holds(c) {
			t.Errorf("%s: %v", state, list[0].Holds(c))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`[{"slack": {"channels": ["#a"], "message": "x"}, "if": "build.branch == \"main\""}, "github_check", null, {"email": ["a"]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var list any
		if json.Unmarshal([]byte(text), &list) != nil {
			return
		}
		if n := len(notify.Read(list)); n > notify.Max {
			t.Errorf("%d notifications", n)
		}
	})
}
