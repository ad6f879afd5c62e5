package agentcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/changes"
	"stackyard/internal/clients/runner/document"
	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/signing"
)

func agentPipelineCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "pipeline", Short: "Add steps to the build"}
	cmd.AddCommand(pipelineUploadCommand())
	return cmd
}

func pipelineUploadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upload [FILE]",
		Short: "Upload steps to the build",
		Long: `Add the steps of a file to the build, after this job's step. The file is YAML or
JSON. Without FILE the command reads standard input if something is piped in, or else
the first existing file of

  ` + strings.Join(pipelineFiles, "\n  ") + `

Variables like ${BRANCH:-main} are replaced from the environment of the job. Write
$$ for a dollar sign.

A command, trigger or group step with if_changed, such as "if_changed: docs/**", is
skipped unless a changed file matches. Changed are the files that differ from where the
build's commit left the base branch of its pull request, or else the default branch.`,
		Example: `  stackyard agent pipeline upload
  ./make-steps | stackyard agent pipeline upload`,
		Args: cmdline.AtMost("FILE"),
	}
	flags := cmd.Flags()
	flags.Bool("replace", false, "replace steps of the build that have not started")
	flags.Bool("no-interpolation", false, "do not replace variables")
	flags.Bool("dry-run", false, "print what would be uploaded")
	flags.Bool("apply-if-changed", true, "skip steps whose if_changed matches no changed file [SERVICE_AGENT_APPLY_IF_CHANGED]")
	flags.String("git-diff-base", "", "branch or commit to find changed files against, such as origin/main [SERVICE_GIT_DIFF_BASE]")
	flags.Bool("fetch-diff-base", false, "fetch the base before files are compared [SERVICE_FETCH_DIFF_BASE]")
	flags.String("jwks-file", "", "private keys to sign the steps with; without it the agent signs them, if it has --signing-jwks-file")
	flags.String("jwks-key-id", "", "key of --jwks-file, if it has several")
	flags.String("changed-files-path", "", "file that lists the changed files, one in each line, instead of git [SERVICE_CHANGED_FILES_PATH]")
	insideCommand(cmd, func(s *script, args []string) error {
		pipeline, err := readPipeline(s.cmd, args)
		if err != nil {
			return err
		}
		if pipeline, err = s.sign(pipeline); err != nil {
			return err
		}
		upload := api.PipelineUpload{ID: uuid.NewString(), Replace: s.on("replace"), Pipeline: pipeline}
		if err := s.API.UploadPipeline(s.ctx, s.ID, upload); err != nil {
			return fmt.Errorf("upload the pipeline: %w", err)
		}
		s.logf("Pipeline uploaded.")
		return nil
	})
	upload := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dry, _ := flags.GetBool("dry-run"); dry {
			return printPipeline(cmd, args)
		}
		return upload(cmd, args)
	}
	return cmd
}

// sign signs a pipeline with the key of --jwks-file, or else lets the job's agent do it.
func (s *script) sign(pipeline json.RawMessage) (json.RawMessage, error) {
	file := s.flag("jwks-file")
	if file == "" {
		return s.Sign(s.ctx, pipeline)
	}
	key, err := readSigningKey(file, s.flag("jwks-key-id"))
	if err != nil {
		return nil, fmt.Errorf("--jwks-file: %w", err)
	}
	return signing.Sign(s.ctx, pipeline, key, environ.Parse(os.Environ()).Service("REPO"))
}

// printPipeline prints what would be uploaded. It needs no job, so that people can run it locally.
func printPipeline(cmd *cobra.Command, args []string) error {
	pipeline, err := readPipeline(cmd, args)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, pipeline, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), indented.String())
	return err
}

// readPipeline returns the pipeline as JSON.
func readPipeline(cmd *cobra.Command, args []string) (json.RawMessage, error) {
	_, source, err := PipelineSource(cmd.InOrStdin(), args)
	if err != nil {
		return nil, err
	}
	env := document.Lookup(os.LookupEnv)
	if plain, _ := cmd.Flags().GetBool("no-interpolation"); plain {
		env = nil
	}
	pipeline, err := document.Read(source, env, ifChanged(cmd))
	if err != nil {
		return nil, fmt.Errorf("read pipeline: %w", err)
	}
	return pipeline, nil
}

// skippedUnchanged is the reason of steps that are skipped by if_changed.
const skippedUnchanged = "no changed file matches if_changed"

// ifChanged returns what decides about steps with if_changed. It looks for changed files when it finds the first one. If
// they cannot be found, all steps run.
func ifChanged(cmd *cobra.Command) document.Skipper {
	flags, vars := cmd.Flags(), environ.Parse(os.Environ())
	text := func(flag, variable string) string {
		if f := flags.Lookup(flag); f.Changed {
			return f.Value.String()
		}
		return vars.Service(variable)
	}
	log := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	known := sync.OnceValues(func() ([]string, error) {
		finder := &changes.Finder{
			Base:  changes.Base(text("git-diff-base", "GIT_DIFF_BASE"), vars.Service("PULL_REQUEST_BASE_BRANCH"), vars.Service("PIPELINE_DEFAULT_BRANCH")),
			Fetch: text("fetch-diff-base", "FETCH_DIFF_BASE") == "true",
			Path:  text("changed-files-path", "CHANGED_FILES_PATH"),
			Log:   log,
		}
		files, err := finder.Files(cmd.Context())
		if err != nil {
			log("Warning: if_changed is ignored, because the changed files are not known: %v", err)
		}
		return files, err
	})
	return func(value any) (string, error) {
		condition, err := changes.Parse(value)
		if err != nil || text("apply-if-changed", "AGENT_APPLY_IF_CHANGED") == "false" {
			return "", err
		}
		files, err := known()
		if err != nil || condition.Match(files) {
			return "", nil
		}
		return skippedUnchanged, nil
	}
}

// pipelineFiles are the default locations of a pipeline file.
var pipelineFiles = []string{
	".stackyard/pipeline.yml", ".stackyard/pipeline.yaml", ".stackyard/pipeline.json",
	".buildkite/pipeline.yml", ".buildkite/pipeline.yaml", ".buildkite/pipeline.json",
}

// PipelineSource returns the name and the text of a pipeline: of the file in args, of standard input, or of the first
// default file that exists.
func PipelineSource(in io.Reader, args []string) (name string, source []byte, err error) {
	const standardInput = "standard input"
	if len(args) > 0 && args[0] != "-" {
		source, err = os.ReadFile(args[0])
		return args[0], source, err
	}
	if len(args) > 0 {
		source, err = io.ReadAll(in)
		return standardInput, source, err
	}
	if isPiped(in) {
		source, err := io.ReadAll(in)
		if err != nil || len(source) > 0 {
			return standardInput, source, err
		}
	}
	for _, path := range pipelineFiles {
		source, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return path, source, err
		}
	}
	return "", nil, cmdline.Usage(fmt.Errorf("no pipeline found; pass a file, pipe one to standard input, or create one of %s", strings.Join(pipelineFiles, ", ")))
}

// isPiped reports whether standard input may be a pipe or a file. A terminal and /dev/null are the defaults of
// a command.
func isPiped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return true
	}
	about, err := f.Stat()
	return err == nil && about.Mode()&os.ModeCharDevice == 0
}
