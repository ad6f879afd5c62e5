package agentcli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
)

func agentAnnotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "annotate [BODY]",
		Short: "Annotate the build page with Markdown",
		Long: `Show a Markdown text on the page of the build or the job. The text is read from
standard input if BODY is missing. A second annotation with the same context
replaces the text or appends to it.`,
		Example: `  stackyard agent annotate --style error --context tests < failures.md`,
		Args:    cmdline.AtMost("body"),
	}
	flags := cmd.Flags()
	flags.String("context", "", "context: identifies the annotation (default: default)")
	flags.String("style", "", "default, info, warning, error or success")
	flags.Bool("append", false, "append to the existing annotation")
	flags.Int("priority", 3, "1 to 10; higher is shown first")
	addScopeFlag(cmd)
	return insideCommand(cmd, func(s *script, args []string) error {
		body, err := s.text(args, 0, "BODY")
		if err != nil && s.flag("style") == "" {
			return err
		}
		if body == "" && s.flag("style") == "" {
			return cmdline.Usage(errors.New("the body is empty; pass it as an argument or on standard input, or set --style"))
		}
		priority, _ := strconv.Atoi(s.flag("priority"))
		return s.API.Annotate(s.ctx, s.ID, api.Annotation{
			Body: body, Context: s.flag("context"), Style: s.flag("style"), Append: s.on("append"), Priority: priority, Scope: s.flag("scope"),
		})
	})
}

func agentAnnotationCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "annotation", Short: "Manage annotations"}
	remove := &cobra.Command{Use: "remove", Short: "Remove an annotation"}
	remove.Flags().String("context", "default", "context of the annotation")
	cmd.AddCommand(insideCommand(addScopeFlag(remove), func(s *script, _ []string) error {
		return s.API.RemoveAnnotation(s.ctx, s.ID, s.flag("context"), s.flag("scope"))
	}))
	return cmd
}

func addScopeFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("scope", "build", "build or job")
	return cmd
}
