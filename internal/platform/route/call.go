package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/platform/core"
)

// Next reports which pages of a list there are besides the one that a Call returned.
type Next struct{ Before, After bool }

// Call serves a request to a route of the REST API on behalf of the caller of this request, and decodes the
// result into a value, unless that is nil. Pages use it, so that what people do there passes the same checks
// and the same code as what programs do: the organization, rate limits, permissions, the resource, the body.
// The caller was authenticated already; scopes are those of the caller's token, and a session has all of them.
//
// The target is a path with a query, without the public URL. The body is encoded as JSON; nil is none.
func (r *Request) Call(method, target string, body, into any) (Next, error) {
	inner, err := r.inner(method, target, body)
	if err != nil {
		return Next{}, err
	}
	if err := r.server.check(inner); err != nil {
		return Next{}, err
	}
	result, err := inner.route.Handler.serve(inner)
	if err != nil {
		return Next{}, err
	}
	if sh, ok := result.(shaped); ok {
		result = sh.shape(inner)
	}
	links := inner.w.Header().Get("Link")
	next := Next{Before: strings.Contains(links, `rel="prev"`), After: strings.Contains(links, `rel="next"`)}
	if into == nil {
		return next, nil
	}
	encoded, err := json.Marshal(result)
	if err == nil {
		err = json.Unmarshal(encoded, into)
	}
	if err != nil {
		err = fmt.Errorf("decode the result of %s %s: %w", method, target, err)
	}
	return next, err
}

// CallText is a Call to a route that streams a text, of which it returns up to a number of bytes, and whether that
// is all of it.
func (r *Request) CallText(target string, most int) (text string, all bool, err error) {
	inner, err := r.inner(http.MethodGet, target, nil)
	if err != nil {
		return "", false, err
	}
	if err := r.server.check(inner); err != nil {
		return "", false, err
	}
	result, err := inner.route.Handler.serve(inner)
	if err != nil {
		return "", false, err
	}
	if sh, ok := result.(shaped); ok {
		result = sh.shape(inner)
	}
	stream, ok := result.(Stream)
	if !ok {
		return "", false, fmt.Errorf("%s does not stream", target)
	}
	to := &boundedText{lookup: inner.w.(*lookup), most: most}
	err = stream.Write(to)
	if errors.Is(err, errEnough) {
		return to.text.String(), false, nil
	}
	return to.text.String(), true, err
}

var errEnough = errors.New("enough")

// boundedText is a response writer that keeps the beginning of a body.
type boundedText struct {
	*lookup
	text strings.Builder
	most int
}

func (b *boundedText) Write(p []byte) (int, error) {
	room := b.most - b.text.Len()
	if len(p) > room {
		b.text.Write(p[:room])
		return room, errEnough
	}
	return b.text.Write(p)
}

// inner returns the request of a Call, with its route.
func (r *Request) inner(method, target string, body any) (*Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, core.Errorf(core.NotFound, "Not Found: there is nothing at %s", target)
	}
	encoded := []byte{}
	if body != nil {
		if encoded, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	hr := (&http.Request{
		Method: method, URL: u, Host: r.Host, RemoteAddr: r.RemoteAddr, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "User-Agent": {r.UserAgent()}},
		Body:   io.NopCloser(bytes.NewReader(encoded)), ContentLength: int64(len(encoded)),
	}).WithContext(r.Context())
	found := &lookup{header: http.Header{}}
	if mux := r.server.muxes[firstSegment(u.Path)]; mux != nil {
		mux.ServeHTTP(found, hr)
	}
	if found.route == nil || found.route.Auth != Bearer || found.route.Handler.serve == nil {
		return nil, core.Errorf(core.NotFound, "Not Found: there is nothing at %s", u.Path)
	}
	return &Request{Request: found.request, Caller: r.Caller, Address: r.Address, route: found.route, server: r.server, w: found}, nil
}

// lookup is a response writer with which a mux finds the route of a request instead of serving it. Afterwards
// it collects the headers of the response.
type lookup struct {
	header  http.Header
	route   *Route
	request *http.Request // with the values of path segments
}

func (l *lookup) Header() http.Header         { return l.header }
func (l *lookup) Write(b []byte) (int, error) { return len(b), nil }
func (l *lookup) WriteHeader(int)             {}
