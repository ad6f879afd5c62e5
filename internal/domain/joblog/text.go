package joblog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// whole hands on what is written to it in whole characters, even where they were written in two parts,
// and in the place of bytes that are not UTF-8 the replacement character.
type whole struct {
	to   io.Writer
	held []byte // the first bytes of a character
}

func (h *whole) Write(b []byte) (int, error) {
	text := b
	if len(h.held) > 0 {
		text = append(h.held, b...)
	}
	cut := len(text) - begun(text)
	if _, err := h.to.Write(bytes.ToValidUTF8(text[:cut], []byte(string(utf8.RuneError)))); err != nil {
		return 0, err
	}
	h.held = append([]byte(nil), text[cut:]...)
	return len(b), nil
}

// end hands on what is left.
func (h *whole) end() error {
	if len(h.held) == 0 {
		return nil
	}
	_, err := h.to.Write([]byte(string(utf8.RuneError)))
	return err
}

// begun returns how many bytes at the end of a text are the first of a character that is not all there.
func begun(text []byte) int {
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
	text := &whole{to: w}
	if err := l.Copy(ctx, text, from, to); err != nil {
		return err
	}
	return text.end()
}

// writeJSON writes a logView, without having all of it in memory. When sections began stands in the log
// itself, unless the agent told it otherwise, so that comes after the content.
func (l *Log) writeJSON(ctx context.Context, w io.Writer, url string) error {
	begin, err := json.Marshal(map[string]any{"url": url, "size": l.Size})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, string(begin[:len(begin)-1])+`,"content":"`); err != nil {
		return err
	}
	var times headerTimes
	text := &whole{to: quoted{w}}
	if err := l.Copy(ctx, io.MultiWriter(&times, text), 0, l.Size); err != nil {
		return err
	}
	if err := text.end(); err != nil {
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

// quoted writes text as the inside of a JSON string.
type quoted struct{ to io.Writer }

func (q quoted) Write(text []byte) (int, error) {
	const piece = 32 << 10
	for rest := text; len(rest) > 0; {
		one := rest[:min(piece, len(rest))]
		one = one[:len(one)-begun(one)]
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

// WriteText writes all of the log as text in which bytes that are not UTF-8 are replaced.
func (l *Log) WriteText(ctx context.Context, w io.Writer) error {
	return l.writeText(ctx, w, 0, l.Size)
}
