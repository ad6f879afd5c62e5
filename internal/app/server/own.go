package server

import (
	"encoding/json"
	"net/http"

	"stackyard/internal/platform/route"
)

// ownRoutes are the routes about the server itself.
func (s *Server) ownRoutes(metrics http.Handler) []route.Route {
	own := func(path string, h http.HandlerFunc) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Auth: route.Open, Hidden: true, Handler: route.Raw(h)}
	}
	return []route.Route{
		own("/healthz", func(w http.ResponseWriter, r *http.Request) {
			respond(w, http.StatusOK, "The process is alive")
		}),
		own("/readyz", s.ready),
		own("/metrics", metrics.ServeHTTP),
		own("/openapi.json", s.serveOpenAPI),
	}
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	document, err := s.openAPI()
	if err != nil {
		panic(err) // a type in the route table cannot be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(document)
}

func respond(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}
