package jobapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"time"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
)

// The bytes of an artifact do not pass through the agent API: its responses name signed URLs. Small files are
// sent as a form, large ones in parts. Each part is one blob, complete or absent.

const (
	// partSize is the approximate size of a part. Files up to maxWholeSize are not split.
	partSize     = 64 << 20
	maxWholeSize = 100 << 20
	// uploadLifetime is long because an agent announces many files and sends a few at a time.
	uploadLifetime   = 2 * time.Hour
	downloadLifetime = time.Hour // of search results
	redirectLifetime = time.Minute
)

// countParts returns the number of parts of a file, for agents that support parts.
func countParts(size int64) int {
	if size <= maxWholeSize {
		return 1
	}
	return int((size + partSize - 1) / partSize)
}

// partLength returns the length of a part, counted from 1. Parts have equal lengths, except that the first ones
// can have one byte more.
func partLength(size int64, parts, part int) int64 {
	n := size / int64(parts)
	if int64(part) <= size%int64(parts) {
		n++
	}
	return n
}

// partKey returns the key of the blob of a part.
func partKey(a artifacts.Artifact, part int) string { return a.Prefix() + "/" + strconv.Itoa(part) }

var errJobEnded = core.Errorf(core.Forbidden, "The job has ended, so it takes no more artifacts")

// checkExpected refuses bytes of an artifact that is complete, is stored elsewhere, or whose job has ended.
func (s *Service) checkExpected(ctx context.Context, a artifacts.Artifact) error {
	if a.State != artifacts.StateNew || !a.Kept() {
		return core.Errorf(core.Unprocessable, "%s is %s, so its bytes are not waited for", a.Path, a.State)
	}
	running, err := s.builds.Running(ctx, a.OrganizationID, a.JobID)
	if err == nil && !running {
		err = errJobEnded
	}
	return err
}

// storePart stores one part of an artifact and returns the checksum of its bytes. It stores nothing
// unless the part has its length and, for a file of one part, the announced checksum.
func (s *Service) storePart(ctx context.Context, a artifacts.Artifact, part int, from io.Reader) (sum string, err error) {
	body := &verifyingReader{from: from, artifact: a, size: partLength(a.FileSize, a.Parts, part), sum: sha256.New()}
	if a.Parts == 1 && a.SHA256 == "" && a.SHA1 != "" {
		body.sum = sha1.New()
	}
	err = s.blobs.PutSummed(ctx, partKey(a, part), body, body.size)
	switch {
	case err == nil:
		return body.hex(), nil
	case core.KindOf(err) != 0:
		return "", err
	case body.readErr != nil:
		return "", core.Errorf(core.BadRequest, "The bytes of %s did not arrive: %s", a.Path, body.readErr)
	}
	return "", unavailable(err)
}

// unavailable returns a temporary error for a failure of the blob store.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: "The place for artifacts cannot be used right now; try again", RetryAfter: 5}, err)
}

// A verifyingReader reads the bytes of a part. Read fails when they do not match the announced size and
// checksum.
type verifyingReader struct {
	from     io.Reader
	artifact artifacts.Artifact
	size     int64
	sum      hash.Hash
	read     int64
	readErr  error // error of from
}

func (b *verifyingReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.sum.Write(p[:n])
	b.read += int64(n)
	switch {
	case b.read > b.size:
		return 0, core.Errorf(core.Unprocessable, "More than the %d bytes of %s came", b.size, b.artifact.Path)
	case err == io.EOF:
		return n, b.check()
	case err != nil:
		b.readErr = err
	}
	return n, err
}

// check returns io.EOF when the bytes match.
func (b *verifyingReader) check() error {
	if b.read < b.size {
		return core.Errorf(core.Unprocessable, "Only %d of the %d bytes of %s came", b.read, b.size, b.artifact.Path)
	}
	want := b.artifact.SHA256
	if b.sum.Size() == sha1.Size {
		want = b.artifact.SHA1
	}
	if b.artifact.Parts == 1 && want != "" && b.hex() != want {
		return core.Errorf(core.Unprocessable, "The bytes of %s do not match the checksum of the upload", b.artifact.Path)
	}
	return io.EOF
}

func (b *verifyingReader) hex() string { return hex.EncodeToString(b.sum.Sum(nil)) }

// receipt returns the ETag of a stored part: its checksum, signed. The agent returns the receipts of all parts
// to finish the artifact, so the server does not have to record which parts it has.
func (s *Service) receipt(a artifacts.Artifact, part int, sum string) string {
	return sum + "-" + s.urls.signature("receipt", []string{a.ID, strconv.Itoa(part), sum})[:22]
}

func (s *Service) isReceipt(a artifacts.Artifact, part int, text string) bool {
	const sumLength = 2 * sha256.Size
	return len(text) > sumLength && hmac.Equal([]byte(text), []byte(s.receipt(a, part, text[:sumLength])))
}

// checkStored returns an error unless all bytes of an artifact are stored.
func (s *Service) checkStored(ctx context.Context, a artifacts.Artifact, receipts map[int]string) error {
	if a.Parts > 1 {
		return s.checkReceipts(a, receipts)
	}
	size, err := s.blobs.Size(ctx, partKey(a, 1))
	switch {
	case err == nil && size != a.FileSize:
		return core.Errorf(core.Unprocessable, "Only %d of the %d bytes of %s came", size, a.FileSize, a.Path)
	case errors.Is(err, blob.ErrNotFound):
		return core.Errorf(core.Unprocessable, "The bytes of %s did not arrive", a.Path)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

func (s *Service) checkReceipts(a artifacts.Artifact, receipts map[int]string) error {
	for part := 1; part <= a.Parts; part++ {
		if !s.isReceipt(a, part, receipts[part]) {
			return core.Errorf(core.Unprocessable, "Part %d of %s did not arrive, or its etag is not the one that was given for it", part, a.Path)
		}
	}
	return nil
}
