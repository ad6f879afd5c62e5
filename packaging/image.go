package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The user of the image. Kubernetes can check that it is not root only if it is a number.
const imageUser = 65532

// roots is where Debian and most images keep the certificates of authorities.
const roots = "/etc/ssl/certs/ca-certificates.crt"

// image writes an OCI image for all platforms as one archive. "podman load", "docker load" and
// "skopeo copy oci-archive:FILE" read it.
func (r *release) image(platforms []platform) error {
	index := v1.ImageIndex(empty.Index)
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	for _, p := range platforms {
		one, err := r.imageOf(p)
		if err != nil {
			return fmt.Errorf("image for %s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: p.os, Architecture: p.arch},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/stackyard:" + r.version},
		}})
	}
	folder, err := os.MkdirTemp("", "stackyard-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if _, err := layout.Write(folder, index); err != nil {
		return err
	}
	return r.archive(folder, filepath.Join(r.out, "stackyard-"+r.version+"-oci.tar"))
}

// imageOf returns the image for one platform: the binary, certificates, and a user. There is no shell.
func (r *release) imageOf(p platform) (v1.Image, error) {
	content, err := r.rootFiles(p)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.time}, RootFS: rootFS(image),
		Config: v1.Config{
			Entrypoint:   []string{"/usr/bin/stackyard"},
			Cmd:          []string{"serve"},
			User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
			WorkingDir:   "/var/lib/stackyard",
			Env:          []string{"PATH=/usr/bin", "STACKYARD_DATA=/var/lib/stackyard", "STACKYARD_LISTEN=0.0.0.0:8080"},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Volumes:      map[string]struct{}{"/var/lib/stackyard": {}},
			Labels:       map[string]string{"org.opencontainers.image.title": "stackyard", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
	})
}

func rootFS(image v1.Image) v1.RootFS {
	config, err := image.ConfigFile()
	if err != nil {
		panic(err) // made in memory
	}
	return config.RootFS
}

// rootFiles returns the file system of the image as an archive.
func (r *release) rootFiles(p platform) ([]byte, error) {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return nil, err
	}
	certificates, err := readRoots()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nstackyard:x:%d:\n", imageUser)},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nstackyard:x:%d:%d:Stackyard:/var/lib/stackyard:/sbin/nologin\n", imageUser, imageUser)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{roots[1:], 0o644, 0, certificates},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/stackyard", 0o755, 0, binary},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/stackyard/", 0o700, imageUser, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// readRoots returns the certificates of the machine that builds the release.
func readRoots() ([]byte, error) {
	text, err := os.ReadFile(roots)
	if err != nil {
		return nil, fmt.Errorf("the image needs certificates of authorities; install ca-certificates: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificates", roots)
	}
	return text, nil
}

// archive writes a folder as a tar archive whose bytes depend on the contents only.
func (r *release) archive(folder, target string) error {
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: r.time.Truncate(time.Second), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
