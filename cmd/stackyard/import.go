package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/rules/convert"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert a pipeline of Woodpecker, Drone or GitHub Actions",
		Long: `Convert a pipeline of Woodpecker, Drone or GitHub Actions into one of Stackyard. It
prints the pipeline on standard output, and on standard error what it could not
convert, with the lines of FILE. - is standard input.

The result is for a file in the repository that is uploaded: each $ for the shell
is written as $$.`,
		Example: `  stackyard import .github/workflows/ci.yml --output .stackyard/pipeline.yml
  stackyard lint .stackyard/pipeline.yml`,
		Args: cmdline.Exactly("FILE"),
	}
	output := cmd.Flags().StringP("output", "o", "", "write the pipeline to a file, which must not exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		source, err := readImport(cmd.InOrStdin(), args[0])
		if err != nil {
			return cmdline.Usage(err)
		}
		result, err := convert.Convert(source)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if err := writeImport(cmd.OutOrStdout(), *output, result.Pipeline); err != nil {
			return err
		}
		for _, n := range result.Notes {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %s\n", args[0], n.Line, n.Text)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Converted from %s with %s.\n", result.Format, count(len(result.Notes), "note"))
		return nil
	}
	return cmd
}

func readImport(in io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(path)
}

// writeImport writes the pipeline to a new file, or to out if path is empty.
func writeImport(out io.Writer, path, pipeline string) error {
	if path == "" {
		_, err := io.WriteString(out, pipeline)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return cmdline.Usage(fmt.Errorf("%s exists; choose another file or remove it", path))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(pipeline); err != nil {
		return err
	}
	return f.Close()
}
