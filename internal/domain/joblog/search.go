package joblog

import (
	"bytes"
	"context"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/logline"
)

const (
	// maxQuery is the length limit of what is searched for.
	maxQuery = 200
	// MaxMatches limits the lines that a search returns.
	MaxMatches = 10_000
	// searchTime limits a search. A log of a GiB takes a few seconds.
	searchTime = 30 * time.Second
	// searchedLine is how much of a line is searched.
	searchedLine = logline.MaxLine
)

// Matches are the lines of a log that contain a text.
type Matches struct {
	Lines []int64 // from 0
	Total int64   // including those left out
}

// Search returns the lines that contain a text, in any case of letters. It reads the whole log, keeping little of it
// in memory; the number of searches at a time is limited.
func (l *Log) Search(ctx context.Context, query string) (Matches, error) {
	query = strings.TrimSpace(query)
	if query == "" || len(query) > maxQuery {
		return Matches{}, core.Errorf(core.BadRequest, "Search for a text of 1 to %d bytes", maxQuery)
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	select {
	case l.service.scans.slots <- struct{}{}:
		defer func() { <-l.service.scans.slots }()
	case <-ctx.Done():
		return Matches{}, searchError(ctx.Err())
	}
	s := &searcher{query: []byte(lower(query))}
	if err := l.Copy(ctx, s, 0, l.Size); err != nil {
		return Matches{}, searchError(err)
	}
	s.line()
	return s.found, nil
}

// searchError tells people that a search took too long.
func searchError(err error) error {
	if err == context.DeadlineExceeded {
		return &core.Error{Kind: core.Unavailable, Message: "Searching this log takes too long right now; try again", RetryAfter: 5}
	}
	return err
}

// lower returns a text with small letters.
func lower(text string) string { return string(bytes.ToLower([]byte(text))) }

// searcher looks for a text in the lines that are written to it.
type searcher struct {
	query   []byte
	number  int64
	partial []byte // beginning of a line whose end was not written yet
	text    []byte
	found   Matches
}

func (s *searcher) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			s.keep(rest)
			break
		}
		if len(s.partial) == 0 {
			s.check(rest[:i])
		} else {
			s.keep(rest[:i])
			s.line()
		}
		s.number++
		rest = rest[i+1:]
	}
	return len(b), nil
}

func (s *searcher) keep(b []byte) {
	s.partial = append(s.partial, b[:min(len(b), searchedLine-len(s.partial))]...)
}

// line checks the line in partial.
func (s *searcher) line() {
	s.check(s.partial)
	s.partial = s.partial[:0]
}

func (s *searcher) check(raw []byte) {
	s.text, _ = logline.AppendText(s.text[:0], raw[:min(len(raw), searchedLine)], 0)
	ascii := true
	for i, c := range s.text {
		switch {
		case c >= 'A' && c <= 'Z':
			s.text[i] = c + 'a' - 'A'
		case c >= 0x80:
			ascii = false
		}
	}
	text := s.text
	if !ascii {
		text = bytes.ToLower(text)
	}
	if !bytes.Contains(text, s.query) {
		return
	}
	s.found.Total++
	if len(s.found.Lines) < MaxMatches {
		s.found.Lines = append(s.found.Lines, s.number)
	}
}
