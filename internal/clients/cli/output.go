package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"stackyard/internal/clients/cmdline"
)

// allFields is the value of --json without fields.
const allFields = "*"

// addOutputFlags adds the flags that say what a command prints.
func addOutputFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("json", "", "print the API response as JSON; --json=FIELD,FIELD prints only these fields")
	flags.Lookup("json").NoOptDefVal = allFields
	flags.String("jq", "", "print the result of a jq expression on the JSON")
}

// fieldsArgument takes the fields of "--json FIELDS" out of the arguments. The library passes them as an argument, since
// the value of --json is optional: an argument after --json that has a comma, or that the command does not expect.
func fieldsArgument(cmd *cobra.Command, args []string, expected cobra.PositionalArgs) (rest []string, fields string) {
	flag := cmd.Flags().Lookup("json")
	if flag == nil || flag.Value.String() != allFields {
		return args, ""
	}
	i := slices.Index(os.Args, "--json")
	if i < 0 || i+1 >= len(os.Args) {
		return args, ""
	}
	next := os.Args[i+1]
	at := slices.Index(args, next)
	if at < 0 {
		return args, ""
	}
	without := slices.Delete(slices.Clone(args), at, at+1)
	if strings.Contains(next, ",") || expected(cmd, args) != nil && expected(cmd, without) == nil {
		return without, next
	}
	return args, ""
}

// setOutput reads the flags that say what a command prints.
func (r *remote) setOutput(cmd *cobra.Command, fields string) error {
	flags := cmd.Flags()
	fields = cmp.Or(fields, flags.Lookup("json").Value.String())
	if r.json = fields != ""; fields != allFields && fields != "" {
		r.fields = strings.Split(fields, ",")
	}
	if expression := flags.Lookup("jq").Value.String(); expression != "" {
		query, err := gojq.Parse(expression)
		if err == nil {
			r.jq, err = gojq.Compile(query)
		}
		if err != nil {
			return cmdline.Usage(fmt.Errorf("--jq: %w", err))
		}
		r.json = true
	}
	if f := flags.Lookup("web"); f != nil {
		r.web = f.Value.String() == "true"
	}
	r.setTerminal()
	return nil
}

// setTerminal finds out whether people read the output on a terminal, and with colors.
func (r *remote) setTerminal() {
	r.terminal = isTerminal(r.out)
	r.color = r.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// printJSON prints a JSON value: its chosen fields, or the results of --jq.
func (r *remote) printJSON(v any) error {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if r.fields == nil && r.jq == nil {
		var indented bytes.Buffer
		if err := json.Indent(&indented, encoded, "", "  "); err != nil {
			return err
		}
		_, err = fmt.Fprintln(r.out, indented.String())
		return err
	}
	var value any
	if err := json.Unmarshal(encoded, &value); err != nil {
		return err
	}
	if r.fields != nil {
		if value, err = choose(value, r.fields); err != nil {
			return err
		}
	}
	if r.jq == nil {
		return writeJSON(r.out, value)
	}
	for results := r.jq.RunWithContext(r.ctx, value); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			return fmt.Errorf("--jq: %w", err)
		}
		if text, is := result.(string); is {
			_, err = fmt.Fprintln(r.out, text)
		} else {
			err = writeJSON(r.out, result)
		}
		if err != nil {
			return err
		}
	}
}

func writeJSON(out io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// choose returns the named fields of an object, or of each object of a list.
func choose(value any, fields []string) (any, error) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			chosen, err := choose(v[i], fields)
			if err != nil {
				return nil, err
			}
			v[i] = chosen
		}
		return v, nil
	case map[string]any:
		chosen := make(map[string]any, len(fields))
		for _, name := range fields {
			field, ok := v[name]
			if !ok {
				known := strings.Join(slices.Sorted(maps.Keys(v)), ", ")
				return nil, cmdline.Usage(fmt.Errorf("--json: there is no field %q; fields: %s", name, known))
			}
			chosen[name] = field
		}
		return chosen, nil
	}
	return value, nil
}

// startPager sends long output on a terminal through a pager: STACKYARD_PAGER, PAGER or less.
func (r *remote) startPager() {
	if !r.terminal || r.pager != nil {
		return
	}
	words := strings.Fields(cmp.Or(os.Getenv("STACKYARD_PAGER"), os.Getenv("PAGER"), "less"))
	if len(words) == 0 || words[0] == "cat" {
		return
	}
	pager := exec.CommandContext(r.ctx, words[0], words[1:]...)
	pager.Stdout, pager.Stderr = r.out, os.Stderr
	pager.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		pager.Env = append(pager.Env, "LESS=FRX") // quits if the output fits on the screen
	}
	in, err := pager.StdinPipe()
	if err != nil || pager.Start() != nil {
		return // without a pager
	}
	r.out, r.pager = in, func() {
		in.Close()
		pager.Wait()
	}
}

// addWebFlag adds --web to a command that shows an object or a list with a page.
func addWebFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolP("web", "w", false, "open the page in a browser")
	return cmd
}

// openPage opens a page of the server in a browser; "" is the organization's.
func (r *remote) openPage(address string) error {
	if address == "" {
		if _, err := r.under(""); err != nil {
			return err
		}
		address = r.URL + "/" + r.org
	}
	if _, err := fmt.Fprintf(r.out, "Opening %s in your browser.\n", plain(address)); err != nil {
		return err
	}
	if err := openBrowser(address); err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	return nil
}

// openBrowser opens a page in a browser: BROWSER, or the one of the desktop.
func openBrowser(target string) error {
	program := cmp.Or(os.Getenv("BROWSER"), map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS], "xdg-open")
	cmd := exec.Command(program, target)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}

// isTerminal reports whether a stream of the command is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
