package pages

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"strings"
	"time"
)

// moduleFiles are the JavaScript modules of others. Their paths contain their versions.
//
//go:embed modules
var moduleFiles embed.FS

func (s *Site) serveModule(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("modules/" + r.PathValue("path"))
	content, err := moduleFiles.ReadFile(name)
	if err != nil {
		s.ErrorPage(w, http.StatusNotFound, "File not found.")
		return
	}
	kind := assetTypes[strings.Replace(path.Ext(name), ".mjs", ".js", 1)]
	if kind == "" {
		kind = "text/plain; charset=utf-8"
	}
	serveForever(w, r, name, kind, content)
}

// serveForever serves a file whose path changes with its content.
func serveForever(w http.ResponseWriter, r *http.Request, name, contentType string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
