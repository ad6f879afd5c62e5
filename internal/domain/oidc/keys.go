package oidc

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// signingKeys are the keys of the installation that sign tokens. There can be several: a token names its key,
// so that a new key can replace an old one while tokens of the old one are still valid.
type signingKeys struct {
	db    *db.DB
	seal  seal.Key
	clock core.Clock

	mu     sync.Mutex
	cached keySet
	readAt time.Time
}

// A keySet is the stored keys.
type keySet struct {
	public jose.JSONWebKeySet
	signer jose.Signer // of the newest key that is not retired; nil: there is none
}

const (
	// keysTrusted is how long keys are cached. Other processes can change them.
	keysTrusted = time.Minute
	keyBits     = 2048
)

// sealContext binds an encrypted key to its row.
func sealContext(id string) string { return "oidc_key:" + id }

// current returns the keys. It creates the first key.
func (k *signingKeys) current(ctx context.Context) (keySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.readAt.IsZero() && k.clock().Sub(k.readAt) < keysTrusted {
		return k.cached, nil
	}
	set, err := k.load(ctx)
	if err == nil && set.signer == nil {
		if err = k.create(ctx); err == nil {
			set, err = k.load(ctx)
		}
	}
	if err != nil {
		return keySet{}, fmt.Errorf("find the key that signs tokens of jobs: %w", err)
	}
	k.cached, k.readAt = set, k.clock()
	return set, nil
}

type storedKey struct {
	id, private string
	public      jose.JSONWebKey
	retiredAt   time.Time
}

func (k *signingKeys) load(ctx context.Context) (set keySet, err error) {
	var keys []storedKey
	err = k.db.Read(ctx, func(q *db.Q) error {
		keys, err = db.All(q, func(scan db.Scan) (s storedKey, err error) {
			return s, scan(&s.id, &s.private, db.ToJSON(&s.public), db.ToTime(&s.retiredAt))
		}, `SELECT id, private_key, public_key, retired_at FROM oidc_keys ORDER BY created_at DESC, id DESC`)
		return err
	})
	if err != nil {
		return set, err
	}
	set.public.Keys = []jose.JSONWebKey{}
	for _, key := range keys {
		set.public.Keys = append(set.public.Keys, key.public)
		if set.signer == nil && key.retiredAt.IsZero() {
			if set.signer, err = k.open(key); err != nil {
				return set, err
			}
		}
	}
	return set, nil
}

// open decrypts a key and returns its signer.
func (k *signingKeys) open(key storedKey) (jose.Signer, error) {
	der, err := k.seal.Open(key.private, sealContext(key.id))
	if err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	return jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: private, KeyID: key.id}},
		(&jose.SignerOptions{}).WithType("JWT"))
}

// create adds a key, unless another process has added one meanwhile.
func (k *signingKeys) create(ctx context.Context) error {
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.RS256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return err
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	sealed, err := k.seal.Seal(der, sealContext(public.KeyID))
	if err != nil {
		return err
	}
	return k.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName("oidc keys"); err != nil {
			return err
		}
		var existing string
		err := q.QueryRow(`SELECT id FROM oidc_keys WHERE retired_at IS NULL LIMIT 1`).Scan(&existing)
		if !errors.Is(err, db.ErrNoRows) {
			return err
		}
		_, err = q.Exec(`INSERT INTO oidc_keys (id, private_key, public_key, created_at) VALUES ($1, $2, $3, $4)`,
			public.KeyID, sealed, db.JSON(public), db.Micros(k.clock()))
		return err
	})
}
