package joblog

import (
	"context"
	"fmt"
	"math"
	"time"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

const (
	// maxChunk is the size limit of a chunk, in bytes.
	maxChunk = blob.MaxPiece
	// joinEvery is the number of chunks after which small pieces are joined.
	joinEvery = 64
	// resealDelay is the time from a late chunk to sealing the log again, so that the chunks after it are
	// included.
	resealDelay = 5 * time.Second
)

// A Chunk is the position of some bytes of a log.
type Chunk struct {
	Sequence int64 // counts the chunks of a job
	Offset   int64 // in the whole log
}

// Append adds a chunk to the log of a job. When it returns nil, the chunk is durable and readers on every
// replica see it. Sending a chunk again changes nothing. Bytes of the deleted part of a log, or in the middle
// of a log that is too large, are dropped.
//
// The caller has checked that the sender can write to the log.
func (s *Service) Append(ctx context.Context, job Job, c Chunk, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	known, err := s.add(ctx, job, c, content)
	switch {
	case known.deleted || core.KindOf(err) == core.NotFound:
		if err := s.removeAll(ctx, job); err != nil {
			return unavailable(err)
		}
	case err == nil && known.ended && known.spilled:
		err = s.db.Write(ctx, func(q *db.Q) error { return s.scheduleReseal(q, job) })
	}
	if err != nil {
		return err
	}
	s.bus.Publish(job.topic())
	s.join(ctx, known.pieces(job), Chunk{c.Sequence, c.Offset - known.deletedBytes}, int64(len(content)))
	return nil
}

// add writes a chunk into its generation of the log and returns the record read afterwards. So either add sees
// that the job has ended, or the sealing that follows the end of the job finds the piece. If the log was
// deleted meanwhile, the chunk is added to the next generation.
func (s *Service) add(ctx context.Context, job Job, c Chunk, content []byte) (record, error) {
	for {
		generation, known, err := s.addOnce(ctx, job, c, content)
		if err != nil || known.deleted || known.generation == generation {
			return known, err
		}
	}
}

// addOnce writes a chunk and returns the generation to which it was added, and the record read afterwards. It does not
// try to store a chunk in the database that begins or ends too late for that.
func (s *Service) addOnce(ctx context.Context, job Job, c Chunk, content []byte) (generation int64, known record, err error) {
	end := c.Offset + int64(len(content))
	if end > s.limits.small {
		if known, err = s.find(ctx, job); err != nil || known.deleted {
			return known.generation, known, err
		}
	}
	if end-known.deletedBytes <= s.limits.small {
		written, added, final, err := s.addSmall(ctx, job, c.Offset, content)
		if err != nil || final {
			return written.generation, written, err
		}
		if known, err = s.find(ctx, job); err != nil || known.deleted || added {
			return written.generation, known, err
		}
	}
	generation = known.generation
	known, err = s.addLarge(ctx, job, known, c.Offset-known.deletedBytes, content)
	return generation, known, err
}

// addLarge writes a chunk into the blob store and returns the record read afterwards.
func (s *Service) addLarge(ctx context.Context, job Job, known record, offset int64, content []byte) (record, error) {
	if !known.spilled {
		if err := s.spill(ctx, job); err != nil {
			return known, err
		}
	}
	if err := s.store(ctx, job.pieces(known.generation), offset, content); err != nil {
		return known, unavailable(err)
	}
	return s.find(ctx, job)
}

// unavailable reports that the blob store failed. The agent then sends the chunk again.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", core.Errorf(core.Unavailable, "The log cannot be kept at the moment; try again"), err)
}

// store writes the part of a chunk that is kept into the blob store. Bytes before offset 0 were deleted.
func (s *Service) store(ctx context.Context, key string, offset int64, content []byte) error {
	if offset < 0 {
		content, offset = content[min(-offset, int64(len(content))):], 0
	}
	inHead := min(max(s.limits.head-offset, 0), int64(len(content)))
	if inHead > 0 {
		if err := s.blobs.AddPiece(ctx, key, offset, content[:inHead]); err != nil {
			return err
		}
	}
	if content = content[inHead:]; len(content) > 0 {
		return s.storeTail(ctx, key, offset+inHead, content)
	}
	return nil
}

// storeTail writes a chunk beyond the head of a log if it belongs to the tail, and removes pieces that no
// longer do.
func (s *Service) storeTail(ctx context.Context, key string, offset int64, content []byte) error {
	pieces, err := s.blobs.Pieces(ctx, key, s.limits.head, math.MaxInt64)
	if err != nil {
		return err
	}
	end := offset + int64(len(content))
	for _, p := range pieces {
		end = max(end, p.End())
	}
	tail := end - s.limits.tail
	if offset+int64(len(content)) > tail {
		if err := s.blobs.AddPiece(ctx, key, offset, content); err != nil {
			return err
		}
	}
	var old []blob.Piece
	for _, p := range pieces {
		if p.Offset >= s.limits.head && p.End() <= tail {
			old = append(old, p)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.blobs.RemovePieces(ctx, key, old)
}

// scheduleReseal enqueues sealing a log again after a late chunk.
func (s *Service) scheduleReseal(q *db.Q, job Job) error {
	r, err := lock(q, job)
	if err != nil {
		return err
	}
	if r.settled && !r.deleted {
		r.settled = false
		if err := save(q, job, r); err != nil {
			return err
		}
	}
	return tasks.Add(q, tasks.Task{Kind: sealTask, Key: job.ID, Payload: job, RunAt: s.clock().Add(resealDelay)})
}

// join keeps the number of pieces small. It runs after the last chunk of a MiB and after several small chunks.
// It delays the sender of that chunk. A failure is harmless: the next call repeats it.
func (s *Service) join(ctx context.Context, u unsealed, c Chunk, size int64) {
	const span = blob.MaxPiece
	end := c.Offset + size
	if c.Offset/span == end/span && c.Sequence%joinEvery != 0 {
		return
	}
	var err error
	if end <= s.limits.small {
		err = s.joinSmall(ctx, u)
	} else {
		err = s.blobs.JoinPieces(ctx, u.key(), c.Offset-2*span, end)
	}
	if err != nil {
		s.log.Warn("compact log chunks failed", "job", u.job.ID, "error", err)
	}
}
