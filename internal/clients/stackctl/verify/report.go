package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Report collects the results of a run.
type Report struct {
	Endpoint string   `json:"endpoint"`
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Skipped  int      `json:"skipped"`
	Results  []Result `json:"results"`
}

// Add adds a result.
func (r *Report) Add(result Result) {
	r.Results = append(r.Results, result)
	switch result.Outcome {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	}
}

// Summary returns the report in one line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteText writes the last result as text, after the title of its section if it is the first of it. A reason
// for skipped rules is written once.
func (r *Report) WriteText(w io.Writer) error {
	before, last := r.Results[:len(r.Results)-1], r.Results[len(r.Results)-1]
	var b strings.Builder
	if n := len(before); n == 0 || before[n-1].Section != last.Section {
		writeTitle(&b, last.Section, n == 0)
	}
	writeRule(&b, string(last.Outcome)+"  ", last.Rule, last.Text)
	shown := slices.ContainsFunc(before, func(r Result) bool { return r.Reason == last.Reason })
	switch {
	case last.Outcome == Skip && !shown:
		writeIndented(&b, "skipped: ", last.Reason)
	case last.Outcome == Fail:
		writeIndented(&b, "expected: ", last.Expected)
		writeIndented(&b, "got:      ", last.Got)
		last.Exchange.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteRules lists rules without checking them.
func WriteRules(w io.Writer, sections []Section) error {
	var b strings.Builder
	for i, s := range sections {
		writeTitle(&b, s.Title, i == 0)
		for _, r := range s.Rules {
			writeRule(&b, "", r.ID, r.Text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeTitle(b *strings.Builder, title string, first bool) {
	if !first {
		b.WriteString("\n")
	}
	fmt.Fprintln(b, title)
}

func writeRule(b *strings.Builder, outcome, id, text string) {
	fmt.Fprintf(b, "  %s%-30s  %s\n", outcome, id, text)
}

// writeIndented writes a text below its rule.
func writeIndented(b *strings.Builder, label, text string) {
	fmt.Fprintf(b, "        %s%s\n", label, strings.ReplaceAll(text, "\n", "\n        "))
}

// write writes the failed call in the format of command-line HTTP clients.
func (e *Exchange) write(b *strings.Builder) {
	if e == nil {
		return
	}
	writeIndented(b, "> ", e.Method+" "+e.Path)
	if e.Request != "" {
		writeIndented(b, "> ", e.Request)
	}
	writeIndented(b, "< ", fmt.Sprint(e.Status))
	for _, header := range e.Headers {
		writeIndented(b, "< ", header)
	}
	if e.Response != "" {
		writeIndented(b, "< ", e.Response)
	}
}
