package bus_test

import (
	"fmt"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestReplicas_WakeEachOther(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newBus(t, dbtest.Open(t, url)), newBus(t, dbtest.Open(t, url))
	run(t, here)
	run(t, there)
	woken, cancel := there.Subscribe("build:1")
	defer cancel()
	other, cancel := there.Subscribe("build:2")
	defer cancel()
	own, cancel := here.Subscribe("build:1")
	defer cancel()
	for range 3 {
		here.Publish("build:1")
		await(t, woken)
		await(t, own)
	}
	asleep(t, other)

	// The answer comes after any effect of the own message here.
	response, cancel := here.Subscribe("answer")
	defer cancel()
	there.Publish("answer")
	await(t, response)
	asleep(t, own)
}

func TestReplicas_HearOfMoreTopicsThanFitIntoAMessage(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newBus(t, dbtest.Open(t, url)), newBus(t, dbtest.Open(t, url))
	run(t, here)
	run(t, there)
	const many = 5000
	var topics []string
	var woken []<-chan struct{}
	for n := range many {
		topic := fmt.Sprint("queue:", n)
		w, cancel := there.Subscribe(topic)
		defer cancel()
		topics, woken = append(topics, topic), append(woken, w)
	}
	here.Publish(topics...)
	for _, w := range woken {
		await(t, w)
	}
}

func TestReplicas_WakeEverybodyWhenTheyHearAgain(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newBus(t, dbtest.Open(t, url)), newBus(t, dbtest.Open(t, url))
	run(t, here)
	run(t, there)
	woken, cancel := there.Subscribe("build:1")
	defer cancel()

	// Connections of others are ended too, as when the server restarts.
	admin := dbtest.Open(t, url)
	err := admin.Read(t.Context(), func(q *db.Q) error {
		_, err := q.Query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, woken) // it is connected again and may have missed something
	here.Publish("build:1")
	await(t, woken)
}

func TestReplicas_AreToldOfTheLastChangesOfOneThatStops(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	there := newBus(t, dbtest.Open(t, url))
	run(t, there)
	woken, cancel := there.Subscribe("build:1")
	defer cancel()
	t.Run("stopping", func(t *testing.T) {
		here := newBus(t, dbtest.Open(t, url))
		run(t, here)
		here.Publish("build:0")
		here.Publish("build:1")
	})
	await(t, woken)
}

func TestReplicas_WakeEverybodyWhenAMessageIsStrange(t *testing.T) {
	d := dbtest.New(t, db.PostgreSQL)
	b := newBus(t, d)
	run(t, b)
	for _, message := range []string{"", "?", "AAAA"} {
		woken, cancel := b.Subscribe("build:1")
		if err := d.Notify(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		await(t, woken)
		cancel()
	}
}
