package server

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/route"
)

// ownRoutes are those about the server itself, which belong to no capability.
func (s *Server) ownRoutes(p Parts, metrics prometheus.Gatherer) []route.Route {
	own := func(path string, h http.HandlerFunc) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Auth: route.Open, Hidden: true, Handler: route.Raw(h)}
	}
	return []route.Route{
		own("/{$}", root(p.Clock)),
		own("/healthz", func(w http.ResponseWriter, r *http.Request) {
			say(w, http.StatusOK, "The process is alive")
		}),
		own("/readyz", s.ready(p.DB)),
		own("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP),
		own("/openapi.json", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(s.openAPI)
		}),
	}
}

//go:embed root.html
var rootPage []byte

// root greets: programs with JSON, people with a page.
func root(clock core.Clock) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			h := w.Header()
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
			w.Write(rootPage)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		json.NewEncoder(w).Encode(map[string]any{"message": "Stackyard", "timestamp": clock().Unix()})
	}
}

// readyTimeout is how long the database may take to show that it is there.
const readyTimeout = 2 * time.Second

// ready answers 200 only when the server can serve.
func (s *Server) ready(d *db.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		switch {
		case s.draining.Load():
			say(w, http.StatusServiceUnavailable, "The server is draining")
		case d.Ping(ctx) != nil:
			say(w, http.StatusServiceUnavailable, "The database is away")
		default:
			say(w, http.StatusOK, "Ready")
		}
	}
}

func say(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}
