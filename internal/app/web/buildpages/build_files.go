package buildpages

import (
	"fmt"
	"html"
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/rules/flow"
)

// openLog opens the log of the job in the path.
func (s *Site) openLog(v *pages.Visit) (builds.OnJob, *joblog.Log, error) {
	o, err := s.Builds.LoadOnJob(v.Request)
	if err == nil && o.Type != flow.Script {
		err = pages.ErrNothing
	}
	if err != nil {
		return o, nil, err
	}
	l, err := s.Logs.Open(v.Context(), joblog.Job{OrganizationID: v.Org.ID, PipelineID: o.Pipeline.ID, BuildID: o.Build.ID, ID: o.ID})
	return o, l, err
}

// logText serves a whole log as text.
func (s *Site) logText(v *pages.Visit) error {
	_, l, err := s.openLog(v)
	if err != nil {
		return err
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return s.writeBody(v, func() error { return l.WriteText(v.Context(), v.W) })
}

// logHTML serves a whole log with its colors.
func (s *Site) logHTML(v *pages.Visit) error {
	o, l, err := s.openLog(v)
	if err != nil {
		return err
	}
	return s.writeBody(v, func() error {
		_, err := fmt.Fprintf(v.W, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>%s</title>
<link rel="stylesheet" href="%s"><link rel="stylesheet" href="%s"></head><body class="only-log"><main class="log" tabindex="0">
`, html.EscapeString("Log of "+markdown.Emoji(nameOf(o.Job.Shown(o.Pipeline)))), s.Prefix+pages.AssetPath("stackyard.css"), s.Prefix+pages.AssetPath("build.css"))
		if err != nil {
			return err
		}
		if err := l.WriteHTML(v.Context(), v.W); err != nil {
			return err
		}
		_, err = fmt.Fprint(v.W, "</main></body></html>\n")
		return err
	})
}

// writeBody writes a body that is not kept in memory. An error after its beginning breaks the connection, so that
// a partial body is not taken for the whole.
func (s *Site) writeBody(v *pages.Visit, write func() error) error {
	if v.Method == http.MethodHead {
		return nil
	}
	if err := write(); err != nil {
		if v.Context().Err() == nil { // else the reader has disconnected
			s.Log.Warn("log truncated", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// artifact redirects to the content of an artifact.
func (s *Site) artifact(v *pages.Visit) error {
	o, err := s.Artifacts.Load(v.Request)
	if err != nil {
		return err
	}
	to, err := s.Download(o.Artifact)
	if err != nil {
		return err
	}
	http.Redirect(v.W, v.Request.Request, to, http.StatusFound)
	return nil
}
