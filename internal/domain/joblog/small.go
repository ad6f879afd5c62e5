package joblog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

const (
	// smallLog is how many bytes of the beginning of a log are stored in the database. Most logs have no more:
	// they cost one insert for each chunk, no file or object, and are never sealed.
	smallLog = 32 << 10
	// maxSmallPieces bounds the rows of a log, whatever chunks an agent sends.
	maxSmallPieces = 4 * joinEvery
)

// unsealed says where the pieces of a generation of a log are.
type unsealed struct {
	job        Job
	generation int64
	spilled    bool // some may be in the blob store
}

// pieces returns where the pieces are that no archive contains.
func (r record) pieces(job Job) unsealed { return unsealed{job, r.generation, r.spilled} }

// key returns the key of the pieces in the blob store.
func (u unsealed) key() string { return u.job.pieces(u.generation) }

// A piece is some bytes of an unsealed log.
type piece struct {
	blob.Piece
	content []byte // of a piece in the database; nil for one in the blob store
}

// list returns the pieces that contain a byte from an offset on and before another, in the order of their offsets.
func (s *Service) list(ctx context.Context, u unsealed, from, to int64) ([]piece, error) {
	var found []piece
	if from < smallLog {
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			found, err = smallPieces(q, u, "")
			return err
		})
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(p piece) bool { return p.End() <= from || p.Offset >= to })
	}
	if !u.spilled {
		return found, nil
	}
	spilled, err := s.blobs.Pieces(ctx, u.key(), from, to)
	if err != nil {
		return nil, err
	}
	for _, p := range spilled {
		found = append(found, piece{Piece: p})
	}
	slices.SortStableFunc(found, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Size, a.Size))
	})
	return found, nil
}

// read returns the bytes of a piece.
func (s *Service) read(ctx context.Context, u unsealed, p piece) ([]byte, error) {
	if p.content != nil {
		return p.content, nil
	}
	return s.readPiece(ctx, u.key(), p.Piece)
}

// remove removes pieces, and never any other.
func (s *Service) remove(ctx context.Context, u unsealed, pieces []piece) error {
	var spilled []blob.Piece
	var small []piece
	for _, p := range pieces {
		if p.content == nil {
			spilled = append(spilled, p.Piece)
		} else {
			small = append(small, p)
		}
	}
	if len(small) > 0 {
		if err := s.db.Write(ctx, func(q *db.Q) error { return removeSmall(q, u, small) }); err != nil {
			return err
		}
	}
	if len(spilled) == 0 {
		return nil
	}
	return s.blobs.RemovePieces(ctx, u.key(), spilled)
}

// removeAll removes all bytes of a log that was deleted.
func (s *Service) removeAll(ctx context.Context, job Job) error {
	if err := s.db.Write(ctx, func(q *db.Q) error { return removeSmallLog(q, job) }); err != nil {
		return err
	}
	return s.blobs.DeleteAll(ctx, job.prefix())
}

// addSmall stores a chunk in the database if it belongs to the beginning of the log, and returns the generation to
// which it was added. final is set if known is as good as the record read afterwards: with a single writer, the job
// ends either before the chunk is stored, or after it is visible to sealing.
func (s *Service) addSmall(ctx context.Context, job Job, offset int64, content []byte) (known record, added, final bool, err error) {
	if s.limits.small == 0 {
		return known, false, false, nil
	}
	err = s.db.WriteOne(ctx, func(q *db.Q) error {
		final = q.SingleWriter()
		var state flow.JobState
		err := q.QueryRow(`
			INSERT INTO log_pieces (job_id, generation, position, content)
			SELECT j.id, COALESCE(l.generation, 0), $3 - COALESCE(l.deleted_bytes, 0), $5
			FROM jobs j LEFT JOIN job_logs l ON l.job_id = j.id
			WHERE j.organization_id = $1 AND j.id = $2 AND l.deleted_at IS NULL
			  AND $3 >= COALESCE(l.deleted_bytes, 0) AND $4 - COALESCE(l.deleted_bytes, 0) <= $6
			  AND (SELECT count(*) FROM log_pieces p WHERE p.job_id = j.id AND p.generation = COALESCE(l.generation, 0)) < $7
			ON CONFLICT (job_id, generation, position) DO UPDATE SET
				content = CASE WHEN length(excluded.content) > length(log_pieces.content) THEN excluded.content ELSE log_pieces.content END
			RETURNING generation,
				(SELECT j.state FROM jobs j WHERE j.id = log_pieces.job_id),
				COALESCE((SELECT l.spilled FROM job_logs l WHERE l.job_id = log_pieces.job_id), FALSE),
				COALESCE((SELECT l.deleted_bytes FROM job_logs l WHERE l.job_id = log_pieces.job_id), 0)`,
			job.OrganizationID, job.ID, offset, offset+int64(len(content)), content, s.limits.small, maxSmallPieces).
			Scan(&known.generation, &state, &known.spilled, &known.deletedBytes)
		known.ended = state.Ended()
		added = err == nil
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		return err
	})
	return known, added, final && added, err
}

// spill records that a log has bytes in the blob store, before the first of them is written. It waits for a write
// that ends the job: either that write sees it and has the log sealed, or the sender of the chunk sees that the job
// has ended.
func (s *Service) spill(ctx context.Context, job Job) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if _, err := db.Strings(q, `SELECT id FROM jobs WHERE organization_id = $1 AND id = $2`+q.ForShare(), job.OrganizationID, job.ID); err != nil {
			return err
		}
		_, err := q.Exec(`
			INSERT INTO job_logs (job_id, organization_id, settled, spilled)
			SELECT id, organization_id, FALSE, TRUE FROM jobs WHERE organization_id = $1 AND id = $2
			ON CONFLICT (job_id) DO UPDATE SET spilled = TRUE`, job.OrganizationID, job.ID)
		return err
	})
}

// spilledLogs returns which of some jobs that this write ends have bytes of their logs in the blob store.
func spilledLogs(q *db.Q, jobs []string) ([]string, error) {
	if err := q.LockAllLater("jobs", "id", jobs); err != nil {
		return nil, err
	}
	in, arg := q.In("job_id", 1, jobs)
	var spilled []string
	err := db.EachLater(q, func(scan db.Scan) error {
		var id string
		err := scan(&id)
		spilled = append(spilled, id)
		return err
	}, `SELECT job_id FROM job_logs WHERE spilled AND `+in, arg)
	if err == nil {
		err = q.Flush() // with the statements that wait
	}
	return spilled, err
}

// joinSmall replaces consecutive pieces in the database by one.
func (s *Service) joinSmall(ctx context.Context, u unsealed) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		pieces, err := smallPieces(q, u, q.ForUpdate())
		if err != nil {
			return err
		}
		joined := join(pieces)
		if len(joined) == len(pieces) {
			return nil
		}
		if err := removeSmall(q, u, pieces); err != nil {
			return err
		}
		return db.InsertMany(q, `INSERT INTO log_pieces (job_id, generation, position, content)`, joined, func(p piece) []any {
			return []any{u.job.ID, u.generation, p.Offset, p.content}
		}, "")
	})
}

// join returns pieces with the same bytes, of which none overlaps or follows another. The given pieces are sorted.
func join(pieces []piece) []piece {
	var joined []piece
	for _, p := range pieces {
		if n := len(joined); n > 0 && p.Offset <= joined[n-1].End() {
			last := &joined[n-1]
			if p.End() > last.End() {
				last.content = append(last.content, p.content[last.End()-p.Offset:]...)
				last.Size = int64(len(last.content))
			}
			continue
		}
		p.content = bytes.Clone(p.content)
		joined = append(joined, p)
	}
	return joined
}

// smallPieces returns the pieces of a log in the database, in the order of their offsets.
func smallPieces(q *db.Q, u unsealed, locking string) ([]piece, error) {
	return db.All(q, func(scan db.Scan) (p piece, err error) {
		err = scan(&p.Offset, &p.content)
		p.Size = int64(len(p.content))
		return p, err
	}, `SELECT position, content FROM log_pieces WHERE job_id = $1 AND generation = $2 ORDER BY position`+locking, u.job.ID, u.generation)
}

// removeSmall removes pieces from the database, unless a longer one has replaced them.
func removeSmall(q *db.Q, u unsealed, pieces []piece) error {
	for _, p := range pieces {
		_, err := q.Exec(`DELETE FROM log_pieces WHERE job_id = $1 AND generation = $2 AND position = $3 AND length(content) = $4`,
			u.job.ID, u.generation, p.Offset, p.Size)
		if err != nil {
			return err
		}
	}
	return nil
}

// removeSmallLog removes all pieces of a log from the database.
func removeSmallLog(q *db.Q, job Job) error {
	_, err := q.Exec(`DELETE FROM log_pieces WHERE job_id = $1`, job.ID)
	return err
}
