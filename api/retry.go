package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"stackyard/internal/clients/sleep"
)

const (
	// maxTries limits the attempts of a request.
	maxTries = 5
	// maxWait limits the time between two attempts, whatever the server asks for.
	maxWait = time.Minute
)

// try makes a request, and makes it again if the server is busy: 429, or 503 for a request that can be repeated.
func (c *Client) try(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, unreachable(req.Context(), c.URL, err)
		}
		if n == maxTries || !isBusy(req.Method, res.StatusCode) {
			return res, nil
		}
		wait := retryAfter(res.Header, n, time.Now())
		io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
		res.Body.Close()
		if c.Waiting != nil {
			c.Waiting(fmt.Sprintf("%s returned %s", c.URL, res.Status), wait)
		}
		if !sleep.For(req.Context(), wait) {
			return nil, req.Context().Err()
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isBusy reports whether a request can be made again later. The server has not begun to process a request that it
// answers with 429; after a 503 this is not known.
func isBusy(method string, status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && method != http.MethodPost
}

// retryAfter returns how long to wait before the next attempt: what the server asks for, or else twice as long each time.
func retryAfter(header http.Header, tries int, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(seconds)*time.Second, maxWait)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	backoff := 250 * time.Millisecond << tries
	return backoff/2 + rand.N(backoff)
}

// unreachable describes why a server cannot be reached.
func unreachable(ctx context.Context, server string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why := err
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		why = wrapped.Err
	}
	hint := "check the URL (--server or STACKYARD_SERVER) and your network"
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case isDNS && dns.IsNotFound:
		why = fmt.Errorf("the host %s does not exist", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		why, hint = errors.New("connection refused"), "is the server running?"
	case isCertificate:
		hint = "its certificate is not trusted on this machine"
	}
	return fmt.Errorf("cannot reach %s: %w; %s", server, why, hint)
}
