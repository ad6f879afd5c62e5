package servertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Client sends requests with one token.
type Client struct {
	s     *Server
	t     testing.TB
	auth  string
	extra http.Header
}

// As returns a client with a user's access token; with "" it sends none.
func (s *Server) As(t testing.TB, token string) *Client {
	c := &Client{s: s, t: t}
	if token != "" {
		c.auth = "Bearer " + token
	}
	return c
}

// AsAgent returns a client with an agent token.
func (s *Server) AsAgent(t testing.TB, token string) *Client {
	return &Client{s: s, t: t, auth: "Token " + token}
}

// With returns the client with one more header on each request.
func (c *Client) With(name, value string) *Client {
	with := *c
	with.extra = c.extra.Clone()
	if with.extra == nil {
		with.extra = make(http.Header)
	}
	with.extra.Set(name, value)
	return &with
}

// Get gets a path.
func (c *Client) Get(path string) *Response { c.t.Helper(); return c.Do("GET", path, nil) }

// Post posts a body to a path. A string is sent as is, nil sends nothing, anything else is sent as JSON.
func (c *Client) Post(path string, body any) *Response { c.t.Helper(); return c.Do("POST", path, body) }

// PostForm posts a form to a path.
func (c *Client) PostForm(path string, form url.Values) *Response {
	c.t.Helper()
	return c.With("Content-Type", "application/x-www-form-urlencoded").Do("POST", path, form.Encode())
}

// Put puts a body to a path.
func (c *Client) Put(path string, body any) *Response { c.t.Helper(); return c.Do("PUT", path, body) }

// Patch patches a path.
func (c *Client) Patch(path string, body any) *Response {
	c.t.Helper()
	return c.Do("PATCH", path, body)
}

// Delete deletes a path.
func (c *Client) Delete(path string) *Response { c.t.Helper(); return c.Do("DELETE", path, nil) }

// Do sends a request and validates the response against the OpenAPI document.
func (c *Client) Do(method, path string, body any) *Response {
	c.t.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	default:
		var err error
		if sent, err = json.Marshal(b); err != nil {
			c.t.Fatal(err)
		}
	}
	if !strings.HasPrefix(path, "http") {
		path = c.s.URL + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(sent))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.auth != "" {
		req.Header.Set("Authorization", c.auth)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.extra {
		req.Header[name] = values
	}
	resp, err := noRedirects.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		c.t.Errorf("%s %s: the response has no request id", method, path)
	}
	c.s.validator.check(c.t, req, resp, got)
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: got, t: c.t, what: method + " " + path}
}

var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Response is a response of the server.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	t      testing.TB
	what   string
}

// Want ends the test unless the response has a status.
func (r *Response) Want(status int) *Response {
	r.t.Helper()
	if r.Status != status {
		r.t.Fatalf("%s: status %d, want %d; body %s", r.what, r.Status, status, r.Body)
	}
	return r
}

// WantMessage fails the test unless the response has a status and a message.
func (r *Response) WantMessage(status int, message string) *Response {
	r.t.Helper()
	r.Want(status)
	if got := r.String("message"); got != message {
		r.t.Errorf("%s: message %q, want %q", r.what, got, message)
	}
	return r
}

// WantFieldError fails the test unless the response is a validation error of a field that contains text.
func (r *Response) WantFieldError(field, text string) *Response {
	r.t.Helper()
	r.Want(http.StatusUnprocessableEntity)
	var body struct {
		Message string
		Errors  []struct{ Field, Code string }
	}
	r.JSON(&body)
	if !strings.HasPrefix(body.Message, "Validation Failed") {
		r.t.Errorf("%s: message %q, want a validation failure", r.what, body.Message)
	}
	for _, e := range body.Errors {
		if e.Field == field && strings.Contains(e.Code, text) {
			return r
		}
	}
	r.t.Errorf("%s: no error of field %q with %q in %s", r.what, field, text, r.Body)
	return r
}

// JSON decodes the body.
func (r *Response) JSON(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.Body)
	}
}

// At returns the value at a path of keys and indexes, for example "provider.settings" or "0.id". It ends the
// test if there is none.
func (r *Response) At(path string) any {
	r.t.Helper()
	v, ok := r.lookUp(path)
	if !ok {
		r.t.Fatalf("%s: nothing at %q in %s", r.what, path, r.Body)
	}
	return v
}

// Has reports whether there is a value, possibly null, at a path.
func (r *Response) Has(path string) bool {
	r.t.Helper()
	_, ok := r.lookUp(path)
	return ok
}

// String returns the text at a path, formatted by fmt if it is not a string.
func (r *Response) String(path string) string {
	r.t.Helper()
	v := r.At(path)
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// Len returns the length of the array at a path; "" is the body itself.
func (r *Response) Len(path string) int {
	r.t.Helper()
	list, ok := r.At(path).([]any)
	if !ok {
		r.t.Fatalf("%s: no array at %q in %s", r.what, path, r.Body)
	}
	return len(list)
}

func (r *Response) lookUp(path string) (any, bool) {
	r.t.Helper()
	var v any
	r.JSON(&v)
	if path == "" {
		return v, true
	}
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
