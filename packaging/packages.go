package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// linux has the unit, its settings and the scripts of packages.
//
//go:embed linux
var linux embed.FS

// pack writes the package of a platform: "deb" or "rpm".
func (r *release) pack(p platform, format string) error {
	folder, err := os.MkdirTemp("", "stackyard-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, linux); err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:          "stackyard",
		Arch:          p.arch,
		Platform:      p.os,
		Version:       r.version,
		VersionSchema: "semver",
		Section:       "devel",
		Priority:      "optional",
		Maintainer:    "Stackyard maintainers <maintainers@stackyard.invalid>",
		Description:   "Self-hosted continuous-integration control plane\nServer, agent and command line in one binary.",
		License:       "Apache-2.0",
		MTime:         r.time,
		Overridables: nfpm.Overridables{
			Contents: r.contents(p, filepath.Join(folder, "linux")),
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(folder, "linux", "postinstall.sh"),
				PreRemove:   filepath.Join(folder, "linux", "preremove.sh"),
				PostRemove:  filepath.Join(folder, "linux", "postremove.sh"),
			},
			Recommends: []string{"git", "ca-certificates"},
		},
	})
	info.RPM.BuildHost = "stackyard"
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return fmt.Errorf("%s for %s: %w", format, p, err)
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := packager.Package(info, f); err != nil {
		return fmt.Errorf("%s for %s: %w", format, p, err)
	}
	return f.Close()
}

// contents are the files of a package.
func (r *release) contents(p platform, folder string) files.Contents {
	file := func(source, target, kind string, mode fs.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: target, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}}
	}
	return files.Contents{
		file(r.binary(p), "/usr/bin/stackyard", "", 0o755),
		file(filepath.Join(folder, "stackyard.service"), "/usr/lib/systemd/system/stackyard.service", "", 0o644),
		// The settings can contain passwords; the script gives the folder to the group of the server.
		{Destination: "/etc/stackyard", Type: "dir", FileInfo: &files.ContentFileInfo{Mode: 0o750, MTime: r.time, Owner: "root", Group: "root"}},
		file(filepath.Join(folder, "stackyard.env"), "/etc/stackyard/stackyard.env", "config|noreplace", 0o640),
		file(filepath.Join(r.source, "LICENSE"), "/usr/share/doc/stackyard/copyright", "", 0o644),
	}
}
