package builds

import (
	"context"
	"errors"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// BoardSize is the number of jobs on one page of a board, without earlier attempts.
const BoardSize = 200

// maxAttempts bounds the earlier attempts on one page of a board.
const maxAttempts = 1000

// A Board is a page of a build's jobs.
type Board struct {
	Jobs   []*Job            // the newest attempt of each job, in the order of the steps
	Before map[string][]*Job // earlier attempts, oldest first, by the id of the newest
	Number int               // page number, from 1
	Pages  int
	// Counts are the numbers of jobs in each state, as the API names it, or SoftFailed; without wait jobs and
	// earlier attempts.
	Counts map[flow.JobState]int
}

// SoftFailed is the state on a board of jobs whose failure does not fail the build.
const SoftFailed flow.JobState = "soft_failed"

// Board returns a page of a build's jobs: the page of the job, or the page with the number if jobID is empty or
// not a job of the build.
func (s *Reader) Board(ctx context.Context, b *Build, number int, jobID string) (*Board, error) {
	board := &Board{}
	err := s.db.Read(ctx, func(q *db.Q) error {
		*board = Board{Number: number}
		if err := board.count(q, b.ID); err != nil {
			return err
		}
		if err := board.openPageOf(q, b.ID, jobID); err != nil {
			return err
		}
		if err := board.read(q, b.ID); err != nil {
			return err
		}
		all := slices.Clone(board.Jobs)
		for _, attempts := range board.Before {
			all = append(all, attempts...)
		}
		if err := describeJobs(q, all...); err != nil {
			return err
		}
		return s.FillAgentNames(q, b.OrganizationID, all...)
	})
	return board, err
}

func (b *Board) count(q *db.Q, buildID string) error {
	total := 0
	b.Counts = make(map[flow.JobState]int)
	err := eachCount(q, buildID, " AND NOT j.retried", func(c jobCount) {
		total += c.n
		switch {
		case c.kind == flow.Waiter:
		case c.softFailed:
			b.Counts[SoftFailed] += c.n
		default:
			b.Counts[flow.JobState(c.state)] += c.n
		}
	})
	b.Pages = max(1, (total+BoardSize-1)/BoardSize)
	b.Number = min(max(1, b.Number), b.Pages)
	return err
}

// openPageOf selects the page of a job, or of its newest attempt.
func (b *Board) openPageOf(q *db.Q, buildID, jobID string) error {
	id, ok := core.ParseID(jobID)
	if !ok {
		return nil
	}
	var position string
	err := q.QueryRow(`SELECT j.position FROM jobs j WHERE j.build_id = $1 AND j.id = $2`, buildID, id).Scan(&position)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var ahead int
	err = q.QueryRow(`SELECT COUNT(*) FROM jobs j WHERE j.build_id = $1 AND NOT j.retried AND j.position < $2`, buildID, position).Scan(&ahead)
	b.Number = ahead/BoardSize + 1
	return err
}

func (b *Board) read(q *db.Q, buildID string) (err error) {
	b.Jobs, err = db.All(q, scanJob, selectJob+`
	WHERE j.build_id = $1 AND NOT j.retried
	ORDER BY j.position, j.id
	LIMIT $2 OFFSET $3`, buildID, BoardSize, (b.Number-1)*BoardSize)
	if err != nil || len(b.Jobs) == 0 {
		return err
	}
	newest := make(map[string]string, len(b.Jobs)) // by position
	for _, j := range b.Jobs {
		newest[j.Position] = j.ID
	}
	first, last := b.Jobs[0].Position, b.Jobs[len(b.Jobs)-1].Position
	earlier, err := db.All(q, scanJob, selectJob+`
	WHERE j.build_id = $1 AND j.retried AND j.position >= $2 AND j.position <= $3
	ORDER BY j.position, j.id
	LIMIT $4`, buildID, first, last, maxAttempts)
	b.Before = make(map[string][]*Job)
	for _, j := range earlier {
		if id, ok := newest[j.Position]; ok {
			b.Before[id] = append(b.Before[id], j)
		}
	}
	return err
}
