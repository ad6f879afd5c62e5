package api

import (
	"context"
	"io"
	"net/http"
)

// A CacheAddress identifies an entry of a cache. The server has its bytes.
type CacheAddress struct {
	Paths       []string    `json:"target_paths"`
	Key         []CachePart `json:"cache_key"`
	RestoreKeys []string    `json:"restore_keys,omitempty"` // beginnings of keys that will do
	Store       string      `json:"store"`
}

// serverStore is the store of caches whose bytes the server has.
const serverStore = "server"

// A CachePart is a part of a key. Entries without the optional parts at its end will do.
type CachePart struct {
	Value     string `json:"value"`
	Mandatory bool   `json:"mandatory"`
}

// A CacheBlob is a piece of an entry.
type CacheBlob struct {
	Digest      CacheDigest `json:"digest"`
	Size        int64       `json:"file_size"`
	Compression string      `json:"compression"`
}

// A CacheDigest is a checksum in hex with its algorithm.
type CacheDigest struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
}

// A CacheEntry is an entry that was found.
type CacheEntry struct {
	Key      []CachePart `json:"cache_key"`
	Blobs    []CacheBlob `json:"blobs"`
	Fallback bool        `json:"fallback"` // it has another key
	URLs     []string    `json:"download_instructions"`
	Scope    string      `json:"scope"`
}

// A CacheUpload is an entry that is being saved. URLs has an empty text for each piece that the server has.
type CacheUpload struct {
	ID   string   `json:"upload_id"`
	URLs []string `json:"upload_instructions"`
}

// A CacheRegistry is the cache of the job's pipeline.
type CacheRegistry struct {
	client *Client
	name   string
}

// CacheRegistry returns a cache by its name; "~" is the default one.
func (c *Client) CacheRegistry(name string) CacheRegistry { return CacheRegistry{c, name} }

func (r CacheRegistry) call(method, action string, body, answer any) call {
	return call{method: method, path: path("cache_registries", r.name, action), header: r.client.byEndpoint(), body: body, answer: answer, retry: insideJob}
}

// Find returns the entry of an address, or a similar one; found is false if there is none.
func (r CacheRegistry) Find(ctx context.Context, a CacheAddress) (e CacheEntry, found bool, err error) {
	a.Store = serverStore
	return r.find(ctx, a, "retrieve")
}

// Has reports whether there is an entry with exactly this address.
func (r CacheRegistry) Has(ctx context.Context, a CacheAddress) (bool, error) {
	a.Store = serverStore
	_, found, err := r.find(ctx, a, "peek")
	return found, err
}

func (r CacheRegistry) find(ctx context.Context, a CacheAddress, action string) (e CacheEntry, found bool, err error) {
	err = r.client.do(ctx, r.call(http.MethodPost, action, a, &e))
	if failure, ok := err.(*Error); ok && failure.Status == http.StatusNotFound && failure.Message == "Cache entry not found" {
		return e, false, nil
	}
	return e, err == nil, err
}

// Begin starts to save an entry. exists is true if there is one with this address already.
func (r CacheRegistry) Begin(ctx context.Context, a CacheAddress, blobs []CacheBlob) (up CacheUpload, exists bool, err error) {
	a.Store = serverStore
	body := struct {
		CacheAddress
		Blobs []CacheBlob `json:"blobs"`
	}{a, blobs}
	err = r.client.do(ctx, r.call(http.MethodPut, "store", body, &up))
	if StatusOf(err) == http.StatusConflict {
		return up, true, nil
	}
	return up, false, err
}

// Commit ends the upload of an entry and returns the server's message.
func (r CacheRegistry) Commit(ctx context.Context, id string) (message string, err error) {
	var answer struct{ Message string }
	err = r.client.do(ctx, r.call(http.MethodPut, "commit", map[string]string{"upload_id": id}, &answer))
	return answer.Message, err
}

// Expire removes an entry of the job's own scope.
func (r CacheRegistry) Expire(ctx context.Context, a CacheAddress) error {
	a.Store = serverStore
	return r.client.do(ctx, r.call(http.MethodPost, "expire", a, nil))
}

// SendBytes sends bytes to a signed URL. It reopens them for each attempt.
func (c *Client) SendBytes(ctx context.Context, what, to string, size int64, open func() io.Reader) error {
	return transfers.run(ctx, func(int) error {
		return c.sendBytes(ctx, what, DirectUpload{URL: to, Method: http.MethodPut}, size, open())
	})
}
