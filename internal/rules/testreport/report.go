// Package testreport parses uploads of test results: JSON as test collectors send it, and JUnit XML. It is pure and
// parses while the body arrives, within bounds on size, number and depth.
//
// A result that cannot be used, for example because it has no name, is skipped and counted; the others are kept. A
// body that cannot be read at all is an error.
package testreport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/platform/core"
)

// The bounds of an upload.
const (
	MaxBody    = 32 << 20 // bytes that are sent
	maxContent = 64 << 20 // bytes after decompression
	MaxResults = 10_000

	maxErrors = 20 // descriptions of skipped results
	maxDepth  = 100
)

// A Result is how an execution ended.
type Result string

// The results.
const (
	Passed  Result = "passed"
	Failed  Result = "failed"
	Skipped Result = "skipped"
	Pending Result = "pending"
	Unknown Result = "unknown"
)

// Results lists every result.
var Results = []Result{Passed, Failed, Skipped, Pending, Unknown}

// Values lists every result by name.
func (Result) Values() []string {
	names := make([]string, len(Results))
	for i, r := range Results {
		names[i] = string(r)
	}
	return names
}

// A Report is what one upload says.
type Report struct {
	Run        Run
	Executions []Execution
	Tags       Tags     // of all executions
	Skipped    int      // results that could not be used
	Errors     []string // why, for the first of them

	format string // as given; "": not given
	kind   string // as found: json or junit
	left   int64  // bytes that may still be read, after decompression
}

// A Run names the run that executions belong to, as collectors describe it in run_env.
type Run struct {
	Key       string // the same for all uploads of a run, such as the id of a build
	Number    string
	Branch    string
	CommitSHA string
	Message   string
	URL       string
	JobID     string
	CI        string // the kind of the CI system, such as buildkite
	Collector string
}

// An Execution is one time that a test was executed.
type Execution struct {
	Scope, Name    string
	Location, File string
	Result         Result
	Duration       time.Duration
	FailureReason  string
	Failures       []Failure
	Sections       []Section
	Tags           Tags // beside those of the report

	id string // as the collector calls it; not unique
}

// A Failure has the details of why an execution failed.
type Failure struct {
	Expanded  []string `json:"expanded"`
	Backtrace []string `json:"backtrace"`
}

// A Section is where an execution spent time, such as in calls of a database.
type Section struct {
	Name     string
	Count    int
	Duration time.Duration
}

// Read parses the body of an upload. contentType is that of the request and query has parameters that the body may
// lack: format and run_env[…].
func Read(contentType string, compressed bool, query url.Values, body io.Reader) (*Report, error) {
	r := &Report{left: maxContent}
	content := &limited{r: body, left: &r.left}
	if compressed {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, bodyError(err, "The request body is not valid gzip")
		}
		content.r = unzipped
	}
	for name, values := range query {
		r.setField(name, values[0])
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		return nil, core.Errorf(core.BadRequest, "The Content-Type %.100q is malformed", contentType)
	}
	if kind == "multipart/form-data" {
		err = r.readForm(content, params["boundary"])
	} else {
		err = r.readContent(content)
	}
	if err != nil {
		return nil, err
	}
	return r, r.check()
}

// readContent parses JSON or XML, whichever it is.
func (r *Report) readContent(content io.Reader) error {
	b := bufio.NewReaderSize(content, 64<<10)
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		b.Discard(len(mark))
	}
	for {
		c, err := b.ReadByte()
		switch {
		case err == io.EOF:
			return core.Errorf(core.BadRequest, "The upload has no data; send JSON or JUnit XML")
		case err != nil:
			return bodyError(err, "The upload cannot be read")
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		b.UnreadByte()
		if c == '<' {
			return r.readJUnit(b)
		}
		return r.readJSON(b)
	}
}

// setField takes a field of a form or a parameter: format, or one of run_env or tags.
func (r *Report) setField(name, value string) {
	if name == "format" {
		r.format = value
		return
	}
	if key, ok := strings.CutPrefix(name, "run_env["); ok {
		r.Run.set(strings.TrimSuffix(key, "]"), value)
	}
	if key, ok := strings.CutPrefix(name, "tags["); ok {
		r.Tags.set(strings.TrimSuffix(key, "]"), value)
	}
}

// set takes a field of run_env. Unknown fields are ignored.
func (r *Run) set(name, value string) {
	fields := map[string]*string{
		"key": &r.Key, "number": &r.Number, "branch": &r.Branch, "commit_sha": &r.CommitSHA, "message": &r.Message,
		"url": &r.URL, "job_id": &r.JobID, "ci": &r.CI, "collector": &r.Collector,
	}
	if field := fields[strings.ToLower(name)]; field != nil {
		*field = value
	}
}

// maxKey is the length of the longest key of a run, in bytes.
const maxKey = 255

// check returns an error when nothing can be made of the report.
func (r *Report) check() error {
	switch {
	case r.format != "" && r.format != "json" && r.format != "junit":
		return core.Errorf(core.Unprocessable, "The format must be json or junit, not %.100q", r.format)
	case r.format != "" && r.kind != "" && r.format != r.kind:
		return core.Errorf(core.Unprocessable, "The format is %s, but the data is %s", r.format, r.kind)
	case strings.TrimSpace(r.Run.Key) == "":
		return core.Errorf(core.Unprocessable, "run_env.key is required: the same value for all uploads of a run, such as the id of the build")
	case len(r.Run.Key) > maxKey:
		return core.Errorf(core.Unprocessable, "run_env.key must have at most %d bytes, not %d", maxKey, len(r.Run.Key))
	case len(r.Executions) == 0 && r.Skipped > 0:
		return core.Errorf(core.Unprocessable, "None of the %d results can be used: %s", r.Skipped, r.Errors[0])
	}
	return nil
}

// add keeps an execution, or skips it when it cannot be used.
func (r *Report) add(e Execution) error {
	if err := r.count(); err != nil {
		return err
	}
	if strings.TrimSpace(e.Name) == "" {
		r.skip("it has no name")
		return nil
	}
	e.Duration = min(max(e.Duration, 0), maxDuration)
	r.Executions = append(r.Executions, e)
	return nil
}

// maxDuration is the longest duration that is believed.
const maxDuration = 30 * 24 * time.Hour

// count returns an error when there is no room for another result.
func (r *Report) count() error {
	if len(r.Executions)+r.Skipped >= MaxResults {
		return core.Errorf(core.Unprocessable, "An upload has at most %d results; send more of them in further uploads with the same run_env.key", MaxResults)
	}
	return nil
}

// skip notes that a result cannot be used.
func (r *Report) skip(format string, args ...any) {
	if len(r.Errors) < maxErrors {
		r.Errors = append(r.Errors, fmt.Sprintf("result %d: %s", len(r.Executions)+r.Skipped+1, fmt.Sprintf(format, args...)))
	}
	r.Skipped++
}

// Digest returns a text that is the same for uploads that say the same, however they are encoded.
func (r *Report) Digest() string {
	h := sha256.New()
	b := appendTexts(nil, r.Run.Key, r.Run.JobID, r.Run.CommitSHA, r.Run.Branch)
	for i := range r.Executions {
		e := &r.Executions[i]
		b = binary.AppendVarint(b, int64(e.Duration))
		b = appendTexts(b, e.id, e.Scope, e.Name, e.Location, string(e.Result), e.FailureReason)
		h.Write(b)
		b = b[:0]
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// appendTexts appends texts so that no two lists of texts give the same bytes.
func appendTexts(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// limited reads no more than a number of bytes, and then fails with TooLarge.
type limited struct {
	r    io.Reader
	left *int64
}

func (l *limited) Read(p []byte) (int, error) {
	if *l.left <= 0 {
		return 0, core.Errorf(core.TooLarge, "The upload has more than %d bytes; send it in several uploads with the same run_env.key", maxContent)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), *l.left)])
	*l.left -= int64(n)
	return n, err
}

// bodyError returns the error of the reader that limits the body, or a BadRequest error with a text.
func bodyError(err error, format string, args ...any) error {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	return core.Errorf(core.BadRequest, format, args...)
}
