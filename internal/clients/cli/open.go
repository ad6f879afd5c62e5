package cli

import (
	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

func openCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "open [PIPELINE] [NUMBER]",
		Short: "Open a page in a browser: of the organization, a pipeline or a build",
		Example: `  stackyard open
  stackyard open web
  stackyard open web 42`,
		Args: cmdline.AtMost("PIPELINE", "BUILD"),
	}, func(r *remote, args []string) error {
		if len(args) == 0 {
			return r.openPage("")
		}
		format := []string{"/pipelines/%", "/pipelines/%/builds/%"}[len(args)-1]
		page, err := call[struct {
			WebURL string `json:"web_url"`
		}](r, get, nil, format, args...)
		if err != nil {
			return err
		}
		return r.openPage(page.Value.WebURL)
	})
}
