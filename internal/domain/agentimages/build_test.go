package agentimages_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/buildah"
	"stackyard/internal/platform/buildah/buildahtest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A builder is a server that builds images.
type builder struct {
	*servertest.Server
	t      *testing.T
	ada    *servertest.Client
	folder string
}

func newBuilder(t *testing.T, d *db.DB, change func(*server.Parts)) *builder {
	t.Helper()
	b := &builder{t: t, folder: t.TempDir()}
	buildahtest.NewBase(t, b.folder)
	b.Server = servertest.Start(t, d, func(p *server.Parts) {
		p.Images.Folder, p.Images.BaseImage = b.folder, buildahtest.Base
		if change != nil {
			change(p)
		}
	})
	b.Apply(servertest.World)
	b.Apply(world)
	b.ada = b.As(t, servertest.Ada)
	return b
}

// runDue runs the builds that are due.
func (b *builder) runDue() {
	b.t.Helper()
	if err := b.RunDue(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// stored returns the names of the images in the store.
func (b *builder) stored() string {
	b.t.Helper()
	out, err := exec.Command("buildah", "--root", filepath.Join(b.folder, "storage"), "--runroot", filepath.Join(b.folder, "run"), "--storage-driver", "vfs",
		"images", "--format", "{{.Name}}:{{.Tag}}").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return string(out)
}

func TestBuild_MakesTheImageThatQueuesUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBuilder(t, d, nil)
		made := b.ada.Post(images, body{"name": "tools", "dockerfile": "RUN echo one >/only-here\nRUN echo done"}).Want(http.StatusCreated)
		at := images + "/" + made.String("id")
		b.runDue()
		got := b.ada.Get(at).Want(http.StatusOK)
		first := "localhost/agent-images/" + made.String("id") + ":1"
		if got.String("status") != "READY" || got.String("image_ref") != first || got.At("last_build_error") != nil {
			t.Fatalf("%s", got.Body)
		}
		if log := string(b.ada.Get(at + "/log").Want(http.StatusOK).Body); !strings.Contains(log, "RUN echo one >/only-here") || !strings.Contains(log, "\ndone\n") {
			t.Errorf("log %q", log)
		}
		queue := b.ada.Get(cloud + "/queues").String("1.url")
		b.ada.Patch(queue, body{"hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": first}}).Want(http.StatusOK)

		b.ada.Patch(at, body{"dockerfile": "RUN exit 3"}).Want(http.StatusOK)
		b.runDue()
		failed := b.ada.Get(at).Want(http.StatusOK)
		if failed.String("status") != "FAILED" || failed.At("image_ref") != nil || !strings.Contains(failed.String("last_build_error"), "exit status 3") {
			t.Errorf("%s", failed.Body)
		}
		if got := b.ada.Get(queue).String("hosted_agents.platform_settings.linux.agent_image_ref"); got != first || !strings.Contains(b.stored(), first) {
			t.Errorf("after a failed version the queue has %s, stored are %s", got, b.stored())
		}

		b.ada.Patch(at, body{"dockerfile": "RUN echo three >/only-here"}).Want(http.StatusOK)
		b.runDue()
		third := "localhost/agent-images/" + made.String("id") + ":3"
		if got := b.ada.Get(queue).String("hosted_agents.platform_settings.linux.agent_image_ref"); got != third {
			t.Errorf("the queue has %s", got)
		}
		if stored := b.stored(); strings.Contains(stored, first) || !strings.Contains(stored, third) {
			t.Errorf("stored are %s", stored)
		}
		b.ada.Delete(at).Want(http.StatusConflict)
		b.ada.Patch(queue, body{"hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": ""}}).Want(http.StatusOK)
		b.ada.Delete(at).Want(http.StatusNoContent)
		b.runDue()
		if stored := b.stored(); strings.TrimSpace(stored) != buildahtest.Base {
			t.Errorf("stored are %s", stored)
		}
	})
}

func TestBuild_FailsWithTheReason(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	b := newBuilder(t, d, nil)
	for dockerfile, want := range map[string]string{
		"RUN echo the reason is this >&2; exit 9": "Building at STEP \"RUN echo the reason is this >&2; exit 9\": while running runtime: exit status 9\nLast lines of the log:\n",
		"RUN <<EOF\nFROM x\nEOF":                  "The Dockerfile has a heredoc (<<), which needs buildah 1.33 or newer",
	} {
		made := b.ada.Post(images, body{"name": dockerfile[:9], "dockerfile": dockerfile}).Want(http.StatusCreated)
		b.runDue()
		got := b.ada.Get(images + "/" + made.String("id")).Want(http.StatusOK)
		if reason := got.String("last_build_error"); got.String("status") != "FAILED" || !strings.HasPrefix(reason, want) {
			t.Errorf("%q: %s", dockerfile, got.Body)
		}
	}
}

func TestBuild_EndsAtItsTimeLimit(t *testing.T) {
	b := newBuilder(t, dbtest.New(t, db.SQLite), func(p *server.Parts) { p.Images.BuildTimeout = 2 * time.Second })
	made := b.ada.Post(images, body{"name": "slow", "dockerfile": "RUN sleep 4321"}).Want(http.StatusCreated)
	b.runDue()
	got := b.ada.Get(images + "/" + made.String("id")).Want(http.StatusOK)
	if got.String("status") != "FAILED" || got.String("last_build_error") != "The build took longer than 2s" {
		t.Errorf("%s", got.Body)
	}
	buildahtest.WantNoProcesses(t, "sleep 4321")
}

func TestBuild_EndsAtItsDiskLimit(t *testing.T) {
	b := newBuilder(t, dbtest.New(t, db.SQLite), func(p *server.Parts) { p.Images.BuildDisk = 100 << 20 })
	made := b.ada.Post(images, body{"name": "large", "dockerfile": "RUN head -c 150000000 /dev/zero >/large && sleep 4322"}).Want(http.StatusCreated)
	b.runDue()
	got := b.ada.Get(images + "/" + made.String("id")).Want(http.StatusOK)
	if got.String("status") != "FAILED" || got.String("last_build_error") != "The build was stopped: it used too much disk space: the limit is 100 MB" {
		t.Errorf("%s", got.Body)
	}
	buildahtest.WantNoProcesses(t, "sleep 4322")
	layers, err := os.ReadDir(filepath.Join(b.folder, "storage", "vfs", "dir"))
	if err != nil || len(layers) != 1 {
		t.Errorf("the store has %d layers, want that of the base image: %v", len(layers), err)
	}
}

// startRegistry starts Debian's docker-registry and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	config := filepath.Join(t.TempDir(), "config.yml")
	text := "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: " + t.TempDir() + "}, delete: {enabled: true}}\nhttp: {addr: '" + address + "'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := exec.Command("docker-registry", "serve", config)
	if err := registry.Start(); err != nil {
		t.Fatalf("install docker-registry: %v", err)
	}
	t.Cleanup(func() {
		registry.Process.Kill()
		registry.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get("http://" + address + "/v2/"); err == nil {
			response.Body.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal("the registry does not start")
		}
	}
}

func TestBuild_IsPushedToARegistryUntilItIsRemoved(t *testing.T) {
	buildahtest.Need(t)
	address := startRegistry(t)
	b := newBuilder(t, dbtest.New(t, db.SQLite), func(p *server.Parts) { p.Images.Registry, p.Images.RegistryInsecure = address+"/agents", true })
	made := b.ada.Post(images, body{"name": "tools", "dockerfile": "RUN echo one >/only-here"}).Want(http.StatusCreated)
	id := made.String("id")
	b.runDue()
	got := b.ada.Get(images + "/" + id).Want(http.StatusOK)
	ref := address + "/agents/" + id + ":1"
	if got.String("status") != "READY" || got.String("image_ref") != ref {
		t.Fatalf("%s", got.Body)
	}
	if stored := strings.TrimSpace(b.stored()); stored != buildahtest.Base {
		t.Errorf("the server still has %s", stored)
	}
	manifest := func() int {
		t.Helper()
		request, err := http.NewRequest(http.MethodHead, "http://"+address+"/v2/agents/"+id+"/manifests/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "application/vnd.docker.distribution.manifest.v2+json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if status := manifest(); status != http.StatusOK {
		t.Errorf("the registry answers %d", status)
	}
	// Another server can run it.
	other, err := buildah.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.Insecure = address
	container, err := other.NewContainer(t.Context(), ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := other.Run(t.Context(), container, buildah.Command{Args: []string{"/bin/cat", "/only-here"}}, &out); err != nil || out.String() != "one\n" {
		t.Errorf("the container printed %q, %v", out.String(), err)
	}
	b.ada.Delete(images + "/" + id).Want(http.StatusNoContent)
	b.runDue()
	if status := manifest(); status != http.StatusNotFound {
		t.Errorf("after the removal the registry answers %d", status)
	}
}

func TestLog_FollowsABuild(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	b := newBuilder(t, d, nil)
	made := b.ada.Post(images, body{"name": "slow", "dockerfile": "RUN echo first && sleep 3\nRUN echo second"}).Want(http.StatusCreated)
	at := images + "/" + made.String("id")
	var building sync.WaitGroup
	building.Go(b.runDue)
	defer building.Wait()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+at+"/log?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+servertest.Ada)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var lines []string
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if scanner.Text() == "first" {
			if status := b.ada.Get(at).String("status"); status != "BUILDING" {
				t.Errorf("status %s when the log has only the first step", status)
			}
		}
	}
	if log := strings.Join(lines, "\n"); !strings.Contains(log, "\nfirst\n") || !strings.Contains(log, "\nsecond\n") {
		t.Errorf("log %s", log)
	}
	if got := b.ada.Get(at).String("status"); got != "READY" {
		t.Errorf("status %s", got)
	}
}
