package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The bytes of artifacts are transferred with signed URLs. These requests have no token, and no timeout because
// files may be large.

// transfers retries every failure except a refusal.
var transfers = retry{tries: 10, wait: growing(time.Second, 5*time.Second)}

// SendFile uploads the bytes of an artifact as a form. It reopens them for each attempt.
func (c *Client) SendFile(ctx context.Context, how FormInstructions, a Artifact, open func() (io.ReadCloser, error)) error {
	return transfers.run(ctx, func(int) error { return c.sendFile(ctx, how, a, open) })
}

func (c *Client) sendFile(ctx context.Context, how FormInstructions, a Artifact, open func() (io.ReadCloser, error)) error {
	address, err := url.Parse(how.Action.URL)
	if err != nil {
		return err
	}
	address.Path, address.RawPath = how.Action.Path, ""
	before, after, contentType, err := form(how, a.Path)
	if err != nil {
		return err
	}
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close()
	body := io.MultiReader(bytes.NewReader(before), file, bytes.NewReader(after))
	req, err := http.NewRequestWithContext(ctx, how.Action.Method, address.String(), body)
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(before)) + a.Size + int64(len(after))
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return &Error{Call: "send " + a.Path, Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode/100 != 2 {
		return refusal("send "+a.Path, resp, answer)
	}
	return nil
}

// direct retries less than transfers, because the caller has another way.
var direct = retry{tries: 3, wait: growing(time.Second, 2*time.Second)}

// SendDirect uploads the bytes of an artifact to a bucket. It reopens them for each attempt.
func (c *Client) SendDirect(ctx context.Context, how DirectUpload, a Artifact, open func() (io.ReadCloser, error)) error {
	return direct.run(ctx, func(int) error {
		file, err := open()
		if err != nil {
			return err
		}
		defer file.Close()
		return c.sendBytes(ctx, a.Path, how, a.Size, file)
	})
}

func (c *Client) sendBytes(ctx context.Context, what string, how DirectUpload, size int64, from io.Reader) error {
	if size == 0 {
		from = http.NoBody // an unknown size would be sent in chunks, which buckets refuse
	}
	req, err := http.NewRequestWithContext(ctx, how.Method, how.URL, from)
	if err != nil {
		return err
	}
	for name, values := range how.Headers {
		req.Header[name] = values
	}
	req.ContentLength = size
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return &Error{Call: "send " + what, Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode/100 != 2 {
		return refusal("send "+what, resp, answer)
	}
	return nil
}

// form returns the parts of a form before and after the bytes of a file.
func form(how FormInstructions, path string) (before, after []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, value := range how.Data {
		if err := w.WriteField(name, strings.ReplaceAll(value, "${artifact:path}", path)); err != nil {
			return nil, nil, "", err
		}
	}
	if _, err := w.CreateFormFile(how.Action.FileInput, path); err != nil {
		return nil, nil, "", err
	}
	before = bytes.Clone(b.Bytes())
	b.Reset()
	if err := w.Close(); err != nil {
		return nil, nil, "", err
	}
	return before, b.Bytes(), w.FormDataContentType(), nil
}

// ReceiveFile downloads the bytes of an artifact and passes them to receive, once per attempt.
func (c *Client) ReceiveFile(ctx context.Context, a Artifact, receive func(io.Reader) error) error {
	return transfers.run(ctx, func(int) error { return c.receiveFile(ctx, a, receive) })
}

func (c *Client) receiveFile(ctx context.Context, a Artifact, receive func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return &Error{Call: "get " + a.Path, Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return refusal("get "+a.Path, resp, answer)
	}
	bytes := &failing{r: resp.Body}
	if err := receive(bytes); bytes.err == nil {
		return err
	}
	return &Error{Call: "get " + a.Path, Err: fmt.Errorf("the connection broke: %w", bytes.err)}
}

// A failing reader records its error.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
