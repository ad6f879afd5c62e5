// Package backup stores copies of an installation in a folder or a bucket, and restores them.
//
// A repository contains objects and snapshots. An object is at most a few MiB of table rows or of a blob, stored once
// under the hash of its bytes, so that a backup writes only what no earlier one has. A snapshot names the objects of
// one backup: the tables, as of one moment, and an index of all blobs. An interrupted backup leaves objects that the
// next one reuses, and no snapshot.
//
// With a key file, everything is compressed and then encrypted with XChaCha20-Poly1305, and the names of objects are
// keyed hashes, so that the store learns neither contents nor whether it knows a file. Without one, objects are only
// compressed.
package backup

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"stackyard/internal/platform/blob"
)

const (
	format     = 1
	configKey  = "config.json"
	objectsKey = "objects"
	snapsKey   = "snapshots"
	locksKey   = "locks"
	// maxObject bounds what an object unpacks to: a chunk of rows is larger than its limit by at most one row.
	maxObject = 256 << 20
	// minSecret is the minimum size of a key file, in bytes.
	minSecret = 16
)

// ErrDamaged is in the error chain when stored bytes are not those that were written.
var ErrDamaged = errors.New("the backup is damaged")

// A Repository is a place with backups.
type Repository struct {
	store  *blob.Store
	crypt  *crypt // nil: not encrypted
	pack   *zstd.Encoder
	unpack *zstd.Decoder

	renewEvery time.Duration // how often locks are written again
}

// config describes a repository; it is not encrypted.
type config struct {
	Format    int    `json:"format"`
	Encrypted bool   `json:"encrypted"`
	Salt      string `json:"salt,omitempty"`
	// Check proves a key.
	Check string `json:"check,omitempty"`
}

// Open opens a repository. secret is the content of a key file, or nil. With create, an empty place becomes a
// repository.
func Open(ctx context.Context, store *blob.Store, secret []byte, create bool) (*Repository, error) {
	r := &Repository{store: store, renewEvery: renewEvery}
	if secret != nil {
		if secret = bytes.TrimSpace(secret); len(secret) < minSecret {
			return nil, fmt.Errorf("the key file has %d bytes, at least %d are needed; make one with: openssl rand -hex 32", len(secret), minSecret)
		}
	}
	text, err := readAll(ctx, store, configKey)
	switch {
	case err == nil:
		err = r.checkConfig(text, secret)
	case !errors.Is(err, blob.ErrNotFound):
	case !create:
		err = fmt.Errorf("%s contains no backups", store)
	default:
		err = r.create(ctx, secret)
	}
	if err != nil {
		return nil, explain(err)
	}
	if r.pack, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel)); err != nil {
		return nil, err
	}
	r.unpack, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxObject), zstd.WithDecoderConcurrency(parallel))
	return r, err
}

func (r *Repository) create(ctx context.Context, secret []byte) error {
	for _, err := range r.store.All(ctx) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is not empty and contains no backups; name an empty folder or prefix", r.store)
	}
	c := config{Format: format}
	if secret != nil {
		salt := make([]byte, 16)
		rand.Read(salt)
		crypt, err := newCrypt(secret, salt)
		if err != nil {
			return err
		}
		r.crypt = crypt
		c.Encrypted, c.Salt, c.Check = true, hex.EncodeToString(salt), crypt.check()
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return r.store.Put(ctx, configKey, bytes.NewReader(text), int64(len(text)))
}

func (r *Repository) checkConfig(text, secret []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s of %s: %w", configKey, r.store, ErrDamaged)
	}
	switch {
	case c.Format != format:
		return fmt.Errorf("%s has backups of format %d, this program knows format %d; use a newer program", r.store, c.Format, format)
	case c.Encrypted && secret == nil:
		return fmt.Errorf("the backups in %s are encrypted; give --key-file", r.store)
	case !c.Encrypted && secret != nil:
		return fmt.Errorf("the backups in %s are not encrypted; leave out --key-file, or name another place", r.store)
	case !c.Encrypted:
		return nil
	}
	salt, err := hex.DecodeString(c.Salt)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", configKey, r.store, ErrDamaged)
	}
	crypt, err := newCrypt(secret, salt)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(crypt.check()), []byte(c.Check)) {
		return fmt.Errorf("the key file is not the one that the backups in %s are encrypted with", r.store)
	}
	r.crypt = crypt
	return nil
}

// crypt encrypts objects and names them.
type crypt struct {
	aead cipher.AEAD
	name []byte
}

func newCrypt(secret, salt []byte) (*crypt, error) {
	// A key file can contain a passphrase, so guessing must be slow.
	master := argon2.IDKey(secret, salt, 3, 64<<10, 2, 32)
	key, err := hkdf.Key(sha256.New, master, nil, "stackyard backup contents", chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	name, err := hkdf.Key(sha256.New, master, nil, "stackyard backup names", 32)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(key)
	return &crypt{aead: aead, name: name}, err
}

func (c *crypt) sum(content []byte) []byte {
	mac := hmac.New(sha256.New, c.name)
	mac.Write(content)
	return mac.Sum(nil)
}

func (c *crypt) check() string { return hex.EncodeToString(c.sum([]byte("check"))) }

// id returns the name of an object.
func (r *Repository) id(content []byte) string {
	if r.crypt != nil {
		return hex.EncodeToString(r.crypt.sum(content))
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func objectKey(id string) string { return objectsKey + "/" + id[:2] + "/" + id }

// put stores an object, unless it exists, and returns its id and how many bytes were written.
func (r *Repository) put(ctx context.Context, content []byte) (id string, written int64, err error) {
	id = r.id(content)
	switch _, err := r.store.Size(ctx, objectKey(id)); {
	case err == nil:
		return id, 0, nil
	case !errors.Is(err, blob.ErrNotFound):
		return "", 0, err
	}
	sealed := r.seal(content, id)
	return id, int64(len(sealed)), r.store.Put(ctx, objectKey(id), bytes.NewReader(sealed), int64(len(sealed)))
}

// get reads an object and checks that its bytes belong to its id.
func (r *Repository) get(ctx context.Context, id string) ([]byte, error) {
	if _, err := hex.DecodeString(id); err != nil || len(id) != 64 {
		return nil, fmt.Errorf("object %q: %w", id, ErrDamaged)
	}
	sealed, err := readAll(ctx, r.store, objectKey(id))
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("object %s is missing in %s: %w", id, r.store, ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	content, err := r.unseal(sealed, id)
	if err != nil || r.id(content) != id {
		return nil, fmt.Errorf("object %s of %s: %w", id, r.store, ErrDamaged)
	}
	return content, nil
}

// seal compresses and encrypts bytes for a name.
func (r *Repository) seal(content []byte, name string) []byte {
	packed := r.pack.EncodeAll(content, nil)
	if r.crypt == nil {
		return packed
	}
	nonce := make([]byte, r.crypt.aead.NonceSize(), r.crypt.aead.NonceSize()+len(packed)+r.crypt.aead.Overhead())
	rand.Read(nonce)
	return r.crypt.aead.Seal(nonce, nonce, packed, []byte(name))
}

func (r *Repository) unseal(sealed []byte, name string) ([]byte, error) {
	if r.crypt != nil {
		size := r.crypt.aead.NonceSize()
		if len(sealed) < size {
			return nil, ErrDamaged
		}
		var err error
		if sealed, err = r.crypt.aead.Open(nil, sealed[:size], sealed[size:], []byte(name)); err != nil {
			return nil, ErrDamaged
		}
	}
	return r.unpack.DecodeAll(sealed, nil)
}

func readAll(ctx context.Context, store *blob.Store, key string) ([]byte, error) {
	from, err := store.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	content, err := io.ReadAll(io.LimitReader(from, maxObject+1))
	if err == nil && len(content) > maxObject {
		err = fmt.Errorf("%s of %s: %w", key, store, ErrDamaged)
	}
	return content, err
}

// explain adds what to do to errors of a disk.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; free some space and run the same command again: it continues", err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make it writable for this user, or name another place", err)
	}
	return err
}

// newID returns the name of a snapshot made at a time. Later ones have larger names.
func newID(now time.Time) string {
	return now.UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6])
}
