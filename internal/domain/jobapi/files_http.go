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

// The segments of the URLs at which artifacts are sent and fetched, and the form field of the file.
const (
	artifactsSegment = "artifacts"
	formSegment      = "form"
	partsSegment     = "parts"
	fileField        = "file"
)

func (s *Service) fileRoutes() []route.Route {
	routes := []route.Route{
		{Method: http.MethodPost, Path: "/" + artifactsSegment + "/" + formSegment, Handler: route.Visit(s.postForm)},
		{Method: http.MethodPut, Path: "/" + artifactsSegment + "/{artifact}/" + partsSegment + "/{part}", Handler: route.Visit(s.putPart)},
		{Method: http.MethodGet, Path: "/" + artifactsSegment + "/{artifact}", Content: true, Handler: route.Visit(s.getFile)},
	}
	for i := range routes {
		routes[i].Auth, routes[i].Hidden = route.Open, true
	}
	for _, path := range artifacts.Paths {
		routes = append(routes, route.Route{
			Method: http.MethodGet, Path: path + "/download", Tag: "Artifacts", Summary: "Download an artifact",
			Description: "Redirects to a URL that needs no token and expires after about a minute.",
			Scope:       identity.ReadArtifacts, Permission: identity.ReadPipeline, Visitors: true,
			Status:  http.StatusFound,
			Handler: route.On(s.artifacts.Load, s.getDownload),
		})
	}
	return routes
}

type artifactDownloadView struct {
	URL string `json:"url" doc:"URL of the file, also in the Location header."`
}

// DownloadURL returns a URL at which a browser can download an artifact for about a minute, or a NotFound
// error.
func (s *Service) DownloadURL(a artifacts.Artifact) (string, error) {
	address := s.urls.artifactURL(a, redirectLifetime)
	if u, err := url.Parse(address); a.State != artifacts.StateFinished || err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", core.Errorf(core.NotFound, "The artifact has no file that can be downloaded")
	}
	return address, nil
}

func (s *Service) getDownload(r *route.Request, o artifacts.OnArtifact) (artifactDownloadView, error) {
	address, err := s.DownloadURL(o.Artifact)
	if err != nil {
		return artifactDownloadView{}, err
	}
	r.SetHeader("Location", address)
	r.SetHeader("Cache-Control", "no-store")
	return artifactDownloadView{address}, nil
}

// artifactURL returns the URL of the bytes of an artifact.
func (u urlSigner) artifactURL(a artifacts.Artifact, lifetime time.Duration) string {
	if !a.Kept() {
		return a.Location
	}
	u.public = cmp.Or(u.content, u.public)
	return u.url(lifetime, artifactsSegment, a.ID)
}

// idleTimeout is how long an upload can pause.
const idleTimeout = time.Minute

// A bodyReader reads a request body for as long as bytes keep coming.
type bodyReader struct {
	body       io.Reader
	connection *http.ResponseController
	deadline   time.Time
}

func (p *bodyReader) Read(b []byte) (int, error) {
	// Setting the deadline costs more than a read, so it is moved only when half of it has passed.
	if now := time.Now(); p.deadline.Sub(now) < idleTimeout/2 {
		p.deadline = now.Add(idleTimeout)
		p.connection.SetReadDeadline(p.deadline)
	}
	n, err := p.body.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = core.Errorf(core.TooSlow, "Nothing more arrived within %s", idleTimeout)
	}
	return n, err
}

// newBodyReader returns a reader of the body of a request.
func newBodyReader(w http.ResponseWriter, r *route.Request) *bodyReader {
	return &bodyReader{body: r.Body, connection: http.NewResponseController(w)}
}

// postForm stores a file of an announced batch.
func (s *Service) postForm(w http.ResponseWriter, r *route.Request) error {
	body := newBodyReader(w, r)
	defer body.connection.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(body)
	form, err := r.MultipartReader()
	if err != nil {
		return core.Errorf(core.BadRequest, "Send files of artifacts as multipart/form-data")
	}
	fields, file, err := readForm(form)
	if err != nil {
		return err
	}
	if err := s.urls.verify(fields, formSegment, fields.Get("job"), fields.Get("batch")); err != nil {
		return err
	}
	a, err := s.artifacts.OfBatch(r.Context(), fields.Get("job"), fields.Get("batch"), fields.Get("path"))
	if err != nil {
		return err
	}
	if err := s.checkExpected(r.Context(), a); err != nil {
		return err
	}
	if a.Parts > 1 {
		return core.Errorf(core.Unprocessable, "%s was announced to come in %d parts", a.Path, a.Parts)
	}
	if _, err := s.storePart(r.Context(), a, 1, file); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// The limits of the form fields before the file.
const (
	maxFields = 20
	maxField  = 8 << 10 // bytes
)

// readForm returns the fields of a form and its file, which comes last.
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

// putPart stores one part of an announced file.
func (s *Service) putPart(w http.ResponseWriter, r *route.Request) error {
	id, number := r.PathValue("artifact"), r.PathValue("part")
	if err := s.urls.verify(r.URL.Query(), artifactsSegment, id, partsSegment, number); err != nil {
		return err
	}
	part, err := strconv.Atoi(number)
	if err != nil {
		return errInvalidURL
	}
	a, err := s.artifacts.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if err := s.checkExpected(r.Context(), a); err != nil {
		return err
	}
	body := newBodyReader(w, r)
	defer body.connection.SetReadDeadline(time.Time{})
	sum, err := s.storePart(r.Context(), a, part, body)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+s.receipt(a, part, sum)+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}

// getFile returns the bytes of an artifact, or a range of them.
func (s *Service) getFile(w http.ResponseWriter, r *route.Request) error {
	id := r.PathValue("artifact")
	if err := s.urls.verify(r.URL.Query(), artifactsSegment, id); err != nil {
		return err
	}
	if content := s.urls.content; content != "" && strings.EqualFold(r.Host, s.public.Host()) {
		http.Redirect(w, r.Request, content.To(artifactsSegment, id)+"?"+r.URL.RawQuery, http.StatusFound)
		return nil
	}
	a, err := s.artifacts.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if a.State != artifacts.StateFinished || !a.Kept() {
		return core.Errorf(core.NotFound, "The artifact has no file that can be downloaded")
	}
	file, err := s.openArtifact(r.Context(), a)
	if err != nil {
		return err
	}
	defer file.Close()
	setFileHeaders(w.Header(), a, s.public)
	http.ServeContent(w, r.Request, "", a.CreatedAt, file)
	return nil
}

// setFileHeaders sets the headers of a file. Files come from jobs, and so from everyone who can propose a
// change, and can be on the origin of the pages. A file must not run scripts, send forms or load anything, and
// no page can use it as a script or a style sheet. Pages show files in frames.
func setFileHeaders(h http.Header, a artifacts.Artifact, pages core.PublicURL) {
	kind, disposition := safeMediaType(a.MimeType), "attachment"
	if isInline(kind) {
		disposition = "inline"
	}
	if strings.HasPrefix(kind, "text/") && !strings.Contains(kind, "charset") {
		kind += "; charset=utf-8"
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": path.Base(a.Path)}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; img-src data:; media-src data:; font-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self' "+originOf(pages))
	h.Set("Referrer-Policy", "no-referrer") // the URL is a secret
	h.Set("Cache-Control", "private, no-store")
	h.Set("ETag", `"`+a.ID+`"`)
}

// originOf returns the scheme and host of a URL.
func originOf(public core.PublicURL) string {
	u, err := url.Parse(string(public))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// safeMediaType returns the media type that a file is served with. With nosniff, browsers run only files with
// the media type of a script.
func safeMediaType(kind string) string {
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

// isInline reports whether browsers show a file instead of saving it.
func isInline(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return false
	}
	main, _, _ := strings.Cut(media, "/")
	return main == "text" || main == "image" || main == "audio" || main == "video" || media == "application/json"
}
