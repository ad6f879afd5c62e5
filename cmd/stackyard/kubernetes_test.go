package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/clients/kubestack/kubetest"
)

// A kube is a server, a cluster and a controller between them.
type kube struct {
	*yard
	api        *kubetest.API
	kubeconfig string
	templates  string
	repository string // on this machine
}

// newKube starts a server and a cluster. One container of each pod has a git repository at /repository.
func newKube(t *testing.T, container, configuration string) *kube {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bwrap, which runs containers of pods, is not installed")
	}
	program, err := exec.LookPath("stackyard")
	if err != nil {
		t.Fatal(err)
	}
	k := &kube{yard: newYard(t, "/repository", configuration), api: kubetest.NewAPI(t)}
	k.repository = repository(t, map[string]string{"greeting.txt": "hello from the checkout\n"})
	node := &kubetest.Node{API: k.api, Program: program, Dir: t.TempDir()}
	node.Run(t)
	k.kubeconfig = k.api.Kubeconfig(t)
	k.templates = write(t, fmt.Sprintf(`
podSpec:
  volumes: [{name: repository, hostPath: {path: %s}}]
  containers:
    - {name: %s, env: [{name: FROM_TEMPLATE, value: "all"}], volumeMounts: [{name: repository, mountPath: /repository}]}
queues:
  __default__: {podSpec: {priorityClassName: ci}}
`, k.repository, container))
	return k
}

// controller starts a controller.
func (k *kube) controller(args ...string) *process {
	k.t.Helper()
	cmd := command(append([]string{"stack", "kubernetes", "--endpoint", k.URL + "/v3", "--key", "kube", "--namespace", "builds",
		"--kubeconfig", k.kubeconfig, "--image", "host:latest", "--program-image", "stackyard:test", "--templates", k.templates}, args...)...)
	cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN="+yardAgent)
	return spawn(k.t, cmd)
}

func TestStackKubernetes_RunsJobsInPods(t *testing.T) {
	t.Parallel()
	k := newKube(t, "command", `
env: {SERVICE_SKIP_CHECKOUT: "true"}
steps:
  - {label: plain, command: 'echo "in $$CONTAINER of $$IMAGE"; echo "template $$FROM_TEMPLATE"'}
  - label: image
    image: tools:1
    command: |
      echo "in $$CONTAINER of $$IMAGE"
      stackyard agent meta-data set place "$$CONTAINER"
      echo "the token is $${SERVICE_AGENT_TOKEN:-not here}"
      exit 3
  - {label: forbidden, command: echo never, plugins: [{kubernetes: {serviceAccountName: admin}}]}
`)
	k.controller()
	b := k.build()
	b = k.await(b.Number, "failed")
	wantLines(t, k.log(b, 0), "in command of host:latest", "template all")
	wantLines(t, k.log(b, 1), "in command of tools:1", "the token is not here")
	if status := b.Jobs[1].ExitStatus; status == nil || *status != 3 {
		t.Errorf("the job with an image ended with %v", status)
	}
	if got := string(k.get(t, yardUser, fmt.Sprintf("%s/builds/%d", yardPath, b.Number)).Body); !strings.Contains(got, `"place":"command"`) {
		t.Errorf("the meta-data of the command's container is missing: %s", got)
	}
	if b.Jobs[2].Reason != "stack_error" || !strings.Contains(k.explain(b, 2), "serviceAccountName is not allowed by this stack's templates") {
		t.Errorf("the job with a forbidden setting has the signal reason %q: %s", b.Jobs[2].Reason, k.explain(b, 2))
	}
}

// explain returns what the server says about a job.
func (k *kube) explain(b built, job int) string {
	k.t.Helper()
	return string(k.get(k.t, yardUser, fmt.Sprintf("/v2/organizations/acme/jobs/%s/explain", b.Jobs[job].ID)).Body)
}

func TestStackKubernetes_SaysWhyPodsDoNotStart(t *testing.T) {
	t.Parallel()
	k := newKube(t, "command", `
env: {SERVICE_SKIP_CHECKOUT: "true"}
steps:
  - {label: missing, image: "missing:latest", command: echo never}
  - {label: unschedulable, command: echo never, plugins: [{kubernetes: {nodeSelector: {room: no-room}}}]}
`)
	controller := k.controller()
	b := k.build()
	for i, want := range []string{"ErrImagePull", "Unschedulable"} {
		eventually(t, waitLimit, "the timeline has "+want, func() bool {
			return strings.Contains(string(k.get(t, yardUser, fmt.Sprintf("/v2/organizations/acme/jobs/%s/timeline", b.Jobs[i].ID)).Body), want)
		})
	}
	controller.kill()
	// What does not start in time is finished with the reason, also by another controller.
	k.controller("--start-timeout", "1ms")
	b = k.await(b.Number, "failed")
	for i, want := range []string{"ErrImagePull", "Unschedulable"} {
		if b.Jobs[i].Reason != "stack_error" || !strings.Contains(k.explain(b, i), want) {
			t.Errorf("job %s: signal reason %q: %s", b.Jobs[i].Name, b.Jobs[i].Reason, k.explain(b, i))
		}
	}
	eventually(t, waitLimit, "everything is gone", func() bool { return len(k.api.Names("pods"))+len(k.api.Names("jobs"))+len(k.api.Names("secrets")) == 0 })
}

func TestStackKubernetes_ChecksOutForAContainerWithoutGit(t *testing.T) {
	t.Parallel()
	k := newKube(t, "agent", `
steps:
  - {label: checkout, image: "tools:1", command: "cat greeting.txt", artifact_paths: greeting.txt}
`)
	k.controller()
	b := k.build()
	b = k.await(b.Number, "passed")
	wantLines(t, k.log(b, 0), "hello from the checkout")
	if got := string(k.get(t, yardUser, fmt.Sprintf("%s/builds/%d/artifacts", yardPath, b.Number)).Body); !strings.Contains(got, "greeting.txt") {
		t.Errorf("the artifact is missing: %s", got)
	}
}

func TestStackKubernetes_CancelsAndSurvivesKills(t *testing.T) {
	t.Parallel()
	k := newKube(t, "command", `
env: {SERVICE_SKIP_CHECKOUT: "true"}
steps:
  - {label: waits, command: 'echo started; until test -e /repository/go-on; do sleep 0.05; done; echo done'}
`)
	first := k.controller()
	b := k.build()
	eventually(t, waitLimit, "the pod has started", func() bool { return len(k.api.Names("pods")) == 1 })
	k.awaitLog(b, 0, "started")
	first.kill()
	second := k.controller()
	eventually(t, waitLimit, "the second controller has adopted the pod", func() bool { return strings.Contains(second.stderrText(t), "adopted agents") })
	if err := os.WriteFile(filepath.Join(k.repository, "go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b = k.await(b.Number, "passed")
	if n := strings.Count(k.log(b, 0), "\nstarted\n"); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
	if err := os.Remove(filepath.Join(k.repository, "go-on")); err != nil {
		t.Fatal(err)
	}
	b = k.build()
	k.awaitLog(b, 0, "started")
	k.ask(t, yardUser, "PUT", fmt.Sprintf("%s/builds/%d/cancel", yardPath, b.Number), "").want(t, http.StatusOK)
	k.await(b.Number, "canceled")
	eventually(t, waitLimit, "its pod has ended", func() bool { return k.api.RunningPods() == 0 })
	second.terminate(t)
	second.wait(t)
}
