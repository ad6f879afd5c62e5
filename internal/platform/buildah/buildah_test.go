package buildah_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/buildah"
	"stackyard/internal/platform/buildah/buildahtest"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv("BUILD_IN"); folder != "" {
		buildForever(folder)
		return
	}
	os.Exit(m.Run())
}

func newStore(t *testing.T) (store *buildah.Store, folder string) {
	t.Helper()
	folder = t.TempDir()
	buildahtest.NewBase(t, folder)
	store, err := buildah.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, folder
}

const from = "FROM " + buildahtest.Base + "\n"

func TestBuild_MakesAnImageUntilItIsRemoved(t *testing.T) {
	store, folder := newStore(t)
	ctx := t.Context()
	var log bytes.Buffer
	build := buildah.Build{Ref: "localhost/agent-images/x:1", Dockerfile: from + "RUN echo built > /made && echo from the build", Memory: 1 << 30}
	if err := store.Build(ctx, build, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if !strings.Contains(log.String(), "from the build") {
		t.Errorf("log %s", log.String())
	}
	if has, err := store.Has(ctx, build.Ref); err != nil || !has {
		t.Errorf("the image is not there: %v", err)
	}
	if _, err := buildah.Open(ctx, folder); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("the store is opened twice: %v", err)
	}
	for range 2 {
		if err := store.RemoveImage(ctx, build.Ref); err != nil {
			t.Error(err)
		}
	}
	if names, err := store.Images(ctx); err != nil || !slices.Equal(names, []string{buildahtest.Base}) {
		t.Errorf("images %v, %v", names, err)
	}
}

func TestBuild_ReturnsWhyItFailed(t *testing.T) {
	store, _ := newStore(t)
	for _, c := range []struct{ dockerfile, want string }{
		{from + "RUN echo the reason && exit 7", `building at STEP "RUN echo the reason && exit 7": while running runtime: exit status 7`},
		{from + "COPY missing /x", "missing"},
	} {
		err := store.Build(t.Context(), buildah.Build{Ref: "localhost/x:1", Dockerfile: c.dockerfile}, io.Discard)
		failure, ok := errors.AsType[*buildah.Failure](err)
		if !ok || !strings.Contains(failure.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	err := store.Build(t.Context(), buildah.Build{Ref: "localhost/x:1", Memory: 64 << 20, Dockerfile: from + `RUN x=$(head -c 150000000 /dev/zero | tr '\0' a); sleep 20; echo ${#x}`}, io.Discard)
	if err == nil {
		t.Error("more memory than the limit was used")
	}
	if names, err := store.Images(t.Context()); err != nil || !slices.Equal(names, []string{buildahtest.Base}) {
		t.Errorf("images %v, %v", names, err)
	}
}

// marker is in the command line of what is built forever.
func marker(folder string) string { return "sleep 98765 " + strings.Map(onlyDigits, folder) }

func onlyDigits(r rune) rune {
	if '0' <= r && r <= '9' {
		return r
	}
	return -1
}

func forever(folder string) buildah.Build {
	return buildah.Build{Ref: "localhost/x:1", Dockerfile: from + "RUN echo waiting && sh -c '" + marker(folder) + "'"}
}

func TestBuild_LeavesNothingWhenItIsCanceled(t *testing.T) {
	store, folder := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := store.Build(ctx, forever(folder), onText("waiting\n", cancel))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantNothing(t, store, folder)
}

func TestBuild_LeavesNothingWhenItsProcessIsKilled(t *testing.T) {
	folder := t.TempDir()
	buildahtest.NewBase(t, folder)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "BUILD_IN="+folder)
	cmd.Stdout = onText("waiting\n", func() { cmd.Process.Kill() })
	if err := cmd.Run(); err == nil {
		t.Fatal("the process was not killed")
	}
	store, err := buildah.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	wantNothing(t, store, folder)
}

// buildForever is a process that builds an image until it is killed.
func buildForever(folder string) {
	store, err := buildah.Open(context.Background(), folder)
	if err == nil {
		err = store.Build(context.Background(), forever(folder), os.Stdout)
	}
	fmt.Println(err)
}

func wantNothing(t *testing.T, store *buildah.Store, folder string) {
	t.Helper()
	buildahtest.WantNoProcesses(t, marker(folder))
	if err := store.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	if names, err := store.Images(t.Context()); err != nil || !slices.Equal(names, []string{buildahtest.Base}) {
		t.Errorf("images %v, %v", names, err)
	}
	out, err := exec.Command("buildah", "--root", folder+"/storage", "--runroot", folder+"/run", "--storage-driver", "vfs", "containers", "-q").CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("containers are left: %s %v", out, err)
	}
}

// onText returns a writer that calls fn when the text was written.
func onText(text string, fn func()) io.Writer { return &trigger{text: text, fn: fn} }

type trigger struct {
	seen, text string
	fn         func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if w.seen += string(p); strings.Contains(w.seen, w.text) && w.fn != nil {
		w.fn()
		w.fn = nil
	}
	return len(p), nil
}
