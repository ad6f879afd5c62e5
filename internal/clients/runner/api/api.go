// Package api is a client of the agent API. It imports nothing of the server. Each resource has a file with its
// types and calls.
//
// Each call has its own retry policy (retry.go): a log chunk is retried for ten minutes, a ping never, because
// the next one follows anyway. A call returns when it succeeded, failed permanently, or its context is done.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Client calls a server with one token.
type Client struct {
	endpoint  string
	token     string
	userAgent string
	http      *http.Client
}

// New returns a client of the agent API at an endpoint like https://ci.example.com/v3.
func New(endpoint, token, version string) *Client {
	return &Client{
		endpoint:  strings.TrimRight(endpoint, "/"),
		token:     token,
		userAgent: fmt.Sprintf("stackyard-agent/%s (%s; %s)", version, runtime.GOOS, runtime.GOARCH),
		http:      &http.Client{Transport: transport()},
	}
}

// transport keeps enough connections for one agent with a busy job.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 8
	return t
}

// As returns a client of the same server with another token.
func (c *Client) As(token string) *Client {
	other := *c
	other.token = token
	return &other
}

// Endpoint returns the URL below which calls go.
func (c *Client) Endpoint() string { return c.endpoint }

// Token returns the client's token.
func (c *Client) Token() string { return c.token }

// timeout limits each attempt of a call.
const timeout = 60 * time.Second

// maxAnswer limits the size of a response. Artifact searches have the largest ones.
const maxAnswer = 64 << 20

// A call describes a request and its response.
type call struct {
	method string
	path   string // below the endpoint, with escaped segments
	query  url.Values
	header http.Header
	body   any // sent as JSON unless it is a payload; nil for none
	answer any // decoded from the response; nil ignores it
	// deadline sends the server the time that the client waits for the response.
	deadline bool
	retry    retry
	// received is called with each response, including failures.
	received func(*http.Response)
}

// A payload is a request body other than JSON.
type payload struct {
	contentType     string
	contentEncoding string
	bytes           []byte
}

// do makes a call with its retry policy.
func (c *Client) do(ctx context.Context, k call) error {
	body, err := k.encode()
	if err != nil {
		return err
	}
	return k.retry.run(ctx, func(try int) error { return c.try(ctx, k, body, try) })
}

func (k call) encode() (payload, error) {
	switch body := k.body.(type) {
	case nil:
		return payload{}, nil
	case payload:
		return body, nil
	default:
		text, err := json.Marshal(body)
		if err != nil {
			return payload{}, fmt.Errorf("encode the request %s %s: %w", k.method, k.path, err)
		}
		return payload{contentType: "application/json", bytes: append(text, '\n')}, nil
	}
}

// try makes a single attempt of a call.
func (c *Client) try(ctx context.Context, k call, body payload, try int) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := c.request(ctx, k, body)
	if err != nil {
		return err
	}
	if k.deadline {
		req.Header.Set("Buildkite-Timeout-Milliseconds", strconv.FormatInt(timeout.Milliseconds(), 10))
	}
	if try > 0 && req.Header.Get(backoffSequence) != "" {
		req.Header.Set(backoffSequence, strconv.Itoa(try))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &Error{Call: k.name(), Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	if k.received != nil {
		k.received(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return &Error{Call: k.name(), Err: err}
	case resp.StatusCode/100 != 2:
		return refusal(k.name(), resp, answer)
	case k.answer == nil:
		return nil
	}
	if err := json.Unmarshal(answer, k.answer); err != nil {
		return &Error{Call: k.name(), Status: resp.StatusCode, Err: fmt.Errorf("invalid response: %w", err)}
	}
	return nil
}

func (c *Client) request(ctx context.Context, k call, body payload) (*http.Request, error) {
	address := c.endpoint + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, bytes.NewReader(body.bytes))
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Authorization", "Token "+c.token)
	if body.contentType != "" {
		req.Header.Set("Content-Type", body.contentType)
	}
	if body.contentEncoding != "" {
		req.Header.Set("Content-Encoding", body.contentEncoding)
	}
	return req, nil
}

func (k call) name() string { return k.method + " " + k.path }

// withoutURL unwraps an error of net/http, whose text repeats the whole URL.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// path joins escaped segments. It also escapes dots, so that a segment ".." is not interpreted.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(url.PathEscape(s), ".", "%2E"))
	}
	return b.String()
}
