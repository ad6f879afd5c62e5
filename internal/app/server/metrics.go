package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandlers returns the handler of /metrics on the port of everything, and the one of a listener of its own. Names
// of organizations and queues are shown with a token or on the own listener only.
func metricsHandlers(p Parts, common *prometheus.Registry, f *fleet) (public, private http.Handler) {
	with := func(named bool) http.Handler {
		more := prometheus.NewRegistry()
		more.MustRegister(fleetMetrics{f, named})
		return promhttp.HandlerFor(prometheus.Gatherers{common, more}, promhttp.HandlerOpts{})
	}
	named := with(true)
	switch {
	case p.MetricsToken != "":
		public = requireToken(p.MetricsToken, named)
	case p.MetricsPrivate:
		public = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusNotFound, "Metrics are served on the address of --metrics-listen")
		})
	default:
		public = with(false)
	}
	return public, named
}

// requireToken passes requests with a bearer token.
func requireToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			respond(w, http.StatusUnauthorized, "Send the token of --metrics-token as a bearer token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// privateHandler serves metrics and profiles.
func (s *Server) privateHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.privateMetrics)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusNotFound, "The command line is not shown: it can contain secrets")
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// servePrivate serves metrics and profiles on an address of their own until stop is called.
func (s *Server) servePrivate(address string) (listening net.Addr, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, explainListen("metrics-listen", address, err)
	}
	hs := &http.Server{Handler: s.privateHandler(), ReadHeaderTimeout: 10 * time.Second}
	go hs.Serve(listener)
	return listener.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if hs.Shutdown(ctx) != nil {
			hs.Close()
		}
	}, nil
}

// explainListen says what to do about an address that cannot be used.
func explainListen(flag, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program; choose another address with --%s, for example --%s 127.0.0.1:0 for a free port", address, flag, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; choose a port above 1023 with --%s", err, flag)
	}
	return err
}
