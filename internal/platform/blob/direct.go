package blob

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
)

// MaxDirect is the largest object that one request can store in a bucket, in bytes.
const MaxDirect = 5 << 30

// Direct reports whether agents transfer bytes from and to the bucket themselves, with URLs of SignGet and SignPut.
func (s *Store) Direct() bool {
	b, ok := s.objects.(*bucket)
	return ok && b.direct
}

// SignPut returns a URL at which anyone can store an object with the given SHA-256, in hex, for some time, with a PUT request that has these
// headers. The bucket refuses other bytes.
func (s *Store) SignPut(ctx context.Context, key, sha256 string, lifetime time.Duration) (url string, headers http.Header, err error) {
	sum, err := hex.DecodeString(sha256)
	if err != nil {
		return "", nil, fmt.Errorf("blob: %q is not a checksum", sha256)
	}
	headers = http.Header{"X-Amz-Checksum-Sha256": {base64.StdEncoding.EncodeToString(sum)}}
	url, err = s.sign(ctx, http.MethodPut, key, lifetime, headers)
	return url, headers, err
}

// SignGet returns a URL at which anyone can read an object for some time.
func (s *Store) SignGet(ctx context.Context, key string, lifetime time.Duration) (string, error) {
	return s.sign(ctx, http.MethodGet, key, lifetime, nil)
}

func (s *Store) sign(ctx context.Context, method, key string, lifetime time.Duration, headers http.Header) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	b, ok := s.objects.(*bucket)
	if !ok {
		return "", fmt.Errorf("blob: %s is no bucket", s.objects)
	}
	signed, err := b.client.PresignHeader(ctx, method, b.bucket, b.name(key), lifetime, nil, headers)
	if err != nil {
		return "", fmt.Errorf("sign a request for %s of %s: %w", key, b, b.explain(err))
	}
	return signed.String(), nil
}
