package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/autotls"
	"stackyard/internal/platform/core"
)

// secureParts are what a server needs to speak https itself.
type secureParts struct {
	config       *tls.Config      // nil: certificates are files, or there is no https
	certificates *autotls.Manager // nil: none are obtained automatically
	stop         func()
}

// startTLS starts to obtain certificates and to redirect http to https, as far as the settings ask for it.
func startTLS(ctx context.Context, s Settings, st Storage, public core.PublicURL, version string, log *slog.Logger) (parts secureParts, err error) {
	ctx, cancel := context.WithCancel(ctx)
	parts.stop = cancel
	plain := autotls.Redirect(string(public))
	if s.AutoTLS.Hosts != nil {
		store := autotls.Store{DB: st.DB, Key: st.Key, Clock: core.SystemClock}
		parts.certificates = autotls.New(s.AutoTLS, store, version, log)
		parts.config = parts.certificates.TLSConfig()
		if s.RedirectListen != "" {
			plain = parts.certificates.Plain(string(public))
		}
	}
	if s.RedirectListen != "" {
		listener, err := net.Listen("tcp", s.RedirectListen)
		if err != nil {
			cancel()
			return parts, explainListen("redirect-listen", s.RedirectListen, err)
		}
		hs := &http.Server{
			Handler: plain, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}
		go hs.Serve(listener)
		parts.stop = func() {
			cancel()
			hs.Close()
		}
		log.Info("redirecting to https", "url", listenURL(listener.Addr(), false))
	}
	if parts.certificates != nil {
		go parts.certificates.Watch(ctx)
	}
	return parts, nil
}

// certificateMetrics show when automatic certificates end.
type certificateMetrics struct{ manager *autotls.Manager }

var certificateExpires = prometheus.NewDesc("stackyard_certificate_expires_timestamp_seconds",
	"When the certificate in use ends, as Unix time. Automatic certificates only.", []string{"host"}, nil)

func (certificateMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- certificateExpires }

func (c certificateMetrics) Collect(ch chan<- prometheus.Metric) {
	for host, at := range c.manager.Expires() {
		ch <- prometheus.MustNewConstMetric(certificateExpires, prometheus.GaugeValue, float64(at.Unix()), host)
	}
}

// watchCertificates adds the metrics of automatic certificates; nil: there are none.
func (s *Server) watchCertificates(m *autotls.Manager) {
	if m != nil {
		s.registry.MustRegister(certificateMetrics{m})
	}
}
