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
func (w *world) board(buildID string, query builds.BoardQuery) *builds.Board {
	w.T.Helper()
	b := &builds.Build{ID: buildID, OrganizationID: w.OrgID}
	board, err := w.Service.Board(w.T.Context(), b, query)
	if err != nil {
		w.T.Fatal(err)
	}
	return board
}

// shown describes the units of a board.
func shown(b *builds.Board) string {
	var units []string
	for _, u := range b.Units {
		j := u.Jobs[0]
		units = append(units, fmt.Sprintf("%s %s %d/%d", j.Label, j.State, len(u.Jobs), u.Total))
	}
	return strings.Join(units, ", ")
}

func TestBoard_FoldsEarlierAttempts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{label: One, command: make}`, `wait`, `{label: Two, command: make}`)
		made := w.Create(nil)
		first := made.String("jobs.0.id")
		w.Ada.Put(acme+"/jobs/"+first+"/cancel", nil).Want(http.StatusOK)
		second := w.Ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK).String("id")
		board := w.board(made.String("id"), builds.BoardQuery{Page: 1, JobID: first})
		if got := shown(board); got != "One scheduled 1/1,  waiting 1/1, Two waiting 1/1" {
			t.Errorf("the units are %s", got)
		}
		if board.Units[0].Jobs[0].ID != second || len(board.Before[second]) != 1 || board.Before[second][0].ID != first || board.Before[second][0].Label != "One" {
			t.Errorf("the attempts are %v before %s", board.Before, second)
		}
		if board.Counts[flow.Scheduled] != 1 || board.Counts[flow.Waiting] != 1 {
			t.Errorf("the counts are %v", board.Counts)
		}
	})
}

func TestBoard_CollapsesLargeSteps(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps(`{label: Few, command: make, parallelism: 3}`, `{label: Many, command: make many, parallelism: 50}`, `{label: One, command: make}`)
		made := w.Create(nil)
		id := made.String("id")
		board := w.board(id, builds.BoardQuery{})
		if got := shown(board); got != "Few scheduled 3/3, Many scheduled 1/50, One scheduled 1/1" || board.Counts[flow.Scheduled] != 54 {
			t.Errorf("the units are %s with %v", got, board.Counts)
		}
		list := w.board(id, builds.BoardQuery{StepID: board.Units[1].StepID})
		if len(list.Units) != 50 || list.Units[49].Total != 1 || list.Counts[flow.Scheduled] != 54 {
			t.Errorf("the step has %d units", len(list.Units))
		}
		last := list.Units[49].Jobs[0].ID
		if got := shown(w.board(id, builds.BoardQuery{JobID: last})); got != "Few scheduled 3/3, Many scheduled 2/50, One scheduled 1/1" {
			t.Errorf("with its last job the units are %s", got)
		}
		w.Ada.Put(acme+"/jobs/"+last+"/cancel", nil).Want(http.StatusOK)
		for query, want := range map[string]int{"scheduled": 53, "canceled": 1, "failed": 0, "soft_failed": 0, "nothing": 0} {
			if got := w.board(id, builds.BoardQuery{States: []flow.JobState{flow.JobState(query)}}); got.Found != want {
				t.Errorf("%d jobs are %s, want %d", got.Found, query, want)
			}
		}
		for text, want := range map[string]int{"ONE": 1, "make many": 50, "100%": 0, "few": 3} {
			if got := w.board(id, builds.BoardQuery{Text: text}); got.Found != want {
				t.Errorf("%d jobs have %s, want %d", got.Found, text, want)
			}
		}
	})
}

func TestBoard_HasPagesAndTurnsToAJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var steps []string
		for i := range 2*builds.BoardSize + 1 {
			steps = append(steps, fmt.Sprintf("{label: Step %d, command: make}", i))
		}
		w.Steps(steps...)
		made := w.Create(nil)
		id := made.String("id")
		for number, want := range map[int]int{-1: 1, 1: 1, 2: 2, 3: 3, 99: 3} {
			if board := w.board(id, builds.BoardQuery{Page: number}); board.Number != want || board.Pages != 3 {
				t.Errorf("page %d is %d of %d", number, board.Number, board.Pages)
			}
		}
		last := w.board(id, builds.BoardQuery{Page: 3}).Units
		if len(last) != 1 {
			t.Fatalf("the last page has %d units", len(last))
		}
		if board := w.board(id, builds.BoardQuery{Page: 1, JobID: last[0].Jobs[0].ID}); board.Number != 3 {
			t.Errorf("the last job is on page %d", board.Number)
		}
		if board := w.board(id, builds.BoardQuery{Page: 2, JobID: nothingsID}); board.Number != 2 {
			t.Errorf("a job of no build turns to page %d", board.Number)
		}
	})
}

// nothingsID is the id of nothing.
const nothingsID = "0190c0de-0000-7000-8000-00000000ffff"
