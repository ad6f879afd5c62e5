package joblog

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const (
	jsonType  = "application/json"
	textType  = "text/plain"
	htmlType  = "text/html"
	eventType = route.EventType
	inUTF8    = "; charset=utf-8"
)

// Routes returns the routes of logs, for both forms of a job's path.
func (s *Service) Routes() []route.Route {
	var routes []route.Route
	for _, path := range builds.JobPaths {
		routes = append(routes, s.routes(path+"/log")...)
	}
	for i := range routes {
		r := &routes[i]
		r.Tag = "Job logs"
		if r.Method != http.MethodDelete {
			r.Errors = append(slices.Clone(r.Errors), http.StatusGone) // bytes are missing or damaged
		}
		r.Scope, r.Permission, r.Visitors = identity.ReadBuildLogs, identity.ReadPipeline, true
		if r.Method == http.MethodDelete {
			r.Scope, r.Permission, r.Visitors = identity.WriteBuildLogs, identity.BuildPipeline, false
		}
	}
	return routes
}

func (s *Service) routes(path string) []route.Route {
	ranges := []int{http.StatusPartialContent, http.StatusBadRequest, http.StatusRequestedRangeNotSatisfiable}
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Summary: "Get the log of a job",
			Description: "As JSON; as text or HTML when the Accept header asks for text/plain or text/html, or the path ends in .txt or .html. " +
				"As text, the header `Range: bytes=-N` asks for the last N bytes, and gets them as they were stored.",
			Query: lineParams, Media: []string{textType, htmlType}, Errors: ranges,
			Handler: route.On(s.load, s.get),
		},
		{
			Method: http.MethodGet, Path: path + ".txt", Summary: "Get the log of a job as text",
			Query: lineParams, Media: []string{textType}, Errors: ranges,
			Handler: route.On(s.load, s.getText),
		},
		{
			Method: http.MethodGet, Path: path + ".html", Summary: "Get the log of a job as HTML",
			Description: "Lines of text with `time` elements, and `span` elements whose classes begin with `term-`.",
			Media:       []string{htmlType}, Errors: []int{http.StatusBadRequest},
			Handler: route.On(s.load, s.getHTML),
		},
		{
			Method: http.MethodHead, Path: path, Summary: "Get the size of the log of a job",
			Description: "Content-Length is that of all bytes of the log as they were stored.",
			Media:       []string{textType},
			Handler:     route.On(s.load, s.head),
		},
		{
			Method: http.MethodHead, Path: path + ".txt", Summary: "Get the size of the log of a job",
			Media:   []string{textType},
			Handler: route.On(s.load, s.head),
		},
		{
			Method: http.MethodDelete, Path: path, Summary: "Delete the log of a job",
			Description: "Of a job that has not ended, what it has printed so far is deleted, and what it prints later is kept.",
			Status:      http.StatusNoContent,
			Errors:      []int{http.StatusUnprocessableEntity},
			Handler:     route.On(s.load, s.delete),
		},
		{
			Method: http.MethodGet, Path: path + "/stream", Summary: "Follow the log of a job",
			Description: "Server-sent events, from the beginning of the log or from where the Last-Event-ID header or the offset says, until the job has ended. " +
				"An event `log` has JSON with its `offset` and `content`; its id says where the next one begins. " +
				"When the log is deleted while the job runs, the offset of what follows begins at 0 again. " +
				"The last event is `end`, with the `size` of the log. A stream that ends without it is to be resumed.",
			Query:   []route.Param{{Name: "offset", Type: "integer", Doc: "Where to begin, in bytes; 0 unless given."}},
			Media:   []string{eventType},
			Handler: route.On(s.load, s.stream),
		},
	}
}

var lineParams = []route.Param{
	{Name: "first_line", Type: "integer", Doc: "As text: the number of the first line to show, counted from 1."},
	{Name: "lines", Type: "integer", Doc: "As text: how many lines to show; all unless given."},
}

// lines returns the range of the content with the lines that a request asks for.
func (l *Log) lines(r *route.Request) (from, to int64, err error) {
	first, err := lineParam(r, "first_line", 1)
	if err != nil {
		return 0, 0, err
	}
	count, err := lineParam(r, "lines", math.MaxInt64/2)
	if err != nil {
		return 0, 0, err
	}
	if from, err = l.LineOffset(r.Context(), first-1); err != nil {
		return 0, 0, err
	}
	to, err = l.LineOffset(r.Context(), first-1+count)
	return from, to, err
}

func lineParam(r *route.Request, name string, unset int64) (int64, error) {
	text := r.FormQuery(name)
	if text == "" {
		return unset, nil
	}
	n, err := strconv.ParseInt(text, 10, 62)
	if err != nil || n < 1 {
		return 0, core.Errorf(core.BadRequest, "%s must be a whole number from 1 on", name)
	}
	return n, nil
}

// load returns the job in a path of either form if it is a job with a log.
func (s *Service) load(r *route.Request) (builds.OnJob, error) {
	o, err := s.builds.LoadOnJob(r)
	if err == nil && o.Type != flow.Script {
		err = core.Errorf(core.NotFound, "No job found: only command jobs have a log")
	}
	return o, err
}

// jobOf returns the identity of a job's log.
func jobOf(o builds.OnJob) Job {
	return Job{OrganizationID: o.Build.OrganizationID, PipelineID: o.Build.PipelineID, BuildID: o.Build.ID, ID: o.Job.ID}
}

// logView is the log of a job in the API. It is written piece by piece: see writeJSON.
type logView struct {
	URL         string  `json:"url"`
	Content     string  `json:"content" doc:"Bytes that are not UTF-8 are replaced."`
	Size        int64   `json:"size" doc:"The number of bytes of the log as they were stored."`
	HeaderTimes []int64 `json:"header_times" doc:"When the sections of the log began, in nanoseconds since 1970."`
}

func (s *Service) get(r *route.Request, o builds.OnJob) (route.StreamOf[logView], error) {
	var stream route.Stream
	var err error
	switch kind := r.Accepts(jsonType, textType, htmlType); {
	case kind == textType:
		stream, err = s.getText(r, o)
	case r.Header.Get("Range") != "":
		err = errNotText
	case kind == htmlType:
		stream, err = s.getHTML(r, o)
	default:
		stream, err = s.getJSON(r, o)
	}
	return route.StreamOf[logView]{Stream: stream}, err
}

func (s *Service) getJSON(r *route.Request, o builds.OnJob) (route.Stream, error) {
	l, err := s.Open(r.Context(), jobOf(o))
	if err != nil {
		return route.Stream{}, err
	}
	url := s.public.Org(r.Org.Slug, "pipelines", o.Pipeline.Slug, "builds", strconv.Itoa(o.Build.Number), "jobs", o.Job.ID, "log")
	return route.Stream{
		Type: jsonType + inUTF8, Size: -1,
		Write: func(w http.ResponseWriter) error { return l.writeJSON(r.Context(), w, url) },
	}, nil
}

func (s *Service) getText(r *route.Request, o builds.OnJob) (route.Stream, error) {
	wanted, err := parseRange(r.Header.Get("Range"))
	if err != nil {
		return route.Stream{}, err
	}
	l, err := s.Open(r.Context(), jobOf(o))
	if err != nil {
		return route.Stream{}, err
	}
	r.SetHeader("Accept-Ranges", "bytes")
	if wanted == 0 {
		from, to, err := l.lines(r)
		return route.Stream{
			Type: textType + inUTF8, Size: -1,
			Write: func(w http.ResponseWriter) error { return l.writeText(r.Context(), w, from, to) },
		}, err
	}
	if l.Size == 0 {
		r.SetHeader("Content-Range", "bytes */0")
		return route.Stream{}, core.Errorf(core.OutOfRange, "The log is empty, so it has no last bytes")
	}
	from := max(0, l.Size-wanted)
	r.SetHeader("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, l.Size-1, l.Size))
	return route.Stream{
		Status: http.StatusPartialContent, Type: textType + inUTF8, Size: l.Size - from,
		Write: func(w http.ResponseWriter) error { return l.Copy(r.Context(), w, from, l.Size) },
	}, nil
}

func (s *Service) getHTML(r *route.Request, o builds.OnJob) (route.Stream, error) {
	if r.Header.Get("Range") != "" {
		return route.Stream{}, errNotText
	}
	l, err := s.Open(r.Context(), jobOf(o))
	if err != nil {
		return route.Stream{}, err
	}
	// The output of a job is untrusted: a browser that shows it must not run or fetch anything.
	r.SetHeader("Content-Security-Policy", "default-src 'none'; sandbox")
	return route.Stream{
		Type: htmlType + inUTF8, Size: -1,
		Write: func(w http.ResponseWriter) error { return l.WriteHTML(r.Context(), w) },
	}, nil
}

func (s *Service) head(r *route.Request, o builds.OnJob) (route.Stream, error) {
	l, err := s.Open(r.Context(), jobOf(o))
	if err != nil {
		return route.Stream{}, err
	}
	r.SetHeader("Accept-Ranges", "bytes")
	return route.Stream{Type: textType + inUTF8, Size: l.Size}, nil
}

func (s *Service) delete(r *route.Request, o builds.OnJob) (route.Nothing, error) {
	if err := o.Pipeline.Mutable(); err != nil {
		return route.Nothing{}, err
	}
	return route.Nothing{}, s.Delete(r.Context(), jobOf(o))
}
