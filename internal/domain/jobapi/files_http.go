package jobapi

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Where the bytes of artifacts are sent and fetched.
const (
	filesPath    = "artifacts"
	formSegment  = "form"
	partsSegment = "parts"
	fileField    = "file"
)

func (s *Service) fileRoutes() []route.Route {
	routes := []route.Route{
		{Method: http.MethodPost, Path: "/" + filesPath + "/" + formSegment, Handler: route.Visit(s.postForm)},
		{Method: http.MethodPut, Path: "/" + filesPath + "/{artifact}/" + partsSegment + "/{part}", Handler: route.Visit(s.putPart)},
		{Method: http.MethodGet, Path: "/" + filesPath + "/{artifact}", Content: true, Handler: route.Visit(s.getFile)},
	}
	for i := range routes {
		routes[i].Auth, routes[i].Hidden = route.Open, true
	}
	for _, path := range artifacts.Paths {
		routes = append(routes, route.Route{
			Method: http.MethodGet, Path: path + "/download", Tag: "Artifacts", Summary: "Download an artifact",
			Description: "Redirects to where the file is, which needs no token and is good for about a minute.",
			Scope:       identity.ReadArtifacts, Permission: identity.ReadPipeline, Visitors: true,
			Status:  http.StatusFound,
			Handler: route.On(s.artifacts.Load, s.getDownload),
		})
	}
	return routes
}

type artifactDownloadView struct {
	URL string `json:"url" doc:"Where the file is; also in the Location header."`
}

// DownloadAddress returns where a browser can fetch an artifact, for about a minute, or a NotFound error.
func (s *Service) DownloadAddress(a artifacts.Artifact) (string, error) {
	to := s.links.addressOf(a, redirectFor)
	if u, err := url.Parse(to); a.State != artifacts.StateFinished || err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", core.Errorf(core.NotFound, "The artifact has no file that can be downloaded")
	}
	return to, nil
}

func (s *Service) getDownload(r *route.Request, o artifacts.OnArtifact) (artifactDownloadView, error) {
	to, err := s.DownloadAddress(o.Artifact)
	if err != nil {
		return artifactDownloadView{}, err
	}
	r.SetHeader("Location", to)
	r.SetHeader("Cache-Control", "no-store")
	return artifactDownloadView{to}, nil
}

// addressOf returns where the bytes of an artifact are.
func (l links) addressOf(a artifacts.Artifact, lifetime time.Duration) string {
	if !a.Kept() {
		return a.Location
	}
	l.public = cmp.Or(l.content, l.public)
	return l.to(lifetime, filesPath, a.ID)
}

// silence is how long whoever sends bytes may send none.
const silence = time.Minute

// patient reads a body for as long as it keeps coming, however long that takes.
type patient struct {
	body       io.Reader
	connection *http.ResponseController
	until      time.Time
}

func (p *patient) Read(b []byte) (int, error) {
	// A deadline that can be set is set again only when it is much nearer: that costs more than a read.
	if now := time.Now(); p.until.Sub(now) < silence/2 {
		p.until = now.Add(silence)
		p.connection.SetReadDeadline(p.until)
	}
	n, err := p.body.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = core.Errorf(core.TooSlow, "Nothing more arrived within %s", silence)
	}
	return n, err
}

// patiently returns the body of a request, to be read in peace.
func patiently(w http.ResponseWriter, r *route.Request) *patient {
	return &patient{body: r.Body, connection: http.NewResponseController(w)}
}

// postForm takes a file of a batch that was announced.
func (s *Service) postForm(w http.ResponseWriter, r *route.Request) error {
	patient := patiently(w, r)
	defer patient.connection.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(patient)
	form, err := r.MultipartReader()
	if err != nil {
		return core.Errorf(core.BadRequest, "Files of artifacts are sent as multipart/form-data")
	}
	fields, file, err := readForm(form)
	if err != nil {
		return err
	}
	if err := s.links.check(fields, formSegment, fields.Get("job"), fields.Get("batch")); err != nil {
		return err
	}
	a, err := s.artifacts.OfBatch(r.Context(), fields.Get("job"), fields.Get("batch"), fields.Get("path"))
	if err != nil {
		return err
	}
	if err := s.awaited(r.Context(), a); err != nil {
		return err
	}
	if a.Parts > 1 {
		return core.Errorf(core.Unprocessable, "%s was announced to come in %d parts", a.Path, a.Parts)
	}
	if _, err := s.keep(r.Context(), a, 1, file); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// The fields of a form before its file.
const (
	maxFields = 20
	maxField  = 8 << 10 // bytes
)

// readForm returns the fields of a form, and its file, which comes last.
func readForm(form *multipart.Reader) (url.Values, io.Reader, error) {
	fields := url.Values{}
	for range maxFields {
		part, err := form.NextPart()
		if slow := core.KindOf(err) == core.TooSlow; slow {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, core.Errorf(core.BadRequest, "The form ends before its file, or cannot be read")
		}
		if part.FormName() == fileField {
			return fields, part, nil
		}
		value, err := io.ReadAll(io.LimitReader(part, maxField+1))
		switch {
		case err != nil:
			return nil, nil, core.Errorf(core.BadRequest, "The form cannot be read")
		case len(value) > maxField:
			return nil, nil, core.Errorf(core.TooLarge, "A field of the form has more than %d bytes", maxField)
		}
		fields.Set(part.FormName(), string(value))
	}
	return nil, nil, core.Errorf(core.BadRequest, "The form has more than %d fields before its file", maxFields)
}

// putPart takes one part of a file that was announced.
func (s *Service) putPart(w http.ResponseWriter, r *route.Request) error {
	id, number := r.PathValue("artifact"), r.PathValue("part")
	if err := s.links.checkPath(r, filesPath, id, partsSegment, number); err != nil {
		return err
	}
	part, err := strconv.Atoi(number)
	if err != nil {
		return errBadLink
	}
	a, err := s.artifacts.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if err := s.awaited(r.Context(), a); err != nil {
		return err
	}
	patient := patiently(w, r)
	defer patient.connection.SetReadDeadline(time.Time{})
	kept, err := s.keep(r.Context(), a, part, patient)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+s.receipt(a, part, kept.hex())+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}

// getFile answers with the bytes of an artifact, or with some of them.
func (s *Service) getFile(w http.ResponseWriter, r *route.Request) error {
	id := r.PathValue("artifact")
	if err := s.links.checkPath(r, filesPath, id); err != nil {
		return err
	}
	if content := s.links.content; content != "" && strings.EqualFold(r.Host, s.public.Host()) {
		http.Redirect(w, r.Request, content.To(filesPath, id)+"?"+r.URL.RawQuery, http.StatusFound)
		return nil
	}
	a, err := s.artifacts.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if a.State != artifacts.StateFinished || !a.Kept() {
		return core.Errorf(core.NotFound, "The artifact has no file that can be downloaded")
	}
	file, err := s.openFile(r.Context(), a)
	if err != nil {
		return err
	}
	defer file.Close()
	setFileHeaders(w.Header(), a)
	http.ServeContent(w, r.Request, "", a.CreatedAt, file)
	return nil
}

// setFileHeaders says what a file is. Files come from jobs, that is from anybody who can propose a
// change, and may be on the origin of the pages: a page among them may not run scripts, send forms, or load
// or reach anything, and no page can use one of them as a script or a style sheet.
func setFileHeaders(h http.Header, a artifacts.Artifact) {
	kind, disposition := inertKind(a.MimeType), "attachment"
	if shown(kind) {
		disposition = "inline"
	}
	if strings.HasPrefix(kind, "text/") && !strings.Contains(kind, "charset") {
		kind += "; charset=utf-8"
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": path.Base(a.Path)}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; img-src data:; media-src data:; font-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'")
	h.Set("Referrer-Policy", "no-referrer") // the address is a secret
	h.Set("Cache-Control", "private, no-store")
	h.Set("ETag", `"`+a.ID+`"`)
}

// inertKind returns the kind that a file is served as: browsers that are told not to guess run only what has
// one of the kinds of scripts.
func inertKind(kind string) string {
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return "application/octet-stream"
	}
	for _, part := range []string{"javascript", "ecmascript", "jscript", "livescript", "css"} {
		if strings.Contains(media, part) {
			return "text/plain"
		}
	}
	return kind
}

// shown reports whether browsers are to show a file of a kind rather than to save it.
func shown(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return false
	}
	main, _, _ := strings.Cut(media, "/")
	return main == "text" || main == "image" || main == "audio" || main == "video" || media == "application/json"
}
