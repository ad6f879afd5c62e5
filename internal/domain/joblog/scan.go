package joblog

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"stackyard/internal/platform/lru"
	"stackyard/internal/rules/logline"
)

const (
	// markEvery is the distance of marks in a log: what must be read for one line, at most.
	markEvery = 64 << 10
	// maxScanned limits the scans that a process keeps. Each has a mark for every 64 KiB of its log, and the sections.
	maxScanned = 200
	// maxSections limits the sections of an outline.
	maxSections = 2000
	// lineStart is how much of a line scans look at.
	lineStart = 1 << 10
)

// A Section is a part of a log that begins with a heading.
type Section struct {
	Line  int64 // of the heading, from 0
	End   int64 // first line after the section
	Title string
	Kind  logline.Kind
	Open  bool // by its heading or a later line
	// At and Until are when it began and ended, as far as the log has times.
	At, Until time.Time
}

// An Outline is what a whole log contains.
type Outline struct {
	Lines      int64
	Sections   []Section
	More       bool  // there are more sections
	FirstError int64 // first line that reports a failure; -1: none found
}

// Outline returns the outline of the log. The first call reads the whole log; later calls read what was added.
func (l *Log) Outline(ctx context.Context) (Outline, error) {
	s, err := l.scan(ctx)
	if err != nil {
		return Outline{}, err
	}
	return s.outline(), nil
}

// A scanKey identifies contents of which one is the beginning of the other.
type scanKey struct {
	job        string
	generation int64
	ended      bool
	archive    string
	size       int64 // of a log that has ended; 0 before
}

// A scanned is what reading a log from the beginning to an offset has found.
type scanned struct {
	mu sync.Mutex
	scanState
}

// scanState is a value, so that readers get a copy.
type scanState struct {
	at       int64 // offset of the next byte
	number   int64 // of the current line
	lineAt   int64 // where the current line begins
	partial  []byte
	marks    []mark
	sections []Section
	more     bool
	failed   int64 // first line that reports a failure; -1: none
	stamp    int64
	text     []byte
	lines    int64 // including the current one if it has bytes
}

type mark struct{ line, offset int64 }

// scans are the scanned logs of a process, and slots for those being read.
type scans struct {
	known *lru.Cache[scanKey, *scanned]
	slots chan struct{}
	mu    sync.Mutex
}

func newScans() scans {
	return scans{known: lru.New[scanKey, *scanned](maxScanned), slots: make(chan struct{}, maxConcurrentSeals)}
}

func (s *scans) get(key scanKey) *scanned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.known.Get(key); ok {
		return found
	}
	found := &scanned{scanState: scanState{failed: -1, marks: []mark{{}}}}
	s.known.Add(key, found)
	return found
}

// scan returns what is known of the log up to its size, and reads what is not.
func (l *Log) scan(ctx context.Context) (scanState, error) {
	key := scanKey{job: l.job.ID, generation: l.record.generation, ended: l.Ended, archive: l.record.archive}
	if l.Ended {
		key.size = l.Size
	}
	s := l.service.scans.get(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at < l.Size {
		select {
		case l.service.scans.slots <- struct{}{}:
			defer func() { <-l.service.scans.slots }()
		case <-ctx.Done():
			return scanState{}, ctx.Err()
		}
		if err := l.Copy(ctx, s, s.at, l.Size); err != nil {
			return scanState{}, err
		}
	}
	return s.scanState, nil
}

func (s *scanned) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		end := i
		if i < 0 {
			end = len(rest)
		}
		if room := lineStart - len(s.partial); room > 0 {
			s.partial = append(s.partial, rest[:min(room, end)]...)
		}
		if i < 0 {
			s.at += int64(end)
			break
		}
		s.at += int64(end) + 1
		rest = rest[end+1:]
		s.line()
	}
	s.lines = s.number
	if s.at > s.lineAt {
		s.lines++
	}
	return len(b), nil
}

// line ends the current line.
func (s *scanned) line() {
	s.text, s.stamp = logline.AppendText(s.text[:0], s.partial, s.stamp)
	s.look()
	s.number++
	s.lineAt, s.partial = s.at, s.partial[:0]
	if s.at-s.marks[len(s.marks)-1].offset >= markEvery {
		s.marks = append(s.marks, mark{s.number, s.at})
	}
}

// look takes what is of interest from the current line.
func (s *scanned) look() {
	if len(s.text) == 0 {
		return
	}
	switch s.text[0] {
	case '-', '+', '~', '^':
		s.heading(string(s.text))
	}
	if s.failed < 0 && logline.IsError(s.text) {
		s.failed = s.number
	}
}

func (s *scanned) heading(text string) {
	kind := logline.KindOf(text)
	if kind == logline.Opener && len(s.sections) > 0 {
		// Copies that readers have stay as they are.
		s.sections = append([]Section(nil), s.sections...)
		s.sections[len(s.sections)-1].Open = true
	}
	if !kind.Heading() {
		return
	}
	if len(s.sections) == maxSections {
		s.more = true
		return
	}
	section := Section{Line: s.number, Kind: kind, Title: strings.TrimSpace(text[3:]), Open: kind == logline.Expanded}
	if s.stamp > 0 {
		section.At = time.UnixMilli(s.stamp).UTC()
	}
	s.sections = append(s.sections, section)
}

// outline returns the sections with their ends.
func (s scanState) outline() Outline {
	o := Outline{Lines: s.lines, Sections: make([]Section, len(s.sections)), More: s.more, FirstError: s.failed}
	copy(o.Sections, s.sections)
	for i := range o.Sections {
		section := &o.Sections[i]
		section.End = s.lines
		if s.stamp > 0 {
			section.Until = time.UnixMilli(s.stamp).UTC()
		}
		if i+1 < len(o.Sections) {
			section.End, section.Until = o.Sections[i+1].Line, o.Sections[i+1].At
		}
	}
	return o
}

// markBefore returns the last mark that is not after a line.
func (s scanState) markBefore(line int64) mark {
	low, high := 0, len(s.marks)
	for high-low > 1 {
		if middle := (low + high) / 2; s.marks[middle].line <= line {
			low = middle
		} else {
			high = middle
		}
	}
	return s.marks[low]
}
