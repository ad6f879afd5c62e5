// Package markdown renders Markdown that users wrote as HTML that is safe to put into a page.
//
// The text is hostile: the Markdown parser and the HTML it allows have inputs whose cost grows with the
// square of their size. So every render runs against a budget of work that is linear in the size of the
// text (budget.go): the parser's own extension points charge it before the expensive part runs. A text that
// exceeds a limit is shown as it was written, escaped. The result is sanitized and well formed (tidy.go), so
// it cannot close elements of the page around it.
//
// Render when text is written, never when it is read, and outside transactions.
package markdown

import (
	"context"
	"errors"
	"fmt"
	"html"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	render "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// MaxHTML is the maximum size of a result, in bytes.
	MaxHTML = 4 << 20
	// maxTime bounds one render in the worst case. The budget ends a render much earlier, on any machine that
	// is not overloaded.
	maxTime = 10 * time.Second

	tooComplex = "<p><em>This text is too complex to be formatted, so it is shown as it was written.</em></p>\n"
)

// ArtifactScheme is the scheme of links to files of the build that a text belongs to.
const ArtifactScheme = "artifact"

// slots hold a token for each running render of this process; they bound the resources of all.
var slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Render returns Markdown as HTML of at most MaxHTML bytes. A text that is too complex is returned escaped,
// in a pre element. The only errors are those of ctx.
func Render(ctx context.Context, source string) (string, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out, err := convert(newMeter(limited, len(source)), source)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return escaped(source), nil
}

// converter parses GitHub's Markdown with HTML, and charges a meter for the work.
var converter = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(render.WithUnsafe()),
	goldmark.WithParserOptions(
		parser.WithParagraphTransformers(util.Prioritized(paragraphGate{}, 1)),
		parser.WithInlineParsers(util.Prioritized(inlineGate{}, 1)),
	),
)

// convert renders a text within the budget of a meter.
func convert(m *meter, source string) (out string, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exceeded:
			err = r.error
		default: // a bug of the parser that a text can trigger
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if strings.Count(source, "\n") > maxLines {
		return "", errLimit
	}
	input := []byte(source)
	state := parser.NewContext()
	state.Set(meterKey, m)
	document := converter.Parser().Parse(blockReader{text.NewReader(input), m}, parser.WithContext(state))
	var raw, clean limitedBuffer
	raw.meter, clean.meter = m, m
	if err := converter.Renderer().Render(&raw, input, document); err != nil {
		return "", err
	}
	if err := policy().SanitizeReaderToWriter(strings.NewReader(raw.String()), &clean); err != nil {
		return "", err
	}
	return tidy(clean.String())
}

// errLimit means that a text exceeds a limit.
var errLimit = errors.New("too complex")

// limitedBuffer is a buffer with the maximum size that a meter allows.
type limitedBuffer struct {
	strings.Builder
	meter *meter
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.meter.spend(len(p) / 16)
	if b.Len()+len(p) > b.meter.maxHTML {
		panic(exceeded{errLimit}) // the renderer ignores write errors until it is done
	}
	return b.Builder.Write(p)
}

func (b *limitedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// policy is the allowed HTML: nothing that runs, and nothing that looks like a part of the page.
var policy = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.UGCPolicy()
	p.AllowAttrs("class").Matching(bluemonday.SpaceSeparatedTokens).Globally()
	p.AllowAttrs("open").OnElements("details")
	p.AllowURLSchemes("http", "https", "mailto", ArtifactScheme)
	return p
})

// escaped returns a text unrendered, cut when its HTML would be too large. It escapes the text in pieces, so that it
// never holds more than MaxHTML and a piece.
func escaped(source string) string {
	var b strings.Builder
	b.WriteString(tooComplex)
	b.WriteString("<pre>")
	const end = "</pre>\n"
	for len(source) > 0 {
		piece := source[:min(len(source), 4<<10)]
		for len(piece) < len(source) && !utf8.RuneStart(source[len(piece)]) { // do not cut a character
			piece = piece[:len(piece)-1]
		}
		safe := html.EscapeString(strings.ToValidUTF8(piece, "\uFFFD"))
		if b.Len()+len(safe)+len(end)+len("…") > MaxHTML {
			b.WriteString("…")
			break
		}
		b.WriteString(safe)
		source = source[len(piece):]
	}
	b.WriteString(end)
	return b.String()
}
