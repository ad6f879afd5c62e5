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

// The bytes of an artifact never pass through the agent API: its answers say where to send them, and
// whoever has that address sends them without a token. Small files come as a form, large ones in parts;
// either way each part is an object of its own in the place for blobs, whole or not there.

const (
	// partSize is about how large the parts of a large file are, and wholeSize up to which size a file
	// comes whole.
	partSize  = 64 << 20
	wholeSize = 100 << 20
	// uploadFor is how long bytes may be sent after they were announced: an agent sends many files, a few
	// at a time. downloadFor is the same for what a job has searched for, and redirectFor for a redirect.
	uploadFor   = 2 * time.Hour
	downloadFor = time.Hour
	redirectFor = time.Minute
)

// partsOf is in how many parts a file of a size comes from an agent that knows parts.
func partsOf(size int64) int {
	if size <= wholeSize {
		return 1
	}
	return int((size + partSize - 1) / partSize)
}

// sizeOf is how many bytes one of the parts of a file has, counted from 1: all the same, apart from the
// first ones, which are a byte longer.
func sizeOf(size int64, parts, part int) int64 {
	n := size / int64(parts)
	if int64(part) <= size%int64(parts) {
		n++
	}
	return n
}

// partKey is the key of a part in the place for blobs.
func partKey(a artifacts.Artifact, part int) string { return a.Prefix() + "/" + strconv.Itoa(part) }

var errJobEnded = core.Errorf(core.Forbidden, "The job has ended, so nothing is added to its artifacts any more")

// awaited refuses bytes of an artifact that nobody waits for.
func (s *Service) awaited(ctx context.Context, a artifacts.Artifact) error {
	if a.State != artifacts.StateNew || !a.Kept() {
		return core.Errorf(core.Unprocessable, "%s is %s, so its bytes are not waited for", a.Path, a.State)
	}
	running, err := s.builds.Running(ctx, a.OrganizationID, a.JobID)
	if err == nil && !running {
		err = errJobEnded
	}
	return err
}

// keep stores the bytes of one part of an artifact: as many as it must have, and for a file that comes
// whole with the checksum that was told. Otherwise nothing is kept.
func (s *Service) keep(ctx context.Context, a artifacts.Artifact, part int, from io.Reader) (*arriving, error) {
	bytes := &arriving{from: from, artifact: a, size: sizeOf(a.FileSize, a.Parts, part), sum: sha256.New()}
	if a.Parts == 1 && a.SHA256 == "" && a.SHA1 != "" {
		bytes.sum = sha1.New()
	}
	err := s.blobs.PutSummed(ctx, partKey(a, part), bytes, bytes.size)
	switch {
	case err == nil || core.KindOf(err) != 0:
		return bytes, err
	case bytes.broken != nil:
		return bytes, core.Errorf(core.BadRequest, "The bytes of %s did not arrive: %s", a.Path, bytes.broken)
	}
	return bytes, unavailable(err)
}

// unavailable says of a failure of the place for blobs that it may pass.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: "The place for artifacts cannot be used right now; try again", RetryAfter: 5}, err)
}

// arriving are bytes on their way in. Reading fails when they are not those that were told.
type arriving struct {
	from     io.Reader
	artifact artifacts.Artifact
	size     int64
	sum      hash.Hash
	read     int64
	broken   error // why nothing more came
}

func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.sum.Write(p[:n])
	b.read += int64(n)
	switch {
	case b.read > b.size:
		return 0, core.Errorf(core.Unprocessable, "More than the %d bytes of %s came", b.size, b.artifact.Path)
	case err == io.EOF:
		return n, b.check()
	case err != nil:
		b.broken = err
	}
	return n, err
}

// check returns io.EOF when what came is what was told.
func (b *arriving) check() error {
	if b.read < b.size {
		return core.Errorf(core.Unprocessable, "Only %d of the %d bytes of %s came", b.read, b.size, b.artifact.Path)
	}
	told := b.artifact.SHA256
	if b.sum.Size() == sha1.Size {
		told = b.artifact.SHA1
	}
	if b.artifact.Parts == 1 && told != "" && b.hex() != told {
		return core.Errorf(core.Unprocessable, "The bytes of %s have another checksum than was told", b.artifact.Path)
	}
	return io.EOF
}

func (b *arriving) hex() string { return hex.EncodeToString(b.sum.Sum(nil)) }

// receipt is what whoever sends a part gets for it and shows when all of them are sent: the sum of its
// bytes, signed. So it is known that each part came, and nothing has to be remembered meanwhile.
func (s *Service) receipt(a artifacts.Artifact, part int, sum string) string {
	return sum + "-" + s.links.signature("receipt", []string{a.ID, strconv.Itoa(part), sum})[:22]
}

func (s *Service) isReceipt(a artifacts.Artifact, part int, text string) bool {
	const sumLength = 2 * sha256.Size
	return len(text) > sumLength && hmac.Equal([]byte(text), []byte(s.receipt(a, part, text[:sumLength])))
}

// arrived refuses to call an artifact finished whose bytes are not all there.
func (s *Service) arrived(ctx context.Context, a artifacts.Artifact, receipts map[int]string) error {
	for part := 1; a.Parts > 1 && part <= a.Parts; part++ {
		if !s.isReceipt(a, part, receipts[part]) {
			return core.Errorf(core.Unprocessable, "Part %d of %s did not arrive, or its etag is not the one that was given for it", part, a.Path)
		}
	}
	if a.Parts > 1 {
		return nil
	}
	_, err := s.blobs.Size(ctx, partKey(a, 1))
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return core.Errorf(core.Unprocessable, "The bytes of %s did not arrive", a.Path)
	case err != nil:
		return unavailable(err)
	}
	return nil
}
