package testreport

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
)

// readJUnit parses JUnit XML.
func (r *Report) readJUnit(content io.Reader) error {
	r.kind = "junit"
	d := xml.NewDecoder(content)
	d.CharsetReader = readCharset
	p := junitParser{report: r, decoder: d}
	for {
		token, err := d.Token()
		switch {
		case err == io.EOF && p.found:
			return nil
		case err == io.EOF:
			return core.Errorf(core.BadRequest, "The XML is not a JUnit report: it has no element testsuites, testsuite or testcase")
		case err != nil:
			return xmlError(d, err)
		}
		if err := p.take(token); err != nil {
			return err
		}
	}
}

func xmlError(d *xml.Decoder, err error) error {
	line, _ := d.InputPos()
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		err = errors.New(syntax.Msg)
	}
	return bodyError(err, "The data is not valid XML: %s, at line %d", err, line)
}

// readCharset decodes the encodings that reports have besides UTF-8.
func readCharset(charset string, input io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return input, nil
	case "iso-8859-1", "latin1", "windows-1252":
		return &latin1{r: input}, nil
	}
	return nil, core.Errorf(core.BadRequest, "The XML has the encoding %.50q; send it in UTF-8", charset)
}

// latin1 converts bytes of ISO 8859-1 into UTF-8.
type latin1 struct {
	r    io.Reader
	rest []byte
}

func (l *latin1) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		b := make([]byte, max(len(p)/2, 1))
		n, err := l.r.Read(b)
		if n == 0 {
			return 0, err
		}
		runes := make([]rune, n)
		for i, c := range b[:n] {
			runes[i] = rune(c)
		}
		l.rest = []byte(string(runes))
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// A junitParser takes the tokens of a report.
type junitParser struct {
	report  *Report
	decoder *xml.Decoder
	found   bool // an element of JUnit
	depth   int
	suites  []junitSuite // that are open
}

type junitSuite struct{ name, file string }

func (p *junitParser) take(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		if p.depth++; p.depth > maxDepth {
			return core.Errorf(core.BadRequest, "The XML has more than %d elements within each other", maxDepth)
		}
		switch t.Name.Local {
		case "testsuites":
			p.found = true
		case "testsuite":
			p.found = true
			p.suites = append(p.suites, junitSuite{attribute(t, "name"), attribute(t, "file")})
		case "testcase":
			p.found = true
			p.depth--
			return p.testcase(t)
		}
	case xml.EndElement:
		p.depth--
		if t.Name.Local == "testsuite" && len(p.suites) > 0 {
			p.suites = p.suites[:len(p.suites)-1]
		}
	}
	return nil
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return plain(a.Value)
		}
	}
	return ""
}

// testcase parses an element testcase up to its end, and adds its execution. Failures before the last attempt, which
// some runners report, are executions of their own.
func (p *junitParser) testcase(start xml.StartElement) error {
	if err := p.report.count(); err != nil {
		return err
	}
	var suite junitSuite
	if len(p.suites) > 0 {
		suite = p.suites[len(p.suites)-1]
	}
	e := Execution{
		Scope:    orText(attribute(start, "classname"), suite.name),
		Name:     attribute(start, "name"),
		File:     orText(attribute(start, "file"), suite.file),
		Result:   Passed,
		Duration: junitTime(attribute(start, "time")),
	}
	e.Location = e.File
	if line := attribute(start, "line"); line != "" && e.File != "" {
		e.Location += ":" + line
	}
	for {
		token, err := p.decoder.Token()
		if err != nil {
			return xmlError(p.decoder, err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			return p.report.add(e)
		case xml.StartElement:
			if err := p.child(t, &e); err != nil {
				return err
			}
		}
	}
}

// child parses an element within a testcase.
func (p *junitParser) child(start xml.StartElement, e *Execution) error {
	switch start.Name.Local {
	case "failure", "error":
		failure, err := p.failure(start)
		if err != nil {
			return err
		}
		if e.Result != Failed {
			e.Result, e.FailureReason = Failed, failure.reason
		}
		e.Failures = append(e.Failures, failure.Failure)
		return nil
	case "flakyFailure", "flakyError", "rerunFailure", "rerunError":
		failure, err := p.failure(start)
		if err != nil {
			return err
		}
		attempt := *e
		attempt.Result, attempt.FailureReason, attempt.Failures = Failed, failure.reason, []Failure{failure.Failure}
		return p.report.add(attempt)
	case "skipped":
		if e.Result == Passed {
			e.Result = Skipped
		}
	}
	if err := p.decoder.Skip(); err != nil {
		return xmlError(p.decoder, err)
	}
	return nil
}

type junitFailure struct {
	Failure
	reason string
}

// maxFailureText is how much of the text of a failure is read, in bytes.
const maxFailureText = 64 << 10

// failure parses an element that describes a failure, up to its end.
func (p *junitParser) failure(start xml.StartElement) (f junitFailure, err error) {
	var text strings.Builder
	for depth := 1; depth > 0; {
		token, err := p.decoder.Token()
		if err != nil {
			return f, xmlError(p.decoder, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return f, core.Errorf(core.BadRequest, "The XML has more than %d elements within each other", maxDepth)
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			text.Write(t[:min(len(t), maxFailureText-min(maxFailureText, text.Len()))])
		}
	}
	body := strings.TrimSpace(plain(text.String()))
	first, _, _ := strings.Cut(body, "\n")
	f.reason = orText(attribute(start, "message"), orText(first, attribute(start, "type")))
	if body != "" {
		f.Expanded = strings.Split(body, "\n")
	}
	return f, nil
}

// junitTime returns a duration in seconds, which some runners write with commas between thousands.
func junitTime(text string) time.Duration {
	s, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return 0
	}
	return seconds(s)
}
