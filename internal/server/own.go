package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"stackyard/internal/db"
	"stackyard/internal/route"
)

// ownRoutes are those about the server itself, which belong to no capability.
func (s *Server) ownRoutes(p Parts, metrics prometheus.Gatherer) []route.Route {
	own := func(path string, h http.HandlerFunc) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Auth: route.Open, Hidden: true, Handler: route.Raw(h)}
	}
	return []route.Route{
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
