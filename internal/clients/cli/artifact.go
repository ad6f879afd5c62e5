package cli

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/progress"
)

func artifactCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "artifact", Short: "List and download artifacts of builds"}
	cmd.AddCommand(artifactListCommand(), artifactDownloadCommand())
	return cmd
}

const artifactHelp = `

JOB is the label of a job, the key of its step, or its number in stackyard job
list. In PATTERN, * matches anything.`

func artifactListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list PIPELINE NUMBER",
		Short: "List artifacts of a build",
		Long:  "List artifacts of a build, or of one of its jobs." + artifactHelp,
		Example: `  stackyard artifact list web 42
  stackyard artifact list web 42 --job test --path '*.xml'`,
		Args: cmdline.Exactly("PIPELINE", "BUILD"),
	}
	search := artifactFlags(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		list, err := search(r, args[0], args[1])
		if err != nil {
			return err
		}
		return printTable(r, list, "There are no such artifacts.",
			column[api.Artifact]{"path", func(a api.Artifact) string { return a.Path }},
			column[api.Artifact]{"size", func(a api.Artifact) string { return progress.Size(a.Size) }},
			column[api.Artifact]{"state", func(a api.Artifact) string { return a.State }},
			column[api.Artifact]{"created", func(a api.Artifact) string { return r.when(a.CreatedAt) }},
			column[api.Artifact]{"id", func(a api.Artifact) string { return a.ID }},
		)
	})
}

// artifactFlags adds the flags that restrict artifacts, and returns a function that lists them.
func artifactFlags(cmd *cobra.Command) func(r *remote, pipeline, number string) (api.List[api.Artifact], error) {
	jobName := cmd.Flags().String("job", "", "only artifacts of this job")
	pattern := cmd.Flags().String("path", "", "only artifacts whose paths match this pattern")
	return func(r *remote, pipeline, number string) (api.List[api.Artifact], error) {
		query := "?" + url.Values{"path": {*pattern}}.Encode()
		if *pattern == "" {
			query = ""
		}
		if *jobName == "" {
			return listUnder[api.Artifact](r, "/pipelines/%/builds/%/artifacts"+query, pipeline, number)
		}
		id, err := findJob(r, []string{pipeline, number, *jobName})
		if err != nil {
			return api.List[api.Artifact]{}, err
		}
		return listUnder[api.Artifact](r, "/jobs/%/artifacts"+query, id)
	}
}

func artifactDownloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "download PIPELINE NUMBER",
		Short: "Download artifacts of a build",
		Long: `Download artifacts of a build, or of one of its jobs, with their folders. A file that
exists is replaced after the whole new one has arrived. On a terminal, a bar shows
how far the download is.` + artifactHelp,
		Example: `  stackyard artifact download web 42
  stackyard artifact download web 42 --path 'dist/*' --dir out`,
		Args: cmdline.Exactly("PIPELINE", "BUILD"),
	}
	search := artifactFlags(cmd)
	dir := cmd.Flags().String("dir", ".", "folder to download to")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		list, err := search(r, args[0], args[1])
		if err != nil {
			return err
		}
		if r.json {
			return cmdline.Usage(errors.New("download prints no JSON; see stackyard artifact list --json"))
		}
		var ready []api.Artifact
		var total int64
		for _, a := range list.Items {
			if a.State == "finished" {
				ready, total = append(ready, a), total+a.Size
			}
		}
		if len(ready) == 0 {
			return fmt.Errorf("there are no such artifacts; see stackyard artifact list %s %s", args[0], args[1])
		}
		bar := progress.Start(cmd.ErrOrStderr(), "Downloading", total)
		defer bar.End()
		for _, a := range ready {
			target := filepath.Join(*dir, localPath(a.Path))
			if err := r.download(a, target, bar); err != nil {
				return fmt.Errorf("download %s: %w", a.Path, err)
			}
			if bar == nil {
				fmt.Fprintf(r.out, "%s (%s)\n", plain(target), progress.Size(a.Size))
			} else {
				bar.Printf("%s (%s)", plain(target), progress.Size(a.Size))
			}
		}
		return nil
	})
}

// localPath returns the path of an artifact below a folder, even if the artifact's path leads outside.
func localPath(name string) string {
	return filepath.FromSlash(strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/"))
}

// download writes an artifact to a temporary file, and renames it if the checksum matches.
func (r *remote) download(a api.Artifact, target string, bar *progress.Bar) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	source, err := r.under("/jobs/%/artifacts/%/download", a.JobID, a.ID)
	if err != nil {
		return err
	}
	body, err := r.Stream(r.ctx, source, "*/*")
	if err != nil {
		return err
	}
	defer body.Close()
	part, err := os.CreateTemp(filepath.Dir(target), ".download-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	sum, want := checksum(a)
	_, err = io.Copy(io.MultiWriter(part, sum), bar.Reader(body))
	if err := errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want != "" && got != want {
		return fmt.Errorf("it has the checksum %s, want %s; try again", got, want)
	}
	return os.Rename(part.Name(), target)
}

// checksum returns the strongest checksum that is known of an artifact.
func checksum(a api.Artifact) (hash.Hash, string) {
	if a.SHA256 != "" {
		return sha256.New(), a.SHA256
	}
	return sha1.New(), a.SHA1
}
