package builds

import (
	"context"
	"errors"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// BoardSize is how many jobs one page of a board has, earlier attempts not counted.
const BoardSize = 200

// maxAttempts bounds the earlier attempts that one page of a board has.
const maxAttempts = 1000

// A Board is a page of a build's jobs, as people see them.
type Board struct {
	Jobs   []*Job            // the newest attempt of each, in the order of the steps
	Before map[string][]*Job // their earlier attempts, in order, by the id of the newest
	Number int               // of the page, from 1
	Pages  int
	// Counts are of the newest attempts of all jobs but waits, by their state in the words of REST, or
	// SoftFailed.
	Counts map[flow.JobState]int
}

// SoftFailed stands for the jobs on a board whose failure does not fail the build.
const SoftFailed flow.JobState = "soft_failed"

// Board returns a page of a build's jobs: the one with a job on it or, where that id is empty or not that
// of a job of the build, the one with a number.
func (s *Service) Board(ctx context.Context, b *Build, number int, with string) (*Board, error) {
	board := &Board{}
	err := s.db.Read(ctx, func(q *db.Q) error {
		*board = Board{Number: number}
		if err := board.count(q, b.ID); err != nil {
			return err
		}
		if err := board.turnTo(q, b.ID, with); err != nil {
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

// turnTo goes to the page that a job, or the attempt that took its place, is on.
func (b *Board) turnTo(q *db.Q, buildID, jobID string) error {
	id, ok := core.ParseID(jobID)
	if !ok {
		return nil
	}
	var position string
	err := q.QueryRow(`SELECT j.Position FROM jobs j WHERE j.build_id = $1 AND j.id = $2`, buildID, id).Scan(&position)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var ahead int
	err = q.QueryRow(`SELECT COUNT(*) FROM jobs j WHERE j.build_id = $1 AND NOT j.retried AND j.Position < $2`, buildID, position).Scan(&ahead)
	b.Number = ahead/BoardSize + 1
	return err
}

func (b *Board) read(q *db.Q, buildID string) (err error) {
	b.Jobs, err = db.All(q, scanJob, selectJob+`
	WHERE j.build_id = $1 AND NOT j.retried
	ORDER BY j.Position, j.id
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
	WHERE j.build_id = $1 AND j.retried AND j.Position >= $2 AND j.Position <= $3
	ORDER BY j.Position, j.id
	LIMIT $4`, buildID, first, last, maxAttempts)
	b.Before = make(map[string][]*Job)
	for _, j := range earlier {
		if id, ok := newest[j.Position]; ok {
			b.Before[id] = append(b.Before[id], j)
		}
	}
	return err
}
