package builds_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

// board returns a page of the jobs of a build.
func (w *world) board(buildID string, number int, with string) *builds.Board {
	w.T.Helper()
	b := &builds.Build{ID: buildID, OrganizationID: w.OrgID}
	board, err := w.Service.Board(w.T.Context(), b, number, with)
	if err != nil {
		w.T.Fatal(err)
	}
	return board
}

func TestBoard_FoldsEarlierAttempts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{label: One, command: make}`, `wait`, `{label: Two, command: make}`)
		made := w.Create(nil)
		first := made.String("jobs.0.id")
		w.Ada.Put(acme+"/jobs/"+first+"/cancel", nil).Want(http.StatusOK)
		second := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK).String("id")
		board := w.board(made.String("id"), 1, first)
		var names []string
		for _, j := range board.Jobs {
			names = append(names, j.Label+" "+string(j.State))
		}
		if got := strings.Join(names, ", "); got != "One scheduled,  waiting, Two waiting" {
			t.Errorf("the jobs are %s", got)
		}
		if board.Jobs[0].ID != second || len(board.Before[second]) != 1 || board.Before[second][0].ID != first || board.Before[second][0].Label != "One" {
			t.Errorf("the attempts are %v before %s", board.Before, board.Jobs[0].ID)
		}
		if board.Counts[flow.Scheduled] != 1 || board.Counts[flow.Waiting] != 1 {
			t.Errorf("the counts are %v", board.Counts)
		}
	})
}

func TestBoard_HasPagesAndTurnsToAJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(fmt.Sprintf(`{label: Many, command: make, parallelism: %d}`, 2*builds.BoardSize+1))
		made := w.Create(nil)
		id := made.String("id")
		for number, want := range map[int]int{-1: 1, 1: 1, 2: 2, 3: 3, 99: 3} {
			if board := w.board(id, number, ""); board.Number != want || board.Pages != 3 {
				t.Errorf("page %d is %d of %d", number, board.Number, board.Pages)
			}
		}
		last := w.board(id, 3, "").Jobs
		if len(last) != 1 {
			t.Fatalf("the last page has %d jobs", len(last))
		}
		if board := w.board(id, 1, last[0].ID); board.Number != 3 {
			t.Errorf("the last job is on page %d", board.Number)
		}
		if board := w.board(id, 2, nothingsID); board.Number != 2 {
			t.Errorf("a job of no build turns to page %d", board.Number)
		}
	})
}

// nothingsID is the id of nothing.
const nothingsID = "0190c0de-0000-7000-8000-00000000ffff"
