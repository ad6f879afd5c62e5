package joblog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A Log is the content of a log at the time it was opened.
type Log struct {
	// Size is the size of the content, in bytes.
	Size int64
	// Ended is whether the job has ended. The content then no longer grows, except by late chunks.
	Ended bool
	// HeaderTimes are the start times of sections that the agent reported, in nanoseconds since 1970.
	HeaderTimes []int64

	service *Service
	job     Job
	archive *archive
	record  record
	parts   []part
	pieces  []piece // when the log was opened
}

// Open opens the log of a job. A deleted log is empty, like a log without any bytes.
func (s *Service) Open(ctx context.Context, job Job) (*Log, error) {
	known, err := s.find(ctx, job)
	if err != nil {
		return nil, err
	}
	for {
		l, err := s.open(ctx, job, known)
		if err != nil && !errors.Is(err, blob.ErrNotFound) || err == nil && known.settled {
			return l, s.readError(job, err)
		}
		// The listing is valid only if the log was not sealed meanwhile, which removes its pieces.
		now, again := s.find(ctx, job)
		if again != nil {
			return nil, again
		}
		if now.archive == known.archive && now.deleted == known.deleted && now.ended == known.ended && now.generation == known.generation {
			return l, s.readError(job, err)
		}
		known = now
	}
}

// readError converts the reason why a log's bytes cannot be read into an error for the reader.
func (s *Service) readError(job Job, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, blob.ErrNotFound):
		s.log.Error("log bytes missing", "job", job.ID, "error", err)
		return core.Errorf(core.Gone, "The stored bytes of this log are missing")
	case errors.Is(err, blob.ErrDamaged):
		s.log.Error("log bytes damaged", "job", job.ID, "error", err)
		return core.Errorf(core.Gone, "The stored bytes of this log are damaged: they do not match their checksum")
	}
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: "The place for logs cannot be used right now; try again", RetryAfter: 5}, err)
}

func (s *Service) find(ctx context.Context, job Job) (known record, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		known, err = find(q, job)
		return err
	})
	return known, err
}

func (s *Service) open(ctx context.Context, job Job, known record) (l *Log, err error) {
	l = &Log{Ended: known.ended, HeaderTimes: known.headerTimes, service: s, job: job, record: known}
	if known.deleted {
		return l, nil
	}
	if known.archive != "" {
		if l.archive, err = openArchive(ctx, s.blobs, known.archive, known.archiveSize, known.indexSize); err != nil {
			return nil, err
		}
	}
	spans := l.archive.spans()
	if !known.settled {
		if l.pieces, err = s.list(ctx, known.pieces(job), 0, math.MaxInt64); err != nil {
			return nil, err
		}
		for _, p := range l.pieces {
			spans = append(spans, span{p.Offset, p.End()})
		}
	}
	l.parts = s.limits.layout(union(spans), known.ended)
	l.Size = size(l.parts)
	return l, nil
}

// Copy writes a range of the content. It keeps about one MiB in memory for any range.
func (l *Log) Copy(ctx context.Context, w io.Writer, from, to int64) error {
	for _, p := range l.parts {
		begin, end := max(from, p.at), min(to, p.end())
		if begin >= end {
			continue
		}
		if p.marker != "" {
			if _, err := io.WriteString(w, p.marker[begin-p.at:end-p.at]); err != nil {
				return err
			}
			continue
		}
		if err := l.copyRaw(ctx, w, p.raw+begin-p.at, p.raw+end-p.at); err != nil {
			return err
		}
	}
	return nil
}

var errDeleted = core.Errorf(core.NotFound, "The log was deleted")

// maxReopens limits how often a reader reopens the log without reading a byte.
const maxReopens = 5

// copyRaw writes bytes of the log. If they have moved, because the log was sealed or pieces were joined, it
// continues at their new place.
func (l *Log) copyRaw(ctx context.Context, w io.Writer, from, to int64) error {
	for renewals := 0; from < to; {
		n, err := l.copySome(ctx, w, from, to)
		from += n
		if n > 0 {
			renewals = 0
		}
		if errors.Is(err, blob.ErrNotFound) && renewals < maxReopens {
			renewals++
			err = l.reopen(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) reopen(ctx context.Context) error {
	now, err := l.service.Open(ctx, l.job)
	if err != nil {
		return err
	}
	if now.record.deleted || now.record.generation != l.record.generation {
		return errDeleted
	}
	l.archive, l.record.spilled = now.archive, now.record.spilled
	return nil
}

// copySome writes some bytes of the log and returns how many.
func (l *Log) copySome(ctx context.Context, w io.Writer, from, to int64) (int64, error) {
	if i, ok := l.archive.find(from); ok {
		n, err := l.archive.copy(ctx, w, i, from, to)
		if n == 0 && errors.Is(err, blob.ErrDamaged) {
			f := l.archive.frames[i]
			l.service.log.Error("log bytes damaged", "job", l.job.ID, "offset", f.raw, "size", f.size, "error", err)
			written, err := w.Write(damaged(f.size)[from-f.raw : min(to, f.end())-f.raw])
			return int64(written), err
		} else if errors.Is(err, blob.ErrDamaged) {
			err = nil // the next frame is damaged or missing; the next call reports it
		}
		return n, err
	}
	return l.service.copyPieces(ctx, w, l.record.pieces(l.job), from, to)
}

// readAhead is the range in which pieces are listed at once.
const readAhead = 4 * blob.MaxPiece

// copyPieces writes consecutive bytes of the log from its pieces, and returns how many. It returns ErrNotFound if
// no piece has the first of them.
func (s *Service) copyPieces(ctx context.Context, w io.Writer, u unsealed, from, to int64) (written int64, err error) {
	to = min(to, from+readAhead)
	pieces, err := s.list(ctx, u, from, to)
	if err != nil {
		return 0, err
	}
	for at := from; at < to; at = from + written {
		i := slices.IndexFunc(pieces, func(p piece) bool { return p.Offset <= at && at < p.End() })
		if i < 0 {
			break
		}
		content, err := s.read(ctx, u, pieces[i])
		if err != nil {
			return written, err
		}
		n, err := w.Write(content[at-pieces[i].Offset : min(to, pieces[i].End())-pieces[i].Offset])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	if written == 0 {
		return 0, blob.ErrNotFound
	}
	return written, nil
}

// readPiece returns the bytes of a piece. If a power cut damaged them, it returns a replacement, so that
// readers still get the rest of the log.
func (s *Service) readPiece(ctx context.Context, key string, p blob.Piece) ([]byte, error) {
	content, err := s.blobs.ReadPiece(ctx, key, p)
	if errors.Is(err, blob.ErrDamaged) {
		s.log.Warn("log chunk damaged", "key", key, "offset", p.Offset, "size", p.Size)
		return damaged(p.Size), nil
	}
	return content, err
}

// damaged returns the replacement of damaged bytes: of the same size, so that all offsets stay valid, with a
// message if it fits.
func damaged(size int64) []byte {
	text := fmt.Sprintf("\n[damaged: %d bytes of this log do not match their checksum]\n", size)
	if int64(len(text)) > size {
		text = ""
	}
	return []byte(strings.Repeat("?", int(size)-len(text)) + text)
}
