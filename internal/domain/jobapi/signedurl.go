package jobapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// links makes addresses that are good for a while for whoever has them: agents send and fetch the bytes
// of artifacts without a token, and so do browsers.
type links struct {
	key    []byte
	public core.PublicURL
	// content is where files are fetched; empty: at public.
	content core.PublicURL
	clock   core.Clock
}

func newLinks(key seal.Key, public, content core.PublicURL, clock core.Clock) links {
	return links{key: key.Derive("artifact link"), public: public, content: content, clock: clock}
}

// endpointHeader is how an agent says by which address, with /v3 at its end, it reaches this server: it may
// be one that cannot reach the public one.
const endpointHeader = "Stackyard-Endpoint"

// toward returns links as whoever makes a request can use them: they begin with the address that the
// request says it goes to, and with the public one if it says none. They are told to nobody else.
func (l links) toward(r *route.Request) links {
	base, ok := strings.CutSuffix(r.Header.Get(endpointHeader), "/v3")
	if u, err := url.Parse(base); ok && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		l.public, l.content = core.PublicURL(base), ""
	}
	return l
}

// The names of what makes an address good.
const (
	expiresParam   = "expires"
	signatureParam = "signature"
)

// to returns the address of a path, given by its segments, that is good for some time.
func (l links) to(lifetime time.Duration, segments ...string) string {
	return l.public.To(segments...) + "?" + l.sign(lifetime, segments...).Encode()
}

// sign returns what makes a request about something good for some time.
func (l links) sign(lifetime time.Duration, about ...string) url.Values {
	expires := strconv.FormatInt(l.clock().Add(lifetime).Unix(), 10)
	return url.Values{expiresParam: {expires}, signatureParam: {l.signature(expires, about)}}
}

func (l links) signature(expires string, about []string) string {
	mac := hmac.New(sha256.New, l.key)
	// No segment has a line break in it, so no two lists of them read the same.
	mac.Write([]byte(expires + "\n" + strings.Join(about, "\n")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

var (
	errBadLink = core.Errorf(core.Forbidden, "This address was not given by this server, or has been changed")
	errOldLink = core.Errorf(core.Forbidden, "This address is not good any more; ask for a new one")
)

// check refuses a request about something unless what came with it was signed for that, and recently.
func (l links) check(given url.Values, about ...string) error {
	expires := given.Get(expiresParam)
	if !hmac.Equal([]byte(given.Get(signatureParam)), []byte(l.signature(expires, about))) {
		return errBadLink
	}
	seconds, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || l.clock().After(time.Unix(seconds, 0)) {
		return errOldLink
	}
	return nil
}

// checkPath refuses a request unless its own address is good.
func (l links) checkPath(r *route.Request, segments ...string) error {
	return l.check(r.URL.Query(), segments...)
}
