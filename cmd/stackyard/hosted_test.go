package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/platform/buildah/buildahtest"
)

const hostedPipeline = `
organizations:
  - slug: acme
    pipelines:
      - slug: hosted
        name: Hosted
        repository: https://git.example.test/acme/hosted.git
        cluster: Cloud
        configuration: |
          env: {SERVICE_SKIP_CHECKOUT: "true"}
          steps:
            - command: echo "the file says $(cat /only-here)"
`

type hostedBuild struct {
	Number int
	State  string
	Jobs   []struct {
		ID, State string
		Exit      *int `json:"exit_status"`
	}
}

const hostedBuilds = "/v2/organizations/acme/pipelines/hosted/builds"

// runHosted creates a build of the hosted pipeline, waits for its end, and returns it with the log of its job.
func (p *process) runHosted(t *testing.T) (b hostedBuild, log string) {
	t.Helper()
	b = decode[hostedBuild](t, p.ask(t, adaToken, "POST", hostedBuilds, `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated))
	at := fmt.Sprintf("%s/%d", hostedBuilds, b.Number)
	eventually(t, imageLimit, "the build ends", func() bool {
		b = decode[hostedBuild](t, p.get(t, adaToken, at))
		return b.State == "passed" || b.State == "failed"
	})
	return b, string(p.get(t, adaToken, at+"/jobs/"+b.Jobs[0].ID+"/log.txt").Body)
}

func TestServe_RunsJobsOfHostedQueuesInTheirImage(t *testing.T) {
	t.Parallel()
	flags := []string{"--data", t.TempDir()}
	installation, folder := hostedInstallation(t, flags)
	apply(t, flags, hostedPipeline)
	p := serveOn(t, append(installation, "--hosted-provider", "local", "--hosted-max", "2", "--hosted-warm", "1"))

	made := decode[imageAnswer](t, p.ask(t, adaToken, "POST", imagesPath, `{"name": "tools", "dockerfile": "RUN echo it is the image >/only-here"}`).want(t, http.StatusCreated))
	eventually(t, imageLimit, "the image is built", func() bool { return p.image(t, made.ID).Status != "BUILDING" })
	ref := p.image(t, made.ID).ImageRef
	queues := decode[[]struct{ ID, URL string }](t, p.get(t, adaToken, "/v2/organizations/acme/clusters/"+hostedCluster+"/queues"))
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/clusters/"+hostedCluster+"/queues/"+queues[0].ID,
		fmt.Sprintf(`{"hostedAgents": {"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": %q}}`, ref)).want(t, http.StatusOK)
	build, log := p.runHosted(t)
	if build.State != "passed" || !strings.Contains(log, "the file says it is the image") || !strings.Contains(log, "Running in a container of the image "+ref) {
		t.Errorf("the build is %+v, the log is\n%s", build, log)
	}

	// Jobs see nothing of the server.
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		`{"env": {"SERVICE_SKIP_CHECKOUT": "true"}, "steps": [{"command": "ls `+flags[1]+` 2>&1 || env; ps; cat /proc/*/environ | tr '\\0' '\\n' | grep -i secret; true"}]}`)).want(t, http.StatusOK)
	build, log = p.runHosted(t)
	if build.State != "passed" || strings.Contains(log, "secret.key") || strings.Contains(log, "stackyard.db") || strings.Contains(log, "serve --listen") || strings.Contains(log, "STACKYARD_SECRET") {
		t.Errorf("the build is %+v, the log is\n%s", build, log)
	}

	// An image that cannot be used fails the job with the reason.
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/clusters/"+hostedCluster+"/queues/"+queues[0].ID,
		`{"hostedAgents": {"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": "127.0.0.1:1/missing:1"}}`).want(t, http.StatusOK)
	build, log = p.runHosted(t)
	if build.State != "failed" {
		t.Errorf("the build is %+v, the log is\n%s", build, log)
	}
	p.stop(t)
	if containers := storeList(t, folder, "containers", "-q"); containers != "" {
		t.Errorf("containers are left: %s", containers)
	}
}

func TestServe_LeavesNoMachineAfterKill9(t *testing.T) {
	t.Parallel()
	flags := []string{"--data", t.TempDir()}
	installation, folder := hostedInstallation(t, flags)
	apply(t, flags, hostedPipeline)
	installation = append(installation, "--hosted-provider", "local")
	p := serveOn(t, installation)
	marker := fmt.Sprintf("sleep 99.%d", os.Getpid())
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		`{"env": {"SERVICE_SKIP_CHECKOUT": "true"}, "steps": [{"command": "`+marker+`"}]}`)).want(t, http.StatusOK)
	p.ask(t, adaToken, "POST", hostedBuilds, `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated)
	eventually(t, imageLimit, "the job runs", func() bool { return len(buildahtest.Processes(t, marker)) > 0 })
	p.kill()
	buildahtest.WantNoProcesses(t, marker)
	p = serveOn(t, installation)
	eventually(t, imageLimit, "the container is removed", func() bool { return storeList(t, folder, "containers", "-q") == "" })
	// The next job runs although the last one is still held by the agent that was killed.
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		`{"env": {"SERVICE_SKIP_CHECKOUT": "true"}, "steps": [{"command": "echo fine"}]}`)).want(t, http.StatusOK)
	if build, log := p.runHosted(t); build.State != "passed" {
		t.Errorf("the build is %+v, the log is\n%s", build, log)
	}
}

func TestServe_RunsHostedJobsAsProcessesWhereThereIsNoBuildah(t *testing.T) {
	t.Parallel()
	buildahtest.Need(t) // for the same namespaces
	data := t.TempDir()
	apply(t, []string{"--data", data}, hostedFile)
	apply(t, []string{"--data", data}, hostedPipeline)
	programs := t.TempDir()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			if entry.Name() != "buildah" {
				os.Symlink(filepath.Join(folder, entry.Name()), filepath.Join(programs, entry.Name()))
			}
		}
	}
	server := command("serve", "--listen", "127.0.0.1:0", "--data", data, "--hosted-provider", "local")
	server.Env = append(server.Env, "PATH="+programs, "STACKYARD_TEST_SECRET=hidden")
	p := spawn(t, server)
	p.waitReady(t)
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		`{"env": {"SERVICE_SKIP_CHECKOUT": "true"}, "steps": [{"command": "ls -a `+data+`; env; cat /proc/*/cmdline | tr '\\0' ' '; echo in the sandbox"}]}`)).want(t, http.StatusOK)
	build, log := p.runHosted(t)
	if build.State != "passed" || !strings.Contains(log, "Running as a process on the server: buildah is not installed") || !strings.Contains(log, "in the sandbox") {
		t.Errorf("the build is %+v, the log is\n%s", build, log)
	}
	for _, secret := range []string{"stackyard.db", "secret.key", "serve --listen", "STACKYARD_TEST_SECRET"} {
		if strings.Contains(log, secret) {
			t.Errorf("the job sees %s:\n%s", secret, log)
		}
	}
	p.stop(t)
}
