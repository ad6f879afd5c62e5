package db_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestAnnounce_IsReceivedAfterTheCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		var receive []string
		d.OnAnnounce(func(topics []string) {
			receive = append(receive, topics...)
			if n := number(t, d, `SELECT n FROM counters`); n != 1 {
				t.Errorf("n is %d when it is announced", n)
			}
		})
		err := d.Write(t.Context(), func(q *db.Q) error {
			q.Announce("counter:a")
			_, err := q.Exec(`UPDATE counters SET n = n + 1`)
			q.Announce("counter:b", "counter:c")
			if len(receive) > 0 {
				t.Errorf("%v was receive before the commit", receive)
			}
			return err
		})
		if want := []string{"counter:a", "counter:b", "counter:c"}; err != nil || !slices.Equal(receive, want) {
			t.Errorf("receive %v, %v; want %v", receive, err, want)
		}
	})
}

func TestAnnounce_IsForgottenWithAWriteThatFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		d.OnAnnounce(func(topics []string) { t.Errorf("receive %v", topics) })
		refused := errors.New("refused")
		err := d.Write(t.Context(), func(q *db.Q) error {
			q.Announce("counter:a")
			return refused
		})
		if err != refused {
			t.Errorf("got error %v", err)
		}
	})
}

func TestListen_HearsWhatOthersNotify(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	one, two := dbtest.Open(t, url), dbtest.Open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, receive, ended := make(chan struct{}), make(chan string, 2), make(chan error)
	go func() { ended <- one.Listen(ctx, func() { close(ready) }, func(m string) { receive <- m }) }()
	<-ready
	if err := two.Notify(t.Context(), "hello", "it's me"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello", "it's me"} {
		if got := <-receive; got != want {
			t.Errorf("receive %q, want %q", got, want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("listening ended with %v", err)
	}
}

func TestSkipLocked_LeavesOutWhatAnotherWriteHolds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		write(t, d, `INSERT INTO counters (id, n) VALUES ('b', 0), ('c', 0)`)
		take := func(q *db.Q) []string {
			ids, err := db.All(q, scanText, `SELECT id FROM counters WHERE n = 0 ORDER BY id LIMIT 2`+q.SkipLocked())
			if err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				if _, err := q.Exec(`UPDATE counters SET n = 1 WHERE id = $1`, id); err != nil {
					t.Error(err)
				}
			}
			return ids
		}
		var first, second []string
		var wait sync.WaitGroup
		took, release := make(chan struct{}), make(chan struct{})
		wait.Go(func() {
			d.Write(t.Context(), func(q *db.Q) error {
				first = take(q)
				close(took)
				<-release
				return nil
			})
		})
		<-took
		if !d.Shared() { // the only writer must end first
			close(release)
		}
		d.Write(t.Context(), func(q *db.Q) error {
			second = take(q)
			return nil
		})
		if d.Shared() {
			close(release)
		}
		wait.Wait()
		if !slices.Equal(first, []string{"a", "b"}) || !slices.Equal(second, []string{"c"}) {
			t.Errorf("took %v and %v", first, second)
		}
	})
}
