package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"stackyard/internal/clients/client"
)

// A column describes a table column.
type column[T any] struct {
	title string
	text  func(T) string
}

// printTable prints a list as a table or, with --json, as JSON.
func printTable[T any](r *remote, list client.List[T], none string, columns ...column[T]) error {
	if r.json {
		return printJSON(r.out, append([]json.RawMessage{}, list.Raw...))
	}
	if len(list.Items) == 0 {
		return r.println(none)
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 3, ' ', 0)
	for i, c := range columns {
		fmt.Fprint(w, cell(i, strings.ToUpper(c.title)))
	}
	fmt.Fprintln(w)
	for _, item := range list.Items {
		for i, c := range columns {
			fmt.Fprint(w, cell(i, plain(c.text(item))))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// cell returns a cell of a row. A separator precedes all but the first, so that lines have no trailing spaces.
func cell(i int, text string) string {
	if i > 0 {
		return "\t" + text
	}
	return text
}

// A line is a labeled value.
type line struct{ name, text string }

// printItem prints an object line by line or, with --json, as JSON.
func printItem(r *remote, raw json.RawMessage, lines ...line) error {
	if r.json {
		return printJSON(r.out, raw)
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 3, ' ', 0)
	for _, l := range lines {
		if l.text != "" {
			fmt.Fprintf(w, "%s\t%s\n", l.name, plain(l.text))
		}
	}
	return w.Flush()
}

func printJSON(out io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// plain removes control characters from server data, which could control the terminal or break the table.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// day formats a time for a table.
func day(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}

// isTerminal reports whether a stream of the command is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
