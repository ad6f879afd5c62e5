package main

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

// A column of a table about things of one kind.
type column[T any] struct {
	title string
	text  func(T) string
}

// printTable prints a list for a person, or, with --json, for a script.
func printTable[T any](r *remote, list client.List[T], none string, columns ...column[T]) error {
	if r.json {
		return printJSON(r.out, append([]json.RawMessage{}, list.Raw...))
	}
	if len(list.Items) == 0 {
		return r.say(none)
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

// cell is a cell of a row; a separator stands before each but the first, so that no line ends in
// spaces.
func cell(i int, text string) string {
	if i > 0 {
		return "\t" + text
	}
	return text
}

// A line says one thing about a thing.
type line struct{ name, text string }

// printItem prints a thing for a person, line by line, or, with --json, for a script.
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

// plain keeps what comes from a server from steering the terminal or breaking the table.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// day shows a time as people read it in a table.
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
