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
	// maxChunk is the size of the largest chunk, in bytes.
	maxChunk = blob.MaxPiece
	// joinEvery is after how many chunks pieces are joined where they have stayed small.
	joinEvery = 64
	// lateDelay is how long after a late chunk the log is sealed again, together with those that follow.
	lateDelay = 5 * time.Second
)

// A Chunk says where some bytes of a log belong.
type Chunk struct {
	Sequence int64 // counts the chunks of a job
	Offset   int64 // in the whole log
}

// Append adds a chunk to the log of a job. It is durable when Append returns nil, and seen by readers on
// every replica. A chunk that is sent again changes nothing. What belongs to the deleted part of a log,
// or into the middle of one that is too large, is dropped.
//
// The caller has made sure that whoever sends it may do so.
func (s *Service) Append(ctx context.Context, job Job, c Chunk, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	known, err := s.add(ctx, job, c, content)
	switch {
	case known.deleted || core.KindOf(err) == core.NotFound:
		if err := s.blobs.DeleteAll(ctx, job.prefix()); err != nil {
			return unavailable(err)
		}
	case err == nil && known.ended:
		err = s.db.Write(ctx, func(q *db.Q) error { return s.unsettle(q, job) })
	}
	if err != nil {
		return err
	}
	s.bus.Publish(job.topic())
	s.join(ctx, job.pieces(known.generation), Chunk{c.Sequence, c.Offset - known.deletedBytes}, int64(len(content)))
	return nil
}

// add adds a chunk to the generation of the log that it belongs to, and returns what the database says
// afterwards: so either this finds that the job has ended, or whoever seals the log after the end of the
// job finds the piece. When the log was deleted meanwhile, the chunk is added to what follows.
func (s *Service) add(ctx context.Context, job Job, c Chunk, content []byte) (record, error) {
	known, err := s.find(ctx, job)
	for err == nil {
		if err := s.keep(ctx, job.pieces(known.generation), c.Offset-known.deletedBytes, content); err != nil {
			return known, unavailable(err)
		}
		var now record
		if now, err = s.find(ctx, job); err == nil && now.generation == known.generation {
			return now, nil
		}
		known = now
	}
	return known, err
}

// unavailable says that the place for blobs is away: the agent sends the chunk again.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", core.Errorf(core.Unavailable, "The log cannot be kept at the moment; try again"), err)
}

// keep keeps what is to be kept of a chunk. What is before offset 0 was deleted.
func (s *Service) keep(ctx context.Context, key string, offset int64, content []byte) error {
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
		return s.keepTail(ctx, key, offset+inHead, content)
	}
	return nil
}

// keepTail keeps a chunk beyond the head of a log as long as it belongs to its tail, and removes what does
// not any more.
func (s *Service) keepTail(ctx context.Context, key string, offset int64, content []byte) error {
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

// unsettle has a log sealed again after a chunk has come late.
func (s *Service) unsettle(q *db.Q, job Job) error {
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
	return tasks.Add(q, tasks.Task{Kind: sealTask, Key: job.ID, Payload: job, RunAt: s.clock().Add(lateDelay)})
}

// join keeps the pieces of a log few, now and then: after the last chunk of a MiB, and after some that
// were small. It costs the one who sends that chunk some time, and may fail: it is done again.
func (s *Service) join(ctx context.Context, key string, c Chunk, size int64) {
	const span = blob.MaxPiece
	end := c.Offset + size
	if c.Offset/span == end/span && c.Sequence%joinEvery != 0 {
		return
	}
	if err := s.blobs.JoinPieces(ctx, key, c.Offset-2*span, end); err != nil {
		s.log.Warn("compact log chunks failed", "key", key, "error", err)
	}
}
