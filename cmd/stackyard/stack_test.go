package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/clients/cmdline"
)

const stackOrganizations = "testdata/stack.yaml"

// jobsOf returns the jobs of a build of acme's pipeline from the REST API.
func jobsOf(t *testing.T, server *process, pipeline string) []map[string]any {
	t.Helper()
	var b struct{ Jobs []map[string]any }
	got := server.get(t, "svcua_ada", "/v2/organizations/acme/pipelines/"+pipeline+"/builds/1")
	if err := json.Unmarshal(got.Body, &b); err != nil {
		t.Fatal(err)
	}
	return b.Jobs
}

// startStack starts a stack against a server.
func startStack(t *testing.T, server *process, args ...string) *process {
	t.Helper()
	return launch(t, append([]string{"stack", "--endpoint", server.URL + "/v3", "--token", "svcct_acme", "--key", "robot", "--max", "3"}, args...)...)
}

func TestStack_RunsJobsWithAgentsOfItsOwn(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	stack := startStack(t, server)
	server.ask(t, "svcua_ada", "POST", "/v2/organizations/acme/pipelines/many/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated)
	eventually(t, waitLimit, "the jobs have ended", func() bool {
		for _, j := range jobsOf(t, server, "many") {
			if j["state"] != "passed" {
				return false
			}
		}
		return true
	})
	for _, j := range jobsOf(t, server, "many") {
		log := server.get(t, "svcua_ada", fmt.Sprintf("/v2/organizations/acme/jobs/%s/log.txt", j["id"]))
		if !strings.Contains(string(log.Body), "I am "+j["id"].(string)) {
			t.Errorf("the log of %s: %s", j["id"], log.Body)
		}
		timeline := string(server.get(t, "svcua_ada", fmt.Sprintf("/v2/organizations/acme/jobs/%s/timeline", j["id"])).Body)
		for _, event := range []string{"reserved", "agent_registered", "accepted", "Starting an agent", "finished"} {
			if !strings.Contains(timeline, `"`+event+`"`) {
				t.Errorf("the timeline has no %s: %s", event, timeline)
			}
		}
	}
	stack.terminate(t)
	stack.wait(t)
	// Its key is free again.
	server.ask(t, "svcct_acme", "GET", "/v3/stacks/robot/scheduled-jobs?queue_key=default", "").want(t, http.StatusNotFound)
}

// wantPicky waits for the jobs that can run to end, and checks that the others still wait.
func wantPicky(t *testing.T, jobs func() []map[string]any, runs func(rules string) bool) {
	t.Helper()
	can := func(j map[string]any) bool { return runs(fmt.Sprint(j["agent_query_rules"])) }
	eventually(t, waitLimit, "the jobs have ended that can run", func() bool {
		for _, j := range jobs() {
			if can(j) && j["state"] != "passed" {
				return false
			}
		}
		return true
	})
	for _, j := range jobs() {
		if !can(j) && j["state"] != "scheduled" {
			t.Errorf("a job with the rules %v is %v", j["agent_query_rules"], j["state"])
		}
	}
}

func TestStack_SkipsJobsWhoseAgentRulesDoNotMatch(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	server.ask(t, "svcua_ada", "POST", "/v2/organizations/acme/pipelines/picky/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated)
	startStack(t, server, "--tags", "os=linux,disk=fast")
	wantPicky(t, func() []map[string]any { return jobsOf(t, server, "picky") }, func(rules string) bool { return !strings.Contains(rules, "gpu") })
	status, _, stderr := stackyard(t, "stack", "--token", "x", "--tags", "queue=linux")
	if status != cmdline.ExitUsage || !strings.Contains(stderr, "name queues with --queue") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

func TestStack_FinishesJobsThatNoAgentCanBeStartedFor(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	startStack(t, server, "--command", "echo no machine is left for {{.JobID}} >&2; exit 3")
	server.ask(t, "svcua_ada", "POST", "/v2/organizations/acme/pipelines/one/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated)
	var job map[string]any
	eventually(t, waitLimit, "the job has ended", func() bool {
		job = jobsOf(t, server, "one")[0]
		return job["state"] == "failed"
	})
	if job["signal_reason"] != "stack_error" || job["exit_status"] != float64(-1) || !strings.Contains(fmt.Sprint(job["detail"]), "no machine is left for "+job["id"].(string)) {
		t.Errorf("the job ended as %v", job)
	}
}

func TestStackVerify_ChecksAServerRuleByRule(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	verify := func(args ...string) (status int, stdout, stderr string) {
		return stackyard(t, append([]string{"stack", "verify", "--endpoint", server.URL + "/v3"}, args...)...)
	}
	status, stdout, stderr := verify("--token", "svcct_acme", "--rest-token", "svcua_ada")
	if status != 0 || !strings.Contains(stdout, "  pass  reserve.expires ") || !strings.Contains(stdout, " 0 failed, ") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr = verify("--token", "svcct_wrong", "--only", "register.new")
	if status != cmdline.ExitFailed || !strings.Contains(stdout, "expected: status 201") || !strings.Contains(stderr, "1 of 1 rules failed") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, _ = verify("--token", "svcct_acme", "--only", "tokens.*", "--json")
	var report struct {
		Passed, Failed, Skipped int
		Results                 []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &report); status != 0 || err != nil || report.Passed == 0 || report.Skipped == 0 || len(report.Results) != report.Passed+report.Skipped {
		t.Errorf("exit status %d, %v\n%s", status, err, stdout)
	}
	for _, wrong := range [][]string{{"--token", ""}, {"--token", "svcct_acme", "--only", "no.such"}, {"--token", "svcct_acme", "--only", "["}, {"--token", "svcct_acme", "--endpoint", "ci.example.com"}} {
		if status, _, stderr := verify(wrong...); status != cmdline.ExitUsage {
			t.Errorf("%v: exit status %d\n%s", wrong, status, stderr)
		}
	}
	if status, stdout, _ := verify("--list"); status != 0 || !strings.Contains(stdout, "auth.missing") {
		t.Errorf("--list: exit status %d\n%s", status, stdout)
	}
}

func TestStack_IsListedAndRemovedWithTheCommandLine(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	run := func(args ...string) (status int, output string) {
		t.Helper()
		cmd := command(append([]string{"stack"}, args...)...)
		cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+server.URL, "STACKYARD_TOKEN=svcua_ada", "STACKYARD_CONFIG_DIR="+t.TempDir())
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if status, out := run("list"); status != 0 || out != "The cluster has no stacks.\n" {
		t.Errorf("without stacks: exit status %d: %s", status, out)
	}
	server.ask(t, "svcct_acme", "POST", "/v3/stacks/register", `{"key": "robot", "type": "custom", "queue_key": "default", "metadata": {}}`).want(t, http.StatusCreated)
	status, out := run("list")
	lines := strings.Split(out, "\n")
	if status != 0 || len(lines) < 2 || strings.Join(strings.Fields(lines[0]), " ") != "KEY STATE QUEUE RESERVED TYPE LAST CALL ID" || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), "robot connected default 0 custom ") {
		t.Errorf("exit status %d: %s", status, out)
	}
	if status, out := run("view", "robot"); status != 0 || !strings.Contains(out, "State           connected\n") || !strings.Contains(out, "Queue           default\n") {
		t.Errorf("view: exit status %d: %s", status, out)
	}
	if status, out := run("list", "--json"); status != 0 || !strings.Contains(out, `"reserved_jobs_count": 0`) {
		t.Errorf("as JSON: exit status %d: %s", status, out)
	}
	if status, out := run("remove", "unknown"); status != cmdline.ExitFailed || !strings.Contains(out, `stack "unknown" not found; see stackyard stack list`) {
		t.Errorf("an unknown stack: exit status %d: %s", status, out)
	}
	if status, out := run("remove"); status != cmdline.ExitUsage || !strings.Contains(out, "missing argument KEY") {
		t.Errorf("without a key: exit status %d: %s", status, out)
	}
	if status, out := run("remove", "robot", "--yes"); status != 0 || out != "De-registered the stack robot.\n" {
		t.Errorf("exit status %d: %s", status, out)
	}
	server.ask(t, "svcct_acme", "GET", "/v3/stacks/robot/scheduled-jobs?queue_key=default", "").want(t, http.StatusNotFound)
}
