package joblog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// utf8Writer passes on complete characters, also if they are written in parts, and replaces bytes that are not
// UTF-8.
type utf8Writer struct {
	to      io.Writer
	partial []byte // first bytes of an incomplete character
}

func (h *utf8Writer) Write(b []byte) (int, error) {
	text := b
	if len(h.partial) > 0 {
		text = append(h.partial, b...)
	}
	cut := len(text) - incompleteSuffix(text)
	if _, err := h.to.Write(bytes.ToValidUTF8(text[:cut], []byte(string(utf8.RuneError)))); err != nil {
		return 0, err
	}
	h.partial = append([]byte(nil), text[cut:]...)
	return len(b), nil
}

// flush writes what is left.
func (h *utf8Writer) flush() error {
	if len(h.partial) == 0 {
		return nil
	}
	_, err := h.to.Write([]byte(string(utf8.RuneError)))
	return err
}

// incompleteSuffix returns how many bytes at the end of text are the start of an incomplete character.
func incompleteSuffix(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// writeText writes a range of the log as text.
func (l *Log) writeText(ctx context.Context, w io.Writer, from, to int64) error {
	text := &utf8Writer{to: w}
	if err := l.Copy(ctx, text, from, to); err != nil {
		return err
	}
	return text.flush()
}

// writeJSON writes a logView without keeping all of it in memory. The start times of sections are in the log
// itself, unless the agent reported them, so they come after the content.
func (l *Log) writeJSON(ctx context.Context, w io.Writer, url string) error {
	begin, err := json.Marshal(map[string]any{"url": url, "size": l.Size})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, string(begin[:len(begin)-1])+`,"content":"`); err != nil {
		return err
	}
	var times headerTimes
	text := &utf8Writer{to: jsonStringWriter{w}}
	if err := l.Copy(ctx, io.MultiWriter(&times, text), 0, l.Size); err != nil {
		return err
	}
	if err := text.flush(); err != nil {
		return err
	}
	list := l.HeaderTimes
	if len(list) == 0 {
		list = times.found
	}
	if list == nil {
		list = []int64{}
	}
	end, err := json.Marshal(list)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, `","header_times":`+string(end)+"}\n")
	return err
}

// jsonStringWriter writes text as the inside of a JSON string.
type jsonStringWriter struct{ to io.Writer }

func (q jsonStringWriter) Write(text []byte) (int, error) {
	const piece = 32 << 10
	for rest := text; len(rest) > 0; {
		one := rest[:min(piece, len(rest))]
		one = one[:len(one)-incompleteSuffix(one)]
		rest = rest[len(one):]
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(string(one)); err != nil {
			return 0, err
		}
		inside := b.Bytes()[1 : b.Len()-2] // without the quotes and the line end
		if _, err := q.to.Write(inside); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// WriteText writes the whole log as text. Bytes that are not UTF-8 are replaced.
func (l *Log) WriteText(ctx context.Context, w io.Writer) error {
	return l.writeText(ctx, w, 0, l.Size)
}
