// Package caches keeps what jobs of a pipeline save for later jobs, for example downloaded dependencies.
//
// An entry has a key and the paths that it was saved from, and is never changed: saving it again does nothing. Its bytes are blobs
// of limited size, found by their SHA-256, so that entries with the same bytes store them once and an interrupted upload continues
// with what is missing. Published agents keep the bytes in a store of their own; the server then has only the entry.
//
// Every entry is in a scope (scope.go), which protects the builds of a branch from what pull requests save. What was used least
// recently is removed when an organization stores more than it may (evict.go).
package caches

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Service stores the caches of pipelines.
type Service struct {
	db    *db.DB
	clock core.Clock
}

// New returns the service of the caches in a database.
func New(d *db.DB, clock core.Clock) *Service { return &Service{db: d, clock: clock} }

// Store says who has the bytes of an entry.
type Store string

// The stores.
const (
	OnServer Store = "server"
	ByAgent  Store = "agent_managed" // the name that published agents know
)

// An Address identifies an entry within a scope.
type Address struct {
	Store Store
	Paths []string // as the job named them
	Key   []Part
	// Fallbacks are prefixes of keys that will do when there is no entry with Key, the best first.
	Fallbacks []string
}

// A Part is a part of a key.
type Part struct {
	Value string `json:"value"`
	// Mandatory parts are equal in every entry that is found. The others can be left out, from the end.
	Mandatory bool `json:"mandatory"`
}

// A Blob is a piece of the bytes of an entry.
type Blob struct {
	Digest      Digest `json:"digest"`
	Size        int64  `json:"file_size"`
	Compression string `json:"compression"`
}

// A Digest is a checksum with its algorithm.
type Digest struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
}

const (
	// MaxBlob is the largest blob that the server stores, in bytes.
	MaxBlob = 64 << 20
	// maxSize limits an entry on the server, in bytes.
	maxSize = 10 << 30
	// maxPaths, maxPath, maxParts and maxKey limit an address; maxPath and maxKey are bytes.
	maxPaths, maxPath = 50, 1024
	maxParts, maxKey  = 20, 1024
	maxFallbacks      = 10
	// maxEntries limits the entries of a pipeline. A new one replaces the least recently used one.
	maxEntries = 1_000
)

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check returns an error for the caller if the address is not possible.
func (a *Address) check() error {
	switch {
	case a.Store != OnServer && a.Store != ByAgent:
		return core.Errorf(core.Unprocessable, "store must be %s, or absent", OnServer)
	case len(a.Paths) == 0 || len(a.Paths) > maxPaths:
		return core.Errorf(core.Unprocessable, "target_paths must have 1 to %d paths, not %d", maxPaths, len(a.Paths))
	case len(a.Key) == 0 || len(a.Key) > maxParts:
		return core.Errorf(core.Unprocessable, "cache_key must have 1 to %d parts, not %d", maxParts, len(a.Key))
	case len(a.Fallbacks) > maxFallbacks:
		return core.Errorf(core.Unprocessable, "restore_keys can have %d keys, not %d", maxFallbacks, len(a.Fallbacks))
	case len(a.key()) > maxKey:
		return core.Errorf(core.Unprocessable, "The key of a cache can have %d bytes, not %d", maxKey, len(a.key()))
	}
	for _, path := range a.Paths {
		if path == "" || len(path) > maxPath || strings.ContainsFunc(path, unicode.IsControl) {
			return core.Errorf(core.Unprocessable, "%.100q is not a path: it is empty, has control characters, or more than %d bytes", path, maxPath)
		}
	}
	for _, part := range a.Key {
		if part.Value == "" || strings.ContainsFunc(part.Value, unicode.IsControl) {
			return core.Errorf(core.Unprocessable, "%.100q cannot be a part of a key: it is empty or has control characters", part.Value)
		}
	}
	for _, key := range a.Fallbacks {
		if key == "" || len(key) > maxKey || strings.ContainsFunc(key, unicode.IsControl) {
			return core.Errorf(core.Unprocessable, "%.100q cannot be a restore key: it is empty, has control characters, or more than %d bytes", key, maxKey)
		}
	}
	return nil
}

// key returns the key as it is stored. Parts have no line breaks, so different keys are never stored alike.
func (a *Address) key() string {
	var b strings.Builder
	for _, part := range a.Key {
		b.WriteString(part.Value)
		b.WriteByte('\n')
	}
	return b.String()
}

// prefixes returns what the stored keys of entries begin with that will do instead of the exact one, the best first: the key without
// optional parts at its end, then the fallbacks.
func (a *Address) prefixes() (prefixes []string) {
	rest := a.Key
	for len(rest) > 1 && !rest[len(rest)-1].Mandatory {
		rest = rest[:len(rest)-1]
		shorter := Address{Key: rest}
		prefixes = append(prefixes, shorter.key())
	}
	return append(prefixes, a.Fallbacks...)
}

// pathsDigest returns the digest of store and paths. The order of paths does not matter.
func (a *Address) pathsDigest() string {
	return digest(append([]string{string(a.Store)}, slices.Sorted(slices.Values(a.Paths))...))
}

// digest returns the SHA-256 of texts.
func digest(texts []string) string {
	text, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// checkBlobs returns an error for the caller if an entry cannot have these blobs.
func checkBlobs(store Store, blobs []Blob) error {
	if len(blobs) == 0 || len(blobs) > maxSize/MaxBlob {
		return core.Errorf(core.Unprocessable, "blobs must have 1 to %d blobs, not %d", maxSize/MaxBlob, len(blobs))
	}
	for _, b := range blobs {
		switch {
		case b.Digest.Algorithm != "sha256" || !sha256Sum.MatchString(b.Digest.Value):
			return core.Errorf(core.Unprocessable, "The digest of a blob must be a sha256 in lower-case hex")
		case len(b.Compression) > 20 || strings.ContainsFunc(b.Compression, unicode.IsControl):
			return core.Errorf(core.Unprocessable, "The compression of a blob must be a name of up to 20 characters")
		case b.Size < 0 || store == OnServer && b.Size > MaxBlob:
			return core.Errorf(core.Unprocessable, "A blob can have 0 to %d bytes, not %d", MaxBlob, b.Size)
		}
	}
	return nil
}

// An Entry is what was saved once.
type Entry struct {
	ID             string
	OrganizationID string
	PipelineID     string
	Scope          string
	Protected      bool
	Store          Store
	Key            string // as Address.key
	Blobs          []Blob
	Size           int64
	Finished       bool
	CreatedAt      time.Time
}

// Parts returns the parts of the entry's key.
func (e *Entry) Parts() (parts []Part) {
	for value := range strings.SplitSeq(strings.TrimSuffix(e.Key, "\n"), "\n") {
		parts = append(parts, Part{Value: value, Mandatory: true})
	}
	return parts
}

// A Stored is a blob on the server.
type Stored struct {
	ID             string
	OrganizationID string
	PipelineID     string
	Digest         string // SHA-256 in hex
	Size           int64
	Stored         bool // its bytes have arrived
}

// Folder is the third part of the keys of all cached bytes, where those of builds have the build's id.
const Folder = "caches"

// Prefix is the prefix of the keys of the blob's objects.
func (s Stored) Prefix() string {
	return pipelines.Prefix(s.OrganizationID, s.PipelineID) + "/" + Folder + "/" + s.ID
}

// ObjectKey is the key of its bytes.
func (s Stored) ObjectKey() string { return s.Prefix() + "/bytes" }
