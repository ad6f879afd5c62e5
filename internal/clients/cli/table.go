package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"stackyard/api"
)

// A column describes a table column.
type column[T any] struct {
	title string
	text  func(T) string
}

// printTable prints a list as a table or, with --json, as JSON.
func printTable[T any](r *remote, list api.List[T], none string, columns ...column[T]) error {
	if r.web {
		return r.openPage("")
	}
	if r.json {
		return r.printJSON(append([]json.RawMessage{}, list.Raw...))
	}
	if len(list.Items) == 0 {
		return r.println(none)
	}
	rows := make([][]string, 1, len(list.Items)+1)
	for _, c := range columns {
		rows[0] = append(rows[0], strings.ToUpper(c.title))
	}
	for _, item := range list.Items {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = plain(c.text(item))
		}
		rows = append(rows, row)
	}
	r.startPager()
	return r.printRows(rows)
}

// printRows prints rows of cells as aligned columns, without trailing spaces.
func (r *remote) printRows(rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for len(row) > 1 && row[len(row)-1] == "" {
			row = row[:len(row)-1]
		}
		for i, text := range row {
			shown := r.paint(text)
			if n == 0 && r.color {
				shown = bold + text + reset
			}
			b.WriteString(shown)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := r.out.Write([]byte(b.String()))
	return err
}

// A line is a labeled value.
type line struct{ name, text string }

// printItem prints an object line by line or, with --json, as JSON.
func printItem(r *remote, raw json.RawMessage, lines ...line) error {
	if r.web {
		var page struct {
			URL string `json:"web_url"`
		}
		json.Unmarshal(raw, &page) // without a page, the organization's is opened
		return r.openPage(page.URL)
	}
	if r.json {
		return r.printJSON(raw)
	}
	width := 0
	for _, l := range lines {
		if l.text != "" {
			width = max(width, utf8.RuneCountInString(l.name))
		}
	}
	for _, l := range lines {
		if l.text == "" {
			continue
		}
		text := r.paint(plain(l.text))
		if _, err := fmt.Fprintf(r.out, "%-*s   %s\n", width, l.name, text); err != nil {
			return err
		}
	}
	return nil
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

// when formats a time: relative to now on a terminal, where people read it, and absolute elsewhere.
func (r *remote) when(t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case r.terminal:
		return relative(time.Until(*t))
	}
	return t.Local().Format("2006-01-02 15:04")
}

// relative describes a time that is d away.
func relative(d time.Duration) string {
	away := d.Abs()
	text := "now"
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * 24 * time.Hour, "y"}, {30 * 24 * time.Hour, "mo"}, {24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if away >= unit.length {
			text = fmt.Sprintf("%d %s", away/unit.length, unit.name)
			break
		}
	}
	switch {
	case text == "now":
		return text
	case d > 0:
		return "in " + text
	}
	return text + " ago"
}

const (
	bold  = "\x1b[1m"
	reset = "\x1b[0m"
)

// stateColors are the colors of states.
var stateColors = map[string]string{
	"passed": "\x1b[32m", "ready": "\x1b[32m", "connected": "\x1b[32m", "enabled": "\x1b[32m", "open": "\x1b[32m",
	"failed": "\x1b[31m", "failing": "\x1b[31m", "broken": "\x1b[31m", "timed_out": "\x1b[31m", "expired": "\x1b[31m", "lost": "\x1b[31m",
	"running": "\x1b[33m", "scheduled": "\x1b[33m", "assigned": "\x1b[33m", "accepted": "\x1b[33m", "building": "\x1b[33m",
	"blocked": "\x1b[36m", "paused": "\x1b[36m",
	"canceled": "\x1b[90m", "skipped": "\x1b[90m", "not_run": "\x1b[90m", "disabled": "\x1b[90m",
}

// paint colors a text that starts with a state, on a terminal.
func (r *remote) paint(text string) string {
	state, _, _ := strings.Cut(text, " ")
	color := stateColors[strings.TrimSuffix(state, ",")]
	if !r.color || color == "" {
		return text
	}
	return color + text + reset
}
