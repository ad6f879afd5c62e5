package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// want expects a finding whose message contains a text.
func want(t *testing.T, findings []Finding, level Level, check, text string) {
	t.Helper()
	for _, f := range findings {
		if f.Check == check && f.Level == level && strings.Contains(f.Message, text) {
			if level != OK && f.Advice == "" {
				t.Errorf("%s says not what to do: %s", check, f.Message)
			}
			return
		}
	}
	t.Errorf("no %s of %s with %q in %+v", level, check, text, findings)
}

func TestRun_FindsStuckTasksOnBothEngines(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			d := dbtest.Open(t, url)
			now := time.Now()
			key := seal.NewKey()
			err := d.Write(t.Context(), func(q *db.Q) error {
				return tasks.Add(q, tasks.Task{Kind: "lost-work", Key: "1", RunAt: now.Add(-time.Hour)}, tasks.Task{Kind: "later", Key: "1", RunAt: now.Add(time.Hour)})
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Results(t.Context()); err != nil {
				t.Fatal(err)
			}
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/readyz":
					w.Write([]byte(`{"message": "Ready"}`))
				case "/openapi.json":
					w.Write([]byte(`{"info": {"version": "older"}}`))
				default:
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			t.Cleanup(site.Close)
			data := t.TempDir()
			if err := os.MkdirAll(filepath.Join(data, "blobs"), 0o700); err != nil {
				t.Fatal(err)
			}
			s := server.Settings{Data: data, Database: url, Blobs: filepath.Join(data, "blobs"), Key: &key, Public: core.PublicURL(site.URL)}
			findings := Run(t.Context(), Config{Settings: s, Version: "new", Now: now})
			want(t, findings, Warning, "tasks", `1 tasks "lost-work" are due, the oldest since 1h0m0s`)
			want(t, findings, OK, "database", "with schema")
			want(t, findings, Warning, "server", "the server has version older, this program new")
			want(t, findings, OK, "server", "answers, for people and agents")
		})
	}
}

func TestRun_ChecksTheCertificate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		ends    time.Time
		level   Level
		message string
	}{
		"expired": {now.Add(-time.Hour), Problem, "expired on 2026-03-01"},
		"soon":    {now.Add(48 * time.Hour), Warning, "expires on 2026-03-03"},
		"good":    {now.AddDate(0, 3, 0), OK, "is valid until 2026-06-01"},
	} {
		cert, key := certificate(t, "ci.example.test", now.AddDate(-1, 0, 0), test.ends)
		r := &report{Config: Config{Now: now, Settings: server.Settings{TLSCert: cert, TLSKey: key, Public: "https://ci.other.test"}}}
		r.certificate()
		t.Run(name, func(t *testing.T) {
			want(t, r.findings, test.level, "certificate", test.message)
			want(t, r.findings, Problem, "certificate", "is not for ci.other.test")
		})
	}
}

func certificate(t *testing.T, host string, from, to time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
