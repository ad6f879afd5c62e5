package testreport

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stackyard/internal/platform/core"
)

// options let collectors repeat names, and send texts that are not valid UTF-8, as the standard library does.
var options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// readJSON parses an array of results, or an object with run_env and data.
func (r *Report) readJSON(content io.Reader) error {
	r.kind = "json"
	d := jsontext.NewDecoder(content, options)
	var err error
	switch d.PeekKind() {
	case '[':
		err = r.readResults(d)
	case '{':
		err = r.readEnvelope(d)
	default:
		if _, err := d.ReadToken(); err != nil {
			return syntaxError(d, err)
		}
		return core.Errorf(core.BadRequest, "The data must be a JSON array of results, or an object with run_env and data")
	}
	if err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return bodyError(err, "The JSON has something after its end, at byte %d", d.InputOffset())
	}
	return nil
}

// syntaxError says where JSON could not be read.
func syntaxError(d *jsontext.Decoder, err error) error {
	at := d.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		err, at = syntax.Err, syntax.ByteOffset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end of JSON input")
	}
	return bodyError(err, "The data is not valid JSON: %s, at byte %d", err, at)
}

// eachMember parses an object and calls read for each of its names, to read the value.
func eachMember(d *jsontext.Decoder, read func(name string) error) error {
	if _, err := d.ReadToken(); err != nil { // the opening brace
		return syntaxError(d, err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return syntaxError(d, err)
		}
		if err := read(name.String()); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return syntaxError(d, err)
	}
	return nil
}

// readEnvelope parses an object.
func (r *Report) readEnvelope(d *jsontext.Decoder) error {
	return eachMember(d, func(name string) (err error) {
		switch name {
		case "format":
			r.format, err = readScalar(d)
		case "run_env":
			err = r.readRunEnv(d)
		case "data":
			err = r.readData(d)
		case "tags":
			if err = json.UnmarshalDecode(d, &r.Tags, options); err != nil {
				err = syntaxError(d, err)
			}
		default:
			if err = d.SkipValue(); err != nil {
				err = syntaxError(d, err)
			}
		}
		return err
	})
}

// readScalar parses a string, a number or a boolean into its text. Anything else is an empty text.
func readScalar(d *jsontext.Decoder) (string, error) {
	var text string
	var err error
	switch d.PeekKind() {
	case '{', '[':
		err = d.SkipValue()
	case 'n':
		_, err = d.ReadToken()
	default:
		var token jsontext.Token
		if token, err = d.ReadToken(); err == nil {
			text = plain(token.String())
		}
	}
	if err != nil {
		return "", syntaxError(d, err)
	}
	return text, nil
}

// readRunEnv reads the object run_env, whose values are scalars, into the run.
func (r *Report) readRunEnv(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		return core.Errorf(core.Unprocessable, "run_env must be an object")
	}
	return eachMember(d, func(name string) error {
		value, err := readScalar(d)
		if err != nil {
			return err
		}
		r.Run.set(name, value)
		return nil
	})
}

// scalar returns the text of a string, a number or a boolean. Null is an empty text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return plain(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return fmt.Sprintf("%d", int64(v)), true
		}
		return fmt.Sprint(v), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

func (r *Report) readData(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind != '[' && kind != 0 {
		return core.Errorf(core.Unprocessable, "data must be an array of results")
	}
	return r.readResults(d)
}

// readResults parses an array.
func (r *Report) readResults(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil { // the opening bracket
		return syntaxError(d, err)
	}
	depth, at := d.StackDepth(), len(d.StackPointer())
	var result jsonResult // used again, so that its slices need no new memory
	for kind := d.PeekKind(); kind != ']' && kind != 0; kind = d.PeekKind() {
		if err := r.count(); err != nil {
			return err
		}
		result.reset()
		err := json.UnmarshalDecode(d, &result, options)
		if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
			// The pointer begins with that of the array and the number of the result.
			_, field, _ := strings.Cut(strings.TrimPrefix(string(wrong.JSONPointer)[min(at, len(wrong.JSONPointer)):], "/"), "/")
			r.skip("%s has the wrong type", orText(core.CutBytes(plain(strings.ReplaceAll(field, "/", ".")), maxSectionName), "it"))
			if err := skipRest(d, depth); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return syntaxError(d, err)
		}
		if err := r.addJSON(&result); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing bracket
		return syntaxError(d, err)
	}
	return nil
}

// skipRest reads up to the end of a value that could not be used, which began at a depth.
func skipRest(d *jsontext.Decoder, depth int) error {
	for d.StackDepth() > depth {
		if _, err := d.ReadToken(); err != nil {
			return syntaxError(d, err)
		}
	}
	return nil
}

// orText returns text, or another when it is empty.
func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// jsonResult is a result as collectors send it.
type jsonResult struct {
	ID              jsontext.Value `json:"id"`
	Scope           string         `json:"scope"`
	Name            string         `json:"name"`
	Location        string         `json:"location"`
	FileName        string         `json:"file_name"`
	Result          string         `json:"result"`
	FailureReason   string         `json:"failure_reason"`
	FailureExpanded []jsonFailure  `json:"failure_expanded"`
	History         jsonSpan       `json:"history"`
	Tags            Tags           `json:"tags"`
}

// reset empties the result and keeps the memory of its slices.
func (in *jsonResult) reset() {
	children, expanded := in.History.Children[:0], in.FailureExpanded[:0]
	*in = jsonResult{}
	in.History.Children, in.FailureExpanded = children, expanded
}

type jsonFailure struct {
	Expanded  lines `json:"expanded"`
	Backtrace lines `json:"backtrace"`
}

type jsonSpan struct {
	Section  string     `json:"section"`
	StartAt  float64    `json:"start_at"`
	EndAt    float64    `json:"end_at"`
	Duration float64    `json:"duration"`
	Children []jsonSpan `json:"children"`
}

// lines are texts that collectors send as an array or as one text.
type lines []string

// UnmarshalJSON reads lines; what is not text is left out.
func (l *lines) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v, options); err != nil {
		return err
	}
	*l = nil
	switch v := v.(type) {
	case string:
		*l = strings.Split(plain(v), "\n")
	case []any:
		for _, item := range v {
			if text, ok := scalar(item); ok {
				*l = append(*l, text)
			}
		}
	}
	return nil
}

func (r *Report) addJSON(in *jsonResult) error {
	e := Execution{
		id:            string(in.ID),
		Scope:         plain(in.Scope),
		Name:          plain(in.Name),
		Location:      plain(in.Location),
		File:          plain(in.FileName),
		Result:        Result(in.Result),
		Duration:      in.History.duration(),
		FailureReason: plain(in.FailureReason),
		Tags:          in.Tags,
	}
	if e.Result == "" {
		e.Result = Unknown
	}
	if !slices.Contains(Results, e.Result) {
		r.skip("the result must be one of %s, not %.50q", strings.Join(e.Result.Values(), ", "), in.Result)
		return nil
	}
	for _, f := range in.FailureExpanded {
		e.Failures = append(e.Failures, Failure{Expanded: f.Expanded, Backtrace: f.Backtrace})
	}
	e.Sections = in.History.sum(e.Sections, 0)
	return r.add(e)
}

// duration returns how long a span took. Some collectors only send when it began and ended.
func (s *jsonSpan) duration() time.Duration {
	if s.Duration == 0 && s.StartAt != 0 {
		return seconds(s.EndAt - s.StartAt)
	}
	return seconds(s.Duration)
}

// The bounds of sections.
const (
	maxSections    = 20
	maxSectionName = 50 // bytes
)

// sum adds the sections of spans below this one. Sections within a section of the same name are part of it.
func (s *jsonSpan) sum(sections []Section, depth int) []Section {
	if depth > maxDepth {
		return sections
	}
	for i := range s.Children {
		child := &s.Children[i]
		if name := core.CutBytes(plain(child.Section), maxSectionName); name != "" && name != s.Section {
			at := slices.IndexFunc(sections, func(section Section) bool { return section.Name == name })
			if at < 0 && len(sections) < maxSections {
				at = len(sections)
				sections = append(sections, Section{Name: name})
			}
			if at >= 0 {
				sections[at].Count++
				sections[at].Duration += child.duration()
			}
		}
		sections = child.sum(sections, depth+1)
	}
	return sections
}

// seconds returns a duration that is given in seconds; nonsense is zero.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxDuration.Seconds()) * float64(time.Second)).Round(time.Microsecond)
}

// plain returns a text as databases can keep it.
func plain(text string) string {
	if strings.IndexByte(text, 0) >= 0 {
		text = strings.ReplaceAll(text, "\x00", "\ufffd")
	}
	return strings.ToValidUTF8(text, "\ufffd")
}
