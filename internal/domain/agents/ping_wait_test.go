package agents_test

import (
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/agents"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestDefaultPingWait_GrowsWithTheIdleTime(t *testing.T) {
	for _, c := range []struct{ idle, least, most time.Duration }{
		{-time.Second, 500 * time.Millisecond, time.Second}, // another replica's clock is ahead
		{0, 500 * time.Millisecond, time.Second},
		{4 * time.Second, 500 * time.Millisecond, time.Second},
		{20 * time.Second, 2500 * time.Millisecond, 5 * time.Second},
		{time.Minute, 5 * time.Second, 10 * time.Second},
		{30 * 24 * time.Hour, 5 * time.Second, 10 * time.Second},
	} {
		for range 100 {
			if got := agents.DefaultPingWait(c.idle); got < c.least || got > c.most {
				t.Errorf("idle for %s: held for %s, want %s to %s", c.idle, got, c.least, c.most)
			}
		}
	}
}

func TestOnTick_EndsLongWaitsTogether(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, int(20*time.Millisecond), time.UTC)
	for wait, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:   20 * time.Millisecond,
		499 * time.Millisecond:  499 * time.Millisecond,
		500 * time.Millisecond:  480 * time.Millisecond,
		530 * time.Millisecond:  530 * time.Millisecond,
		7579 * time.Millisecond: 7530 * time.Millisecond,
	} {
		if got := agents.OnTick(now, wait); got != want {
			t.Errorf("a wait of %s takes %s, want %s", wait, got, want)
		}
	}
}

// An agent that leaves after an idle time checks it after each ping, and pings again otherwise.
func TestDefaultPingWait_LetsAgentsLeaveOnTime(t *testing.T) {
	const pause = time.Second // between pings
	for _, timeout := range []time.Duration{5 * time.Second, 10 * time.Second, time.Minute} {
		var idle time.Duration
		for idle < timeout {
			idle += agents.DefaultPingWait(idle) + pause
		}
		if late := idle - timeout; late > 2*time.Second+timeout/4 {
			t.Errorf("an agent that leaves after %s leaves %s late", timeout, late)
		}
	}
}

func TestPing_IsHeldByTheIdleTimeOfTheAgent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var idle time.Duration
		wait := time.Millisecond
		s := servertest.Start(t, d, func(p *server.Parts) {
			p.Agents.PingWait = func(since time.Duration) time.Duration {
				idle = since
				return wait
			}
		})
		s.Apply(servertest.World)
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)}
		ping(w.agent)
		servertest.WantEqual(t, "idle after it connected", idle, 0)
		s.Clock.Advance(40 * time.Second)
		ping(w.agent)
		servertest.WantEqual(t, "idle", idle, 40*time.Second)
		job := w.job("{command: a}")
		wait = time.Minute // the job may take a while to be assigned
		wantOffer(t, w.agent, job)
		wait = time.Millisecond
		taken := w.agent.Accept(job)
		taken.Start()
		s.Clock.Advance(time.Minute)
		taken.Finish("0")
		s.Clock.Advance(3 * time.Second)
		ping(w.agent)
		servertest.WantEqual(t, "idle after a job", idle, 3*time.Second)
	})
}
