package agentcli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/artifact"
	"stackyard/internal/clients/runner/environ"
)

func agentArtifactCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "artifact", Short: "Upload and download artifacts"}
	cmd.AddCommand(artifactUploadCommand(), artifactDownloadCommand(), artifactSearchCommand(), artifactShasumCommand())
	return cmd
}

func artifactUploadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upload PATTERNS",
		Short: "Upload files that match patterns",
		Long: `Upload files that match patterns, separated by semicolons. "**" matches any number
of directories. Quote the patterns, so that the shell does not expand them.`,
		Example: `  stackyard agent artifact upload 'log/**/*.log;dist/*.tar.gz'`,
		Args:    cmdline.Exactly("PATTERN"),
	}
	cmd.Flags().String("destination", "", "bucket to upload to instead of the server, as s3://bucket/folder [SERVICE_ARTIFACT_UPLOAD_DESTINATION]")
	cmd.Flags().String("content-type", "", "content type of all files (default: by file name)")
	return insideCommand(cmd, func(s *script, args []string) error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		env := environ.Parse(os.Environ())
		upload := artifact.Upload{API: s.API, JobID: s.ID, Dir: dir, ContentType: s.flag("content-type"), Env: env, Logf: s.logf, Terminal: os.Stderr,
			Destination: s.flagOr("destination", env.Service("ARTIFACT_UPLOAD_DESTINATION"))}
		return upload.Run(s.ctx, args[0])
	})
}

func artifactDownloadCommand() *cobra.Command {
	cmd := addArtifactFlags(&cobra.Command{
		Use:     "download PATTERN FOLDER",
		Short:   "Download artifacts whose paths match a pattern",
		Example: `  stackyard agent artifact download 'dist/*.tar.gz' . --step build`,
		Args:    cmdline.Exactly("PATTERN", "FOLDER"),
	})
	return insideCommand(cmd, func(s *script, args []string) error {
		found, err := s.search(args[0], false)
		if err != nil {
			return err
		}
		return artifact.Download{API: s.API, Dir: args[1], Env: environ.Parse(os.Environ()), Logf: s.logf, Terminal: os.Stderr}.Run(s.ctx, found)
	})
}

func artifactSearchCommand() *cobra.Command {
	cmd := addArtifactFlags(&cobra.Command{
		Use:   "search PATTERN",
		Short: "List artifacts whose paths match a pattern",
		Long: `Print artifacts whose paths match a pattern. In --format, %i is the artifact's id,
%p its path, %j the job's id, %c the creation time, %z the size in bytes, %s and %S
the checksums (SHA-1, SHA-256), %u the URL.`,
		Args: cmdline.Exactly("PATTERN"),
	})
	cmd.Flags().String("format", "%j %p %c\n", "output format for each artifact")
	cmd.Flags().Bool("allow-empty-results", false, "exit with 0 even if nothing matches")
	return insideCommand(cmd, func(s *script, args []string) error {
		found, err := s.search(args[0], true)
		if errors.Is(err, errNoArtifacts) && s.on("allow-empty-results") {
			return nil
		}
		if err != nil {
			return err
		}
		format := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(s.flag("format"))
		for _, a := range found {
			if _, err := fmt.Fprint(s.cmd.OutOrStdout(), artifactLine(format, a)); err != nil {
				return err
			}
		}
		return nil
	})
}

func artifactLine(format string, a api.Artifact) string {
	return strings.NewReplacer("%%", "%", "%i", a.ID, "%p", a.Path, "%j", a.JobID, "%c", a.CreatedAt.Format(time.RFC3339),
		"%z", strconv.FormatInt(a.Size, 10), "%s", a.SHA1, "%S", a.SHA256, "%u", a.URL).Replace(format)
}

func artifactShasumCommand() *cobra.Command {
	cmd := addArtifactFlags(&cobra.Command{Use: "shasum PATTERN", Short: "Print the checksum of the one artifact that matches a pattern", Args: cmdline.Exactly("PATTERN")})
	cmd.Flags().Bool("sha256", false, "SHA-256 instead of SHA-1")
	return insideCommand(cmd, func(s *script, args []string) error {
		found, err := s.search(args[0], false)
		switch {
		case err != nil:
			return err
		case len(found) > 1:
			return fmt.Errorf("%d artifacts match %q; use a narrower pattern, or --step", len(found), args[0])
		case s.on("sha256"):
			return s.print(found[0].SHA256)
		}
		return s.print(found[0].SHA1)
	})
}

func addArtifactFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("step", "", "only artifacts of this step (key or label) or job (id)")
	cmd.Flags().Bool("include-retried-jobs", false, "include artifacts of retried jobs")
	return addBuildFlag(cmd)
}

var errNoArtifacts = errors.New("no artifacts match")

// search finds artifacts of the build: all of them, or only the newest for each path.
func (s *script) search(pattern string, all bool) ([]api.Artifact, error) {
	build, err := s.build()
	if err != nil {
		return nil, err
	}
	found, err := s.API.SearchArtifacts(s.ctx, build, api.ArtifactQuery{
		Glob: pattern, Scope: s.flag("step"), State: "finished", IncludeRetried: s.on("include-retried-jobs"), IncludeAll: all,
	})
	if err == nil && len(found) == 0 {
		return nil, fmt.Errorf("%w %q", errNoArtifacts, pattern)
	}
	return found, err
}
