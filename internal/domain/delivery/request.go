package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/trace"
)

const (
	// requestTimeout bounds one attempt.
	requestTimeout = 10 * time.Second
	// maxShownRequest and maxShownResponse bound the bodies that are recorded, in bytes.
	maxShownRequest, maxShownResponse = 64 << 10, 4 << 10
	// maxResponse bounds how much of a response is read, so that its connection can be used again.
	maxResponse = 64 << 10
	// maxShownHeaders bounds the headers of a response that are recorded.
	maxShownHeaders = 50
)

// A Request is an HTTP request to a receiver.
type Request struct {
	Method string // empty: POST
	URL    string
	Header http.Header
	Body   []byte
	// SecretURL says that the URL is a secret, of which the record shows only the host.
	SecretURL bool
	// SecretHeaders are the names of headers whose values the record does not show.
	SecretHeaders []string
	// SkipVerify accepts any certificate.
	SkipVerify bool
}

// A RequestRecord is what is kept of a request.
type RequestRecord struct {
	Method    string            `json:"method"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Truncated bool              `json:"truncated,omitempty"`
}

// A ResponseRecord is what is kept of a response.
type ResponseRecord struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Truncated bool              `json:"truncated,omitempty"`
}

// An Answer is what became of an attempt.
type Answer struct {
	Status int   // of the response; 0 if there is none
	Err    error // why there is no response
	// Permanent says that another attempt would end the same way, whatever Status and Err are.
	Permanent bool
	// RetryAfter is how long the receiver wants to be left alone; 0: it did not say.
	RetryAfter time.Duration
	// Broken is why the receiver gets nothing more until a person repairs it, such as an access token that was revoked;
	// empty: it does.
	Broken   string
	Request  *RequestRecord
	Response *ResponseRecord

	body []byte // of the response, up to maxResponse
}

// refused returns the answer of an attempt that was not made, or whose receiver said why another would be in vain.
func (a Answer) refused(err error) Answer {
	a.Err, a.Permanent = err, true
	return a
}

// newClients returns the clients that verify certificates and those that do not. Neither connects to private
// addresses that are not allowed, nor follows redirects.
func newClients(allow []netip.Prefix) map[bool]*http.Client {
	clients := map[bool]*http.Client{}
	for _, verify := range []bool{true, false} {
		client := outbound.New(allow)
		transport := client.Transport.(*http.Transport)
		transport.MaxIdleConnsPerHost = maxInFlight
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: !verify}
		clients[verify] = client
	}
	return clients
}

// do sends a request.
func (s *Service) do(ctx context.Context, r *Request) Answer {
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("User-Agent", "Stackyard/"+s.Version)
	answer := Answer{Request: r.record()}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		answer.Err, answer.Permanent = errors.New("the URL cannot be used"), true
		return answer
	}
	sent.Header = r.Header
	_, span := trace.Child(ctx, trace.Client, "deliver notification")
	defer span.End()
	resp, err := s.clients[!r.SkipVerify].Do(sent)
	if err != nil {
		span.Fail()
		_, answer.Permanent = errors.AsType[*outbound.RefusedError](err)
		answer.Err = reason(ctx, err)
		return answer
	}
	defer resp.Body.Close()
	span.Number("http.response.status_code", int64(resp.StatusCode))
	answer.Status, answer.RetryAfter = resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), s.Clock())
	answer.Response, answer.body = recordResponse(resp)
	return answer
}

// reason returns why a request got no response, without the URL, which can be a secret.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no response within %d seconds", int(requestTimeout.Seconds()))
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return err
}

// maxRetryAfter bounds how long a receiver can ask to be left alone.
const maxRetryAfter = time.Hour

// retryAfter returns the time of a Retry-After header, which is in seconds or a date; 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return min(max(time.Duration(min(seconds, 1<<20))*time.Second, 0), maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// hidden replaces secrets in records.
const hidden = "********"

func (r *Request) record() *RequestRecord {
	shown := &RequestRecord{Method: r.Method, URL: r.URL, Headers: map[string]string{}}
	if r.SecretURL {
		shown.URL = hidden
		if u, err := url.Parse(r.URL); err == nil {
			shown.URL = u.Scheme + "://" + u.Host + "/" + hidden
		}
	}
	for name, values := range r.Header {
		shown.Headers[name] = strings.Join(values, ", ")
	}
	for _, name := range r.SecretHeaders {
		if name = http.CanonicalHeaderKey(name); shown.Headers[name] != "" {
			shown.Headers[name] = hidden
		}
	}
	shown.Body, shown.Truncated = legible(r.Body, maxShownRequest)
	return shown
}

// remark returns the record of why nothing had to be sent.
func remark(status int, why string) *ResponseRecord {
	return &ResponseRecord{Status: status, Headers: map[string]string{}, Body: why}
}

// recordResponse reads the beginning of a response and returns it with what is kept of it.
func recordResponse(resp *http.Response) (shown *ResponseRecord, body []byte) {
	shown = &ResponseRecord{Status: resp.StatusCode, Headers: map[string]string{}}
	for name, values := range resp.Header {
		if len(shown.Headers) < maxShownHeaders && name != "Set-Cookie" {
			shown.Headers[name], _ = legible([]byte(strings.Join(values, ", ")), maxShownResponse)
		}
	}
	// A response that ends too early is a response nevertheless: the receiver has got the event.
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	shown.Body, shown.Truncated = legible(body, maxShownResponse)
	return shown, body
}

// legible returns bytes as text that both engines can keep, cut to a length.
func legible(b []byte, most int) (text string, truncated bool) {
	truncated = len(b) > most
	text = strings.ToValidUTF8(string(b[:min(len(b), most)]), "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\uFFFD"), truncated
}

// maxError is how much of an error is kept, in characters.
const maxError = 1000

func errorText(err error) string {
	text, _ := legible([]byte(err.Error()), 4*maxError)
	return core.Cut(text, maxError)
}
