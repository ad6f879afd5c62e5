// Package api is a client of the REST API of a Stackyard server. The stackyard command line uses it.
//
//	c := &api.Client{URL: "https://ci.example.com", Token: token}
//	builds, err := api.All[api.Build](ctx, c, "/v2/organizations/acme/builds?state=running", 100)
//	build, err := api.One[api.Build](ctx, c, "POST", "/v2/organizations/acme/pipelines/web/builds", map[string]any{"commit": "HEAD", "branch": "main"})
//
// Paths and bodies are those of the OpenAPI document, /openapi.json on every server. Types such as [Build] have the fields that
// most programs need, and a test checks them against that document; [List] and [Item] also have the JSON as received. Lists
// follow pages, requests that a busy server refuses are repeated, and [Client.Follow] reads streams of events.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer limits the size of a decoded response.
const maxAnswer = 64 << 20

// A Client calls the REST API of one server as one user.
type Client struct {
	// URL is the server's public URL without trailing slash.
	URL string
	// Token is the user's access token.
	Token string
	// UserAgent names the program.
	UserAgent string
	// Waiting, unless nil, is called before the client waits for a server that is busy.
	Waiting func(why string, wait time.Duration)
}

// An Error is a response that is not a success.
type Error struct {
	Status  int
	Message string `json:"message"`
	Errors  []struct {
		Field string `json:"field"`
		Code  string `json:"code"`
	} `json:"errors"`
}

func (e *Error) Error() string {
	var b strings.Builder
	message, reasons, _ := strings.Cut(e.Message, ": ")
	if len(e.Errors) == 0 || !strings.HasPrefix(reasons, e.Errors[0].Field+" ") {
		message = e.Message
	}
	b.WriteString(message) // without the fields, which follow
	for _, f := range e.Errors {
		fmt.Fprintf(&b, "\n  %s %s", f.Field, f.Code)
	}
	return b.String()
}

// ParseURL returns the URL of a server. The scheme is optional: the default is https, or http for this machine.
func ParseURL(text string) (string, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "https://" + full
		if u, err := url.Parse(full); err == nil && isLoopback(u.Hostname()) {
			u.Scheme = "http"
			full = u.String()
		}
	}
	full = strings.TrimRight(full, "/")
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not the URL of a server, such as https://ci.example.com", text)
	}
	return full, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Do makes a call. body, unless nil, is sent as JSON, and the response is decoded into result, unless nil. path
// is relative to the server's URL, for example /v2/user, or a URL from an API response.
func (c *Client) Do(ctx context.Context, method, path string, body, result any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if result == nil {
		return nil
	}
	return decode(res, result)
}

func decode(res *http.Response, result any) error {
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(result); err != nil {
		return fmt.Errorf("decode response of %s: %w", res.Request.URL.Redacted(), err)
	}
	return nil
}

// Stream returns the body of a response with the media type accept. The caller closes it.
func (c *Client) Stream(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	res, err := c.send(ctx, http.MethodGet, path, nil, "Accept", accept)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// send makes a request and returns a successful response.
func (c *Client) send(ctx context.Context, method, path string, body any, headers ...string) (*http.Response, error) {
	target := path
	if strings.HasPrefix(path, "/") {
		target = c.URL + path
	} else if !strings.HasPrefix(path, c.URL+"/") {
		return nil, fmt.Errorf("%s is not on %s: the token is not sent there", path, c.URL)
	}
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("User-Agent", c.UserAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.try(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	refusal := &Error{Status: res.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(text, refusal) != nil || refusal.Message == "" {
		refusal.Message = fmt.Sprintf("%s returned %s", c.URL, res.Status)
	}
	if res.StatusCode == http.StatusUnauthorized {
		refusal.Message = fmt.Sprintf("%s does not accept the access token (any more): run stackyard login %s", c.URL, c.URL)
	}
	return nil, refusal
}

// A List holds the items of a collection, decoded and as received.
type List[T any] struct {
	Items []T
	Raw   []json.RawMessage
}

// All returns the items of a collection from all pages, but at most most.
func All[T any](ctx context.Context, c *Client, path string, most int) (List[T], error) {
	var list List[T]
	for next := path; next != "" && len(list.Items) < most; {
		res, err := c.send(ctx, http.MethodGet, next, nil)
		if err != nil {
			return list, err
		}
		page, following, err := decodePage(res)
		res.Body.Close()
		if err != nil {
			return list, err
		}
		for _, raw := range page[:min(len(page), most-len(list.Items))] {
			var item T
			if err := json.Unmarshal(raw, &item); err != nil {
				return list, fmt.Errorf("decode response of %s: %w", path, err)
			}
			list.Items = append(list.Items, item)
			list.Raw = append(list.Raw, raw)
		}
		next = following
	}
	return list, nil
}

// decodePage returns the items of a page and the URL of the next page, or "". Lists with cursors are objects with items
// and links; others are arrays with a Link header.
func decodePage(res *http.Response) (items []json.RawMessage, next string, err error) {
	var raw json.RawMessage
	if err := decode(res, &raw); err != nil {
		return nil, "", err
	}
	if bytes.HasPrefix(raw, []byte("{")) {
		var page struct {
			Items []json.RawMessage
			Links struct{ Next string }
		}
		err := json.Unmarshal(raw, &page)
		return page.Items, page.Links.Next, err
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, "", fmt.Errorf("decode response of %s: %w", res.Request.URL.Redacted(), err)
	}
	return items, nextPage(res.Header.Get("Link")), nil
}

// nextPage returns the target of a Link header's rel="next", or "".
func nextPage(header string) string {
	for link := range strings.SplitSeq(header, ",") {
		target, rel, ok := strings.Cut(link, ";")
		if ok && strings.Contains(rel, `rel="next"`) {
			return strings.Trim(strings.TrimSpace(target), "<>")
		}
	}
	return ""
}

// An Item is one object, decoded and as received.
type Item[T any] struct {
	Value T
	Raw   json.RawMessage
}

// One makes a call and returns the object of the response.
func One[T any](ctx context.Context, c *Client, method, path string, body any) (Item[T], error) {
	var item Item[T]
	if err := c.Do(ctx, method, path, body, &item.Raw); err != nil {
		return item, err
	}
	if err := json.Unmarshal(item.Raw, &item.Value); err != nil {
		return item, fmt.Errorf("decode response of %s: %w", path, err)
	}
	return item, nil
}
