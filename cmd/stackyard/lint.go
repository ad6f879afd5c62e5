package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/agentcli"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/rules/definition"
)

// A lintResult is what lint found in a file.
type lintResult struct {
	File     string               `json:"file"`
	Errors   []definition.Problem `json:"errors"`
	Warnings []definition.Problem `json:"warnings"`
}

func lintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint [FILE...]",
		Short: "Check pipeline files, without a server",
		Long: `Check pipeline files with the rules of the server, without one. The command prints
each problem with its file, line and column. The exit status is 1 if a file has
errors. Warnings are about what has no effect, such as unknown keys.

Without FILE it checks .stackyard/pipeline.yml or another default file. - is
standard input.`,
		Example: `  stackyard lint
  stackyard lint --strict .stackyard/*.yml`,
		Args: cobra.ArbitraryArgs,
	}
	strict := cmd.Flags().Bool("strict", false, "exit with 1 for warnings too")
	asJSON := cmd.Flags().Bool("json", false, "print the problems as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		each := [][]string{nil}
		if len(args) > 0 {
			each = nil
			for _, arg := range args {
				each = append(each, []string{arg})
			}
		}
		var results []lintResult
		wrong, total := 0, 0
		for _, file := range each {
			name, source, err := agentcli.PipelineSource(cmd.InOrStdin(), file)
			if err != nil {
				return cmdline.Usage(err)
			}
			_, result := lint(name, source)
			results = append(results, result)
			problems := len(result.Errors)
			if *strict {
				problems += len(result.Warnings)
			}
			if total += problems; problems > 0 {
				wrong++
			}
		}
		if err := writeLint(cmd.OutOrStdout(), results, *asJSON); err != nil {
			return err
		}
		if wrong == 0 {
			return nil
		}
		return fmt.Errorf("%s in %s", count(total, "problem"), count(wrong, "file"))
	}
	return cmd
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// lint checks a pipeline as the server does when it is saved.
func lint(name string, source []byte) (*definition.Pipeline, lintResult) {
	result := lintResult{File: name, Errors: []definition.Problem{}, Warnings: []definition.Problem{}}
	parsed, err := definition.Parse(source)
	if problems, ok := errors.AsType[definition.Errors](err); ok {
		result.Errors = problems
	} else if err != nil {
		result.Errors = append(result.Errors, definition.Problem{Line: 1, Column: 1, Message: err.Error()})
	} else {
		result.Warnings = append(result.Warnings, parsed.Warnings...)
	}
	return parsed, result
}

func writeLint(out io.Writer, results []lintResult, asJSON bool) error {
	if asJSON {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", text)
		return err
	}
	for _, r := range results {
		if err := r.write(out); err != nil {
			return err
		}
	}
	return nil
}

func (r lintResult) write(out io.Writer) error {
	for _, p := range r.Errors {
		if _, err := fmt.Fprintf(out, "%s:%d:%d: %s\n", r.File, p.Line, p.Column, p.Message); err != nil {
			return err
		}
	}
	for _, p := range r.Warnings {
		if _, err := fmt.Fprintf(out, "%s:%d:%d: warning: %s\n", r.File, p.Line, p.Column, p.Message); err != nil {
			return err
		}
	}
	if len(r.Errors) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%s is valid.\n", r.File)
	return err
}
