package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/platform/buildah/buildahtest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
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
	build := p.newHosted(t)
	eventually(t, imageLimit, "the job runs", func() bool { return len(buildahtest.Processes(t, marker)) > 0 })
	p.kill()
	buildahtest.WantNoProcesses(t, marker)
	p = serveOn(t, installation)
	eventually(t, imageLimit, "the container is removed", func() bool { return storeList(t, folder, "containers", "-q") == "" })
	p.awaitHosted(t, build, "failed") // at once, since the server knows that its agent was killed
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		`{"env": {"SERVICE_SKIP_CHECKOUT": "true"}, "steps": [{"command": "echo fine"}]}`)).want(t, http.StatusOK)
	if build, log := p.runHosted(t); build.State != "passed" {
		t.Errorf("the next build is %+v, the log is\n%s", build, log)
	}
}

// withoutBuildah returns a PATH with all programs but buildah.
func withoutBuildah(t *testing.T) string {
	t.Helper()
	programs := t.TempDir()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			if entry.Name() != "buildah" {
				os.Symlink(filepath.Join(folder, entry.Name()), filepath.Join(programs, entry.Name()))
			}
		}
	}
	return programs
}

func TestServe_RunsHostedJobsAsProcessesWhereThereIsNoBuildah(t *testing.T) {
	t.Parallel()
	buildahtest.Need(t) // for the same namespaces
	data := t.TempDir()
	apply(t, []string{"--data", data}, hostedFile)
	apply(t, []string{"--data", data}, hostedPipeline)
	server := command("serve", "--listen", "127.0.0.1:0", "--data", data, "--hosted-provider", "local")
	server.Env = append(server.Env, "PATH="+withoutBuildah(t), "STACKYARD_TEST_SECRET=hidden")
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

// shellInto runs a command in a job through a shell with a verified host key, and returns its output and status.
func (p *process) shellInto(jobID, text string) (string, int) {
	cmd := command("job", "ssh", jobID, "--", text)
	cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+p.URL, "STACKYARD_TOKEN="+adaToken)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func TestServe_OpensShellsIntoHostedJobs(t *testing.T) {
	t.Parallel()
	inside := map[string]string{
		"container": "test -e /bin/busybox && test ! -e /etc/debian_version && echo $GREETING $((6*7)); exit 5",
		"process":   "cat /proc/1/cmdline | tr '\\0' ' ' | grep -c 'serve --listen' || echo $GREETING $((6*7)); exit 5",
	}
	for kind, text := range inside {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--data", t.TempDir()}
			if kind == "process" {
				flags = onPostgres(t, dbtest.URL(t, db.PostgreSQL))
			}
			installation, folder := hostedInstallation(t, flags)
			apply(t, flags, hostedPipeline)
			server := command(append([]string{"serve", "--listen", "127.0.0.1:0", "--hosted-provider", "local"}, installation...)...)
			if kind == "process" {
				server.Env = append(server.Env, "PATH="+withoutBuildah(t))
			}
			p := spawn(t, server)
			p.waitReady(t)
			p.ask(t, adaToken, "PUT", "/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", "").want(t, http.StatusOK)
			gate := "never-" + core.NewID()
			p.command(t, "default", "while [ ! -e "+gate+" ]; do sleep 0.1; done")
			build := p.newHosted(t)
			p.awaitHosted(t, build, "running")
			job := build.Jobs[0].ID
			if out, status := p.shellInto(job, text); strings.TrimPrefix(out, "0\n") != "hello 42\n" || status != 5 {
				t.Errorf("the shell printed %q, exit status %d", out, status)
			}
			refused := p.ask(t, adaToken, "POST", "/v2/organizations/acme/jobs/"+job+"/vnc-session", "").want(t, http.StatusUnprocessableEntity)
			if !strings.Contains(string(refused.Body), "hosted agent with macOS") {
				t.Errorf("a desktop is refused with %s", refused.Body)
			}
			// The server finishes the job before it stops, and the shell works until then.
			p.terminate(t)
			eventually(t, waitLimit, "the server drains", func() bool { return strings.Contains(p.stderrText(t), `"draining"`) })
			if out, status := p.shellInto(job, "touch "+gate); out != "" || status != 0 {
				t.Errorf("the shell printed %q, exit status %d", out, status)
			}
			p.wait(t)
			p = serveOn(t, installation)
			p.awaitHosted(t, build, "passed")
			if containers := storeList(t, folder, "containers", "-q"); containers != "" {
				t.Errorf("containers are left: %s", containers)
			}
		})
	}
}
