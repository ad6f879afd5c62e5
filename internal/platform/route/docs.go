package route

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// docsFiles is the page that shows the OpenAPI document. It is hand-written and needs neither a network nor a
// build step.
//
//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the page load only from its own server, and run no inline scripts.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

var docsTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// DocsRoutes returns the routes of the API reference page: /docs and its files. It reads the document from
// /openapi.json.
func DocsRoutes() []Route {
	files, err := docsFiles.ReadDir("docs")
	if err != nil {
		panic(err) // embedded
	}
	var routes []Route
	for _, f := range files {
		at := "/docs/" + f.Name()
		if f.Name() == "index.html" {
			at = "/docs"
		}
		routes = append(routes, Route{Method: http.MethodGet, Path: at, Auth: Open, Hidden: true, Handler: Raw(serveDocs(f.Name()))})
	}
	return routes
}

func serveDocs(name string) http.HandlerFunc {
	content, err := docsFiles.ReadFile("docs/" + name)
	if err != nil {
		panic(err) // embedded
	}
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if asked, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasSuffix(asked, "/") {
			// The page uses relative links, so that it works below a path prefix; they need the trailing slash.
			h.Set("Location", "../"+path.Base(r.URL.Path))
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		h.Set("Content-Type", docsTypes[path.Ext(name)])
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", etag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}
}
