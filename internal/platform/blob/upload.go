package blob

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"

	"github.com/minio/minio-go/v7"
)

const (
	// partSize is the size of the parts of an object. An object has at most 10,000 parts.
	partSize = 8 << 20
	// smallSize is the size up to which an object needs no shared buffer.
	smallSize = 512 << 10
	// uploadsAtOnce bounds how many parts are in memory.
	uploadsAtOnce = 16
)

// put sends an object in parts, or in one request when it is no larger than a part. It sends a part only when
// its content is complete, so that a request can be repeated when the network fails.
func (b *bucket) put(ctx context.Context, key string, from io.Reader, size int64) error {
	if size >= 0 && size <= smallSize {
		content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
		if _, err := content.ReadFrom(from); err != nil {
			return err
		}
		return b.putWhole(ctx, key, content.Bytes())
	}
	select {
	case b.uploads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.uploads }()
	part := make([]byte, partSize)
	n, err := io.ReadFull(from, part)
	switch err {
	case nil:
		return b.putParts(ctx, key, part, from)
	case io.EOF, io.ErrUnexpectedEOF:
		return b.putWhole(ctx, key, part[:n])
	}
	return err
}

func (b *bucket) putWhole(ctx context.Context, key string, content []byte) error {
	md5, sha256 := sums(content)
	_, err := b.core().PutObject(ctx, b.bucket, b.name(key), bytes.NewReader(content), int64(len(content)), md5, sha256,
		minio.PutObjectOptions{DisableContentSha256: true})
	return b.explain(err)
}

// sums returns the checksums of a request. Buckets with object lock require the MD5; without the SHA-256 a
// request would not be signed as a whole.
func sums(content []byte) (base64MD5, hexSHA256 string) {
	m, s := md5.Sum(content), sha256.Sum256(content)
	return base64.StdEncoding.EncodeToString(m[:]), hex.EncodeToString(s[:])
}

// putParts sends a part that has been read, and all that follow.
func (b *bucket) putParts(ctx context.Context, key string, part []byte, from io.Reader) error {
	id, err := b.core().NewMultipartUpload(ctx, b.bucket, b.name(key), minio.PutObjectOptions{})
	if err != nil {
		return b.explain(err)
	}
	parts, err := b.sendParts(ctx, key, id, part, from)
	if err == nil {
		_, err = b.core().CompleteMultipartUpload(ctx, b.bucket, b.name(key), id, parts, minio.PutObjectOptions{})
		err = b.explain(err)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		return errors.Join(err, b.explain(b.core().AbortMultipartUpload(ctx, b.bucket, b.name(key), id)))
	}
	return nil
}

func (b *bucket) sendParts(ctx context.Context, key, id string, part []byte, from io.Reader) ([]minio.CompletePart, error) {
	var sent []minio.CompletePart
	for n := len(part); n > 0; {
		md5, sha256 := sums(part[:n])
		done, err := b.core().PutObjectPart(ctx, b.bucket, b.name(key), id, len(sent)+1, bytes.NewReader(part[:n]), int64(n),
			minio.PutObjectPartOptions{Md5Base64: md5, Sha256Hex: sha256, DisableContentSha256: true})
		if err != nil {
			return nil, b.explain(err)
		}
		sent = append(sent, minio.CompletePart{PartNumber: done.PartNumber, ETag: done.ETag})
		n, err = io.ReadFull(from, part)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
	}
	return sent, nil
}
