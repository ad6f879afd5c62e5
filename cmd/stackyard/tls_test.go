package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/cmdline"
)

func TestServe_SpeaksHTTP2WithItsOwnCertificate(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	p := serveOrganizations(t, "--tls-cert", write(t, certificate), "--tls-key", write(t, key))
	if !strings.HasPrefix(p.URL, "https://127.0.0.1:") {
		t.Errorf("the ready line says %s", p.URL)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(p.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Errorf("%s over %s", resp.Status, resp.Proto)
	}
	p.stop(t)
}

func TestServe_RefusesAKeyThatIsNotTheCertificates(t *testing.T) {
	t.Parallel()
	certificate, _ := selfSigned(t)
	_, key := selfSigned(t)
	status, stdout, stderr := stackyard(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(),
		"--tls-cert", write(t, certificate), "--tls-key", write(t, key))
	if status != cmdline.ExitUsage || stdout != "" || !strings.Contains(stderr, "--tls-cert: ") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
}

// selfSigned returns a new certificate for 127.0.0.1 and its key, as PEM.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	return certificate, key
}
