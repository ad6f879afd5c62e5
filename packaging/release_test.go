package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const testVersion = "1.2.3"

// releaseFolder is where the tests build their release; TestMain removes it.
var releaseFolder string

// built builds a release for linux-amd64 once for all tests.
var built = sync.OnceValue(func() error { return run("..", releaseFolder, testVersion, "linux-amd64") })

func TestMain(m *testing.M) {
	var err error
	if releaseFolder, err = os.MkdirTemp("", "stackyard-release-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(releaseFolder)
	os.Exit(status)
}

func releaseFile(t *testing.T, name string) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(releaseFolder, name)
}

// command runs a program and returns what it printed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

func TestRelease_HasTheSumsOfItsFiles(t *testing.T) {
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = releaseFile(t, "")
	if text, err := check.CombinedOutput(); err != nil || strings.Count(string(text), "OK") != 5 {
		t.Errorf("%v\n%s", err, text)
	}
}

// What is built from one binary has the same bytes each time. That the binary has is up to go build -trimpath.
func TestRelease_HasTheSameBytesWhenBuiltAgain(t *testing.T) {
	p := platform{"linux", "amd64"}
	first := releaseFile(t, "")
	r, err := newRelease("..", t.TempDir(), testVersion)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(first, "stackyard-linux-amd64"), r.binary(p)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return r.describe(p) },
		func() error { return r.pack(p, "deb") },
		func() error { return r.pack(p, "rpm") },
		func() error { return r.image([]platform{p}) },
		r.sum,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil || !bytes.Equal(before, again) {
		t.Errorf("the sums were\n%s and are\n%s%v", before, again, err)
	}
}

func TestRelease_RefusesAFolderWithFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run("..", folder, testVersion, ""); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("the error is %v", err)
	}
	if err := run("..", t.TempDir(), testVersion, "plan9-386"); err == nil || !strings.Contains(err.Error(), "platforms are [linux-amd64") {
		t.Errorf("the error is %v", err)
	}
}

func TestMaterials_ListTheModules(t *testing.T) {
	f, err := os.Open(releaseFile(t, "stackyard-linux-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"modernc.org/sqlite", "github.com/jackc/pgx/v5", "std"} {
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == want && c.Version != "" }) {
			t.Errorf("%s is not listed", want)
		}
	}
	if bom.Metadata.Component.Version != testVersion {
		t.Errorf("it describes version %s", bom.Metadata.Component.Version)
	}
}

// The image runs in a container as a user that is not root, has the certificates of authorities, and no shell.
func TestImage_RunsTheServerWithoutRoot(t *testing.T) {
	if os.Getenv("STACKYARD_SKIP_CONTAINER_TESTS") != "" {
		t.Skip("STACKYARD_SKIP_CONTAINER_TESTS is set")
	}
	archive := releaseFile(t, "stackyard-"+testVersion+"-oci.tar")
	folder := t.TempDir()
	unpack(t, archive, folder)
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != "amd64" {
		t.Fatalf("the index is %+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/stackyard"}) || !slices.Equal(config.Config.Cmd, []string{"serve"}) {
		t.Errorf("the configuration is %+v, %v", config, err)
	}
	store := t.TempDir()
	buildah := func(args ...string) string {
		return command(t, "buildah", append([]string{"--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs"}, args...)...)
	}
	buildah("from", "--name", "stackyard", "oci-archive:"+archive)
	t.Cleanup(func() { buildah("rm", "--all") })
	said := buildah("run", "--isolation", "chroot", "stackyard", "--", "/usr/bin/stackyard", "version")
	if !strings.Contains(said, "stackyard "+testVersion) {
		t.Errorf("it said %s", said)
	}
}

func unpack(t *testing.T, archive, folder string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
