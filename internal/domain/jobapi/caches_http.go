package jobapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/caches"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// The segments of the URLs at which pieces of caches are sent and fetched, and what their signatures allow.
const (
	cachesSegment = "caches"
	sendCache     = "send"
	fetchCache    = "fetch"
)

// cacheRoutes are the routes of caches. Published agents call them, too; those keep the bytes in a store of their own.
func (s *Service) cacheRoutes() []route.Route {
	const registry = agents.APIPath + "/cache_registries/{registry}"
	routes := []route.Route{
		{Method: http.MethodGet, Path: registry, Summary: "Get the cache registry", Handler: route.On(s.loadCache, s.getCache)},
		{Method: http.MethodPost, Path: registry + "/peek", Summary: "Check whether a cache has a key", Handler: route.OnBody(s.loadCache, s.peekCache)},
		{
			Method: http.MethodPost, Path: registry + "/retrieve", Summary: "Find an entry of a cache",
			Description: "Returns the entry with the key, or the newest one with a similar key. The job finds entries of its branch or pull request and of the default branch.",
			Handler:     route.OnBody(s.loadCache, s.retrieveCache),
		},
		{
			Method: http.MethodPut, Path: registry + "/store", Summary: "Start to save an entry of a cache",
			Description: "Returns URLs for the bytes that the server does not have.",
			Errors:      []int{http.StatusConflict},
			Handler:     route.OnBody(s.loadCache, s.storeCache),
		},
		{Method: http.MethodPut, Path: registry + "/commit", Summary: "Finish an entry of a cache", Handler: route.OnBody(s.loadCache, s.commitCache)},
		{Method: http.MethodPost, Path: registry + "/expire", Summary: "Remove an entry of a cache", Handler: route.OnBody(s.loadCache, s.expireCache)},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Auth = agents.JobTag, route.Job
	}
	const piece = "/" + artifactsSegment + "/" + cachesSegment + "/{blob}"
	return append(routes,
		route.Route{Method: http.MethodPut, Path: piece, Auth: route.Open, Hidden: true, Handler: route.Visit(s.putCacheBytes)},
		route.Route{Method: http.MethodGet, Path: piece, Auth: route.Open, Hidden: true, Handler: route.Visit(s.getCacheBytes)})
}

// registryNames are the names of the one registry, which each pipeline has.
var registryNames = map[string]bool{"~": true, "default": true}

func (s *Service) loadCache(r *route.Request) (builds.Holding, error) {
	h, err := s.agents.LoadOwnJob(r)
	if err == nil && !registryNames[r.PathValue("registry")] {
		err = core.Errorf(core.NotFound, "Cache registry not found")
	}
	return h, err
}

type cacheRegistryView struct {
	UUID  string       `json:"uuid"`
	Name  string       `json:"name"`
	Store caches.Store `json:"store" doc:"Who has the bytes, unless a request says otherwise."`
}

func (s *Service) getCache(_ *route.Request, h builds.Holding) (cacheRegistryView, error) {
	return cacheRegistryView{UUID: h.PipelineID, Name: "default", Store: caches.ByAgent}, nil
}

// cacheAddress identifies an entry.
type cacheAddress struct {
	TargetPaths []string      `json:"target_paths"`
	CacheKey    []caches.Part `json:"cache_key"`
	RestoreKeys []string      `json:"restore_keys" doc:"Beginnings of keys that will do when there is no entry with the key."`
	Store       string        `json:"store" doc:"server: the server has the bytes. Absent: the agent has them."`
}

func (a cacheAddress) address() caches.Address {
	store := caches.Store(a.Store)
	if store == "" {
		store = caches.ByAgent
	}
	return caches.Address{Store: store, Paths: a.TargetPaths, Key: a.CacheKey, Fallbacks: a.RestoreKeys}
}

type cacheEntryView struct {
	TargetPaths          []string      `json:"target_paths"`
	CacheKey             []caches.Part `json:"cache_key"`
	Blobs                []caches.Blob `json:"blobs"`
	Store                caches.Store  `json:"store"`
	Fallback             bool          `json:"fallback" doc:"The entry has another key."`
	Multipart            bool          `json:"multipart"`
	DownloadInstructions []string      `json:"download_instructions" doc:"URLs of the blobs. They expire."`
	Scope                string        `json:"scope" doc:"What the entry was saved for."`
	CreatedAt            core.Time     `json:"created_at"`
}

func (s *Service) findCache(r *route.Request, h builds.Holding, body cacheAddress, used bool) (*caches.Entry, cacheEntryView, error) {
	e, fallback, err := s.caches.Find(r.Context(), r.Org, h.BuildID, body.address(), used)
	if err != nil {
		return nil, cacheEntryView{}, err
	}
	return e, cacheEntryView{
		TargetPaths: body.TargetPaths, CacheKey: e.Parts(), Blobs: e.Blobs, Store: e.Store, Fallback: fallback, Multipart: len(e.Blobs) > 1,
		DownloadInstructions: []string{}, Scope: e.Scope, CreatedAt: core.At(e.CreatedAt),
	}, nil
}

func (s *Service) peekCache(r *route.Request, h builds.Holding, body cacheAddress) (cacheEntryView, error) {
	body.RestoreKeys = nil
	for i := range body.CacheKey {
		body.CacheKey[i].Mandatory = true // another key would not do
	}
	_, view, err := s.findCache(r, h, body, false)
	return view, err
}

func (s *Service) retrieveCache(r *route.Request, h builds.Holding, body cacheAddress) (cacheEntryView, error) {
	e, view, err := s.findCache(r, h, body, true)
	if err != nil || e.Store != caches.OnServer {
		return view, err
	}
	blobs, err := s.caches.BlobsOf(r.Context(), e.ID)
	urls := s.urls.forCaller(r)
	for _, b := range blobs {
		from := cacheURL(urls, fetchCache, b.ID)
		if s.blobs.Direct() {
			if direct, err := s.blobs.SignGet(r.Context(), b.ObjectKey(), uploadLifetime); err == nil {
				from = direct
			}
		}
		view.DownloadInstructions = append(view.DownloadInstructions, from)
	}
	return view, err
}

// cacheURL returns a signed URL of a blob.
func cacheURL(u urlSigner, action, id string) string {
	return u.public.To(artifactsSegment, cachesSegment, id) + "?" + u.sign(uploadLifetime, cachesSegment, action, id).Encode()
}

type cacheStoring struct {
	cacheAddress
	Blobs    []caches.Blob `json:"blobs"`
	Platform string        `json:"platform"`
}

type cacheUploadView struct {
	UploadID           string   `json:"upload_id"`
	Multipart          bool     `json:"multipart"`
	UploadInstructions []string `json:"upload_instructions" doc:"URLs to send the blobs to, in their order. Empty: the server has the bytes."`
}

func (s *Service) storeCache(r *route.Request, h builds.Holding, body cacheStoring) (cacheUploadView, error) {
	up, err := s.caches.Begin(r.Context(), r.Org, h.BuildID, body.address(), body.Blobs)
	if err != nil {
		return cacheUploadView{}, err
	}
	view := cacheUploadView{UploadID: up.ID, UploadInstructions: []string{}, Multipart: len(body.Blobs) > 1}
	if body.address().Store != caches.OnServer {
		return view, nil
	}
	urls := s.urls.forCaller(r)
	for i := range body.Blobs {
		address := ""
		if b, missing := up.Missing[i]; missing {
			address = cacheURL(urls, sendCache, b.ID)
		}
		view.UploadInstructions = append(view.UploadInstructions, address)
	}
	return view, nil
}

type cacheCommit struct {
	UploadID string   `json:"upload_id"`
	ETags    []string `json:"e_tags" doc:"Ignored."`
}

type cacheMessageView struct {
	Message string `json:"message"`
}

func (s *Service) commitCache(r *route.Request, h builds.Holding, body cacheCommit) (cacheMessageView, error) {
	saved, err := s.caches.Commit(r.Context(), r.Org, h.PipelineID, body.UploadID)
	switch {
	case err != nil:
		return cacheMessageView{}, err
	case !saved:
		return cacheMessageView{"Another job has saved the cache meanwhile"}, nil
	}
	return cacheMessageView{"The cache was saved"}, nil
}

func (s *Service) expireCache(r *route.Request, h builds.Holding, body cacheAddress) (agents.EmptyView, error) {
	return agents.EmptyView{}, s.caches.Expire(r.Context(), r.Org, h.BuildID, body.address())
}

// putCacheBytes stores the bytes of a blob if they have its size and checksum.
func (s *Service) putCacheBytes(w http.ResponseWriter, r *route.Request) error {
	id := r.PathValue("blob")
	if err := s.urls.verify(r.URL.Query(), cachesSegment, sendCache, id); err != nil {
		return err
	}
	b, err := s.caches.Blob(r.Context(), id)
	if err != nil {
		return err
	}
	if !b.Stored {
		body := newBodyReader(w, r)
		defer body.connection.SetReadDeadline(time.Time{})
		if err := s.storeCacheBytes(r, b, body); err != nil {
			return err
		}
	}
	w.Header().Set("ETag", `"`+b.Digest+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Service) storeCacheBytes(r *route.Request, b caches.Stored, from io.Reader) error {
	bytes := &digestReader{from: from, want: b, sum: sha256.New()}
	err := s.blobs.Put(r.Context(), b.ObjectKey(), bytes, b.Size)
	switch {
	case bytes.err != nil:
		return bytes.err
	case err != nil:
		return unavailable(err)
	}
	exists, err := s.caches.SetStored(r.Context(), b)
	if err == nil && !exists {
		err = errors.Join(core.Errorf(core.NotFound, "The cache was removed meanwhile"), s.blobs.Delete(r.Context(), b.ObjectKey()))
	}
	return err
}

// A digestReader reads the bytes of a blob. Read fails if they are others.
type digestReader struct {
	from io.Reader
	want caches.Stored
	sum  hash.Hash
	read int64
	err  error
}

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	d.sum.Write(p[:n])
	d.read += int64(n)
	switch {
	case d.read > d.want.Size:
		d.err = core.Errorf(core.Unprocessable, "More than the %d bytes of the blob came", d.want.Size)
		return 0, d.err
	case err == io.EOF && (d.read < d.want.Size || hex.EncodeToString(d.sum.Sum(nil)) != d.want.Digest):
		d.err = core.Errorf(core.Unprocessable, "The bytes do not have the digest %s", d.want.Digest)
		return 0, d.err
	case err != nil && err != io.EOF:
		d.err = err
		if core.KindOf(err) == 0 {
			d.err = core.Errorf(core.BadRequest, "The bytes of the blob did not arrive: %s", err)
		}
	}
	return n, err
}

// getCacheBytes returns the bytes of a blob.
func (s *Service) getCacheBytes(w http.ResponseWriter, r *route.Request) error {
	id := r.PathValue("blob")
	if err := s.urls.verify(r.URL.Query(), cachesSegment, fetchCache, id); err != nil {
		return err
	}
	b, err := s.caches.Blob(r.Context(), id)
	if err != nil {
		return err
	}
	from, err := s.blobs.Open(r.Context(), b.ObjectKey(), 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return core.Errorf(core.NotFound, "The bytes of the cache are missing")
	}
	if err != nil {
		return unavailable(err)
	}
	defer from.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Length", strconv.FormatInt(b.Size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, from); err != nil {
		panic(http.ErrAbortHandler) // the client sees that bytes are missing
	}
	return nil
}
