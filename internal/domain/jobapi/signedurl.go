package jobapi

import (
	"crypto/hmac"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// A urlSigner makes and verifies URLs that expire and need no token. Agents and browsers send and fetch the
// bytes of artifacts at such URLs.
type urlSigner struct {
	signer seal.Signer
	public core.PublicURL
	// content is where artifacts are downloaded; empty: public.
	content core.PublicURL
	clock   core.Clock
}

func newURLSigner(key seal.Key, public, content core.PublicURL, clock core.Clock) urlSigner {
	return urlSigner{signer: key.Signer("artifact link"), public: public, content: content, clock: clock}
}

// endpointHeader is the URL, ending in /v3, at which an agent reaches this server. The agent may be unable to
// reach the public URL.
const endpointHeader = "Stackyard-Endpoint"

// forCaller returns a signer whose URLs start with the endpoint that the request names, if it names one. Such
// URLs are only for the response to that request.
func (u urlSigner) forCaller(r *route.Request) urlSigner {
	base, ok := strings.CutSuffix(r.Header.Get(endpointHeader), "/v3")
	if to, err := url.Parse(base); ok && err == nil && (to.Scheme == "http" || to.Scheme == "https") && to.Host != "" {
		u.public, u.content = core.PublicURL(base), ""
	}
	return u
}

// The query parameters of a signed URL.
const (
	expiresParam   = "expires"
	signatureParam = "signature"
)

// url returns the signed URL of a path.
func (u urlSigner) url(lifetime time.Duration, segments ...string) string {
	return u.public.To(segments...) + "?" + u.sign(lifetime, segments...).Encode()
}

// sign returns the parameters that authorize a request about a subject.
func (u urlSigner) sign(lifetime time.Duration, subject ...string) url.Values {
	expires := strconv.FormatInt(u.clock().Add(lifetime).Unix(), 10)
	return url.Values{expiresParam: {expires}, signatureParam: {u.signature(expires, subject)}}
}

// signature signs a subject. No part of a subject contains a line break, so two subjects never have the same
// signature.
func (u urlSigner) signature(expires string, subject []string) string {
	message := expires + "\n" + strings.Join(subject, "\n")
	return base64.RawURLEncoding.EncodeToString(u.signer.Sign([]byte(message)))
}

var (
	errInvalidURL = core.Errorf(core.Forbidden, "This URL was not issued by this server, or was changed")
	errExpiredURL = core.Errorf(core.Forbidden, "This URL has expired; request a new one")
)

// verify refuses a request about a subject unless its parameters were signed for the subject and have not
// expired.
func (u urlSigner) verify(params url.Values, subject ...string) error {
	expires := params.Get(expiresParam)
	if !hmac.Equal([]byte(params.Get(signatureParam)), []byte(u.signature(expires, subject))) {
		return errInvalidURL
	}
	seconds, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || u.clock().After(time.Unix(seconds, 0)) {
		return errExpiredURL
	}
	return nil
}
