package autotls

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// A Store keeps certificates in the database of an installation. It implements autocert.Cache.
type Store struct {
	DB    *db.DB
	Key   seal.Key
	Clock core.Clock
}

// sealContext binds a sealed value to its row.
func sealContext(name string) string { return "certificate:" + name }

// Get returns a value, or autocert.ErrCacheMiss.
func (s Store) Get(ctx context.Context, name string) ([]byte, error) {
	var sealed string
	err := s.DB.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT sealed FROM certificates WHERE name = $1`, name).Scan(&sealed)
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, autocert.ErrCacheMiss
	}
	if err != nil {
		return nil, err
	}
	return s.Key.Open(sealed, sealContext(name))
}

// Put stores a value.
func (s Store) Put(ctx context.Context, name string, value []byte) error {
	sealed, err := s.Key.Seal(value, sealContext(name))
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`
			INSERT INTO certificates (name, sealed, updated_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`,
			name, sealed, s.Clock().UnixMicro())
		return err
	})
}

// Delete deletes a value.
func (s Store) Delete(ctx context.Context, name string) error {
	return s.DB.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`DELETE FROM certificates WHERE name = $1`, name)
		return err
	})
}

// Expires returns when the stored certificate of a host ends; the zero time if there is none.
func (s Store) Expires(ctx context.Context, host string) (time.Time, error) {
	content, err := s.Get(ctx, host)
	if errors.Is(err, autocert.ErrCacheMiss) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, err
		}
		if slices.Contains(leaf.DNSNames, host) {
			return leaf.NotAfter, nil
		}
	}
	return time.Time{}, fmt.Errorf("the stored certificate is not for %s", host)
}
