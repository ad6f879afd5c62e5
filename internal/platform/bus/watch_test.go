package bus_test

import (
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestWatch_WakesWhenAVersionChangesWithoutNotification(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBus(t, d)
		versions, p := map[string]string{"1": "a", "2": "a"}, 0
		builds := b.Watch(func(id string) string { return "build:" + id }, func(_ *db.Q, ids []string) (map[string]string, error) {
			p += len(ids)
			return versions, nil
		})
		poll := func() {
			t.Helper()
			if err := b.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		poll()
		if p != 0 {
			t.Errorf("p for %d versions although nothing is watched", p)
		}
		one, cancelOne := builds.Subscribe("1")
		two, cancelTwo := builds.Subscribe("2")
		defer cancelTwo()
		poll() // what the subscribers have read may be older than the first version
		await(t, one)
		await(t, two)
		poll()
		asleep(t, one)
		versions = map[string]string{"1": "b", "2": "a"}
		poll()
		await(t, one)
		asleep(t, two)
		versions = map[string]string{"2": "a"} // the other was deleted
		poll()
		await(t, one)
		asleep(t, two)
		b.Publish("build:1")
		await(t, one)
		cancelOne()
		cancelOne()
		p = 0
		poll()
		if p != 1 {
			t.Errorf("p for %d versions, want one", p)
		}
	})
}
