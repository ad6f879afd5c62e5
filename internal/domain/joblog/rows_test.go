package joblog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"stackyard/internal/domain/joblog"
	"stackyard/internal/rules/logline"
)

// rows returns lines of a log as text, with their numbers.
func (w *fixture) rows(job joblog.Job, from int64, count int) string {
	w.T.Helper()
	rows, err := w.open(job).Rows(context.Background(), from, count)
	w.WantNoError(err)
	var texts []string
	for _, r := range rows {
		texts = append(texts, fmt.Sprintf("%d %s", r.Number, r.Text))
	}
	return strings.Join(texts, "|")
}

func (w *fixture) wantLines(job joblog.Job, want int64) {
	w.T.Helper()
	got, err := w.open(job).Lines(context.Background())
	w.WantNoError(err)
	if got != want {
		w.T.Errorf("the log has %d lines, want %d", got, want)
	}
}

// longText is a log of 30,000 lines, of which the last has no line end.
func longText() string {
	var b strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&b, "\x1b_bk;t=%d\aline %d of the log\r\n", 1_700_000_000_000+i, i)
	}
	return strings.TrimSuffix(b.String(), "\r\n")
}

func TestRows_AreTheSameOfARunningAndASealedLog(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		text := longText()
		w.wantLines(job, 0)
		if got := w.rows(job, 0, 5); got != "" {
			t.Errorf("an empty log has rows: %s", got)
		}
		check := func() {
			t.Helper()
			w.wantLines(job, 30_000)
			for from, want := range map[int64]string{
				0: "0 line 0 of the log|1 line 1 of the log", 29_998: "29998 line 29998 of the log|29999 line 29999 of the log",
				15_000: "15000 line 15000 of the log|15001 line 15001 of the log", 30_000: "", 1 << 50: "", -1: "",
			} {
				if got := w.rows(job, from, 2); got != want {
					t.Errorf("the rows from %d are %s, want %s", from, got, want)
				}
			}
			if got := strings.Count(w.rows(job, 100, 5000), "|") + 1; got != joblog.MaxRows {
				t.Errorf("there are %d rows at once", got)
			}
		}
		for at := 0; at < len(text); at += 300_000 {
			w.add(job, int64(at), text[at:min(len(text), at+300_000)])
			if at == 0 { // what is known of the log must grow with it
				w.rows(job, 3, 1)
			}
		}
		check()
		w.end(job)
		check()
		w.WantNoError(w.logs.Seal(context.Background(), job))
		if !w.open(job).Settled() {
			t.Fatal("the log is not sealed")
		}
		check()
	})
}

func TestRows_MarkMissingBytesAndForgetDeletedOnes(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "one\ntwo\n")
		if got := w.rows(job, 0, 9); got != "0 one|1 two" {
			t.Errorf("the rows are %s", got)
		}
		w.WantNoError(w.logs.Delete(context.Background(), job))
		w.add(job, 8, "three\n")
		if got := w.rows(job, 0, 9); got != "0 three" {
			t.Errorf("after deleting the rows are %s", got)
		}
		w.add(job, 20, "five\n")
		w.end(job)
		if got := w.rows(job, 0, 9); got != "0 three|1 |2 [6 bytes of the log are missing here]|3 five" {
			t.Errorf("with a gap the rows are %s", got)
		}
		w.wantLines(job, 4)
	})
}

func TestRows_CarryColorsOver(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "\x1b[31mred\nstill red\x1b[0m\nplain\n")
		rows, err := w.open(job).Rows(context.Background(), 1, 2)
		w.WantNoError(err)
		if len(rows) != 2 || rows[0].HTML != `<span class="term-fgx1">still red</span>` || rows[1].HTML != "plain" {
			t.Errorf("the rows are %v", rows)
		}
	})
}

func TestOutline_HasSectionsWithTimesAndTheFirstError(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		begin := "\x1b_bk;t=1000\a~~~ Preparing\n\x1b_bk;t=2000\a--- Build\nok\n\x1b_bk;t=5000\a+++ Test\n"
		w.add(job, 0, begin)
		if o, err := w.open(job).Outline(context.Background()); err != nil || len(o.Sections) != 3 || o.FirstError != -1 {
			t.Fatalf("the outline is %+v, %v", o, err)
		}
		w.add(job, int64(len(begin)), "error: it is broken\n\x1b_bk;t=9000\a--- After\n^^^ +++\nmore")
		o, err := w.open(job).Outline(context.Background())
		w.WantNoError(err)
		var got []string
		for _, s := range o.Sections {
			got = append(got, fmt.Sprintf("%s %s %d-%d %s %t", s.Kind, s.Title, s.Line, s.End, s.Until.Sub(s.At), s.Open))
		}
		want := "~~~ Preparing 0-1 1s false|--- Build 1-3 3s false|+++ Test 3-5 4s true|--- After 5-8 0s true"
		if strings.Join(got, "|") != want || o.FirstError != 4 || o.Lines != 8 {
			t.Errorf("the outline is %s with %d lines and an error in %d, want %s", strings.Join(got, "|"), o.Lines, o.FirstError, want)
		}
		if o.Sections[0].Kind != logline.Quiet {
			t.Errorf("the first section is %q", o.Sections[0].Kind)
		}
	})
}

func TestSearch_FindsTextInWholeLogs(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		text := longText()
		w.add(job, 0, text[:1<<20])
		w.add(job, 1<<20, text[1<<20:])
		w.end(job)
		for query, want := range map[string]joblog.Matches{
			"LINE 29999":     {Lines: []int64{29_999}, Total: 1},
			" line 1499 of ": {Lines: []int64{1499}, Total: 1},
			"bk;t=":          {},
			"of the log":     {Total: 30_000},
		} {
			got, err := w.open(job).Search(context.Background(), query)
			w.WantNoError(err)
			if got.Total != want.Total || want.Lines != nil && fmt.Sprint(got.Lines) != fmt.Sprint(want.Lines) || len(got.Lines) > joblog.MaxMatches {
				t.Errorf("%q is in %d lines: %.5v", query, got.Total, got.Lines)
			}
		}
		for _, query := range []string{"", "  ", strings.Repeat("x", 300)} {
			if _, err := w.open(job).Search(context.Background(), query); err == nil {
				t.Errorf("%.5q was searched for", query)
			}
		}
	})
}
