package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/rules/flow"
)

func TestWait_GivesTheBestJobFirst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("{command: a, key: first}", "{command: a, key: second}", "{command: a, key: urgent, priority: 5}", "{command: a, key: lazy, priority: -1}")
		w.clock.Advance(time.Second)
		w.build("{command: a, key: later}")
		var got []string
		for i := range 5 {
			got = append(got, w.now(w.agent(fmt.Sprint("agent ", i))))
		}
		wantEqual(t, "order", strings.Join(got, " "), "urgent first second later lazy")
	})
}

func TestWait_GivesAJobToOneOfThoseWhoWait(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var all []*wait
		for i := range 5 {
			all = append(all, w.wait(w.agent(fmt.Sprint("agent ", i))))
		}
		w.waiting(5)
		w.build("{command: a, key: a}")
		w.waiting(4)
		got := 0
		for _, one := range all {
			one.stop()
			if job := one.get(); job != "" {
				got++
				wantEqual(t, "holder", w.holder(job), one.name)
			}
		}
		wantEqual(t, "agents with a job", got, 1)
	})
}

func TestWait_PrefersAgentsByPriorityThenByHowLongTheyAreIdle(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		priority := func(a dispatch.Agent, n int) dispatch.Agent {
			a.Priority = &n
			return a
		}
		idle := func(a dispatch.Agent, d time.Duration) dispatch.Agent {
			a.IdleSince = a.IdleSince.Add(-d)
			return a
		}
		order := []*wait{
			4: w.wait(w.agent("none")),
			2: w.wait(priority(w.agent("low"), -1)),
			0: w.wait(idle(priority(w.agent("high"), 7), time.Hour)),
			1: w.wait(priority(w.agent("also high"), 7)),
			3: w.wait(idle(w.agent("idle"), time.Hour)),
		}
		w.waiting(5)
		for i, one := range order {
			w.build("{command: a, key: a}")
			wantEqual(t, fmt.Sprint("job ", i), w.holder(one.get()), one.name)
		}
	})
}

func TestWait_GivesJobsOnlyToAgentsThatSatisfyTheirRules(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build(
			"{command: a, key: gpu, agents: {os: linux, gpu: }}", "{command: a, key: linux, agents: {os: linux}}",
			"{command: a, key: any, agents: {queue: default}}", "{command: a, key: mac, agents: [os=macos]}",
		)
		wantEqual(t, "windows", w.now(w.agent("windows", "os=windows", "queue=default")), "any")
		w.wait(w.agent("windows too", "os=windows")).nothing()
		wantEqual(t, "linux", w.now(w.agent("linux", "os=linux")), "linux")
		both := w.agent("both", "os=macos", "os=linux", "gpu=nvidia")
		wantEqual(t, "both", w.now(both), "gpu")
		both.ID = "another"
		wantEqual(t, "another", w.now(both), "mac")
	})
}

func TestWait_GivesOtherJobsWhenTheBestMatchesNoAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		plain := w.wait(w.agent("plain"))
		linux := w.wait(w.agent("linux", "os=linux"))
		w.waiting(2)
		lines := []string{"{command: a, key: plain, priority: -9}"}
		for i := range 30 {
			lines = append(lines, fmt.Sprintf("{command: a, key: linux-%d, agents: {os: linux}}", i))
		}
		w.build(lines...)
		wantEqual(t, "plain", w.key(plain.get()), "plain")
		wantEqual(t, "linux", w.key(linux.get()), "linux-0")
	})
}

func TestWait_ConsidersTheQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.agent("other")
		other.QueueID = core.NewID()
		w.exec(`INSERT INTO queues (id, cluster_id, key, description, retry_agent_affinity, created_at) VALUES ($1, $2, 'other', '', 'prefer-warmest', 0)`, other.QueueID, servertest.AcmeClusterID)
		w.build("{command: a, key: here}", "{command: a, key: there, agents: {queue: other}}")
		wantEqual(t, "other", w.now(other), "there")
		wantEqual(t, "default", w.now(w.agent("default")), "here")
	})
}

func TestWait_AsksNothingWhileThereIsNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("{command: a, key: gpu, agents: {gpu: nvidia}}") // matches no agent
		w.wait(w.agent("first")).nothing()
		looked := w.looks()
		for i := range 50 {
			w.wait(w.agent(fmt.Sprint("agent ", i), fmt.Sprint("host=", i))).nothing()
		}
		wantEqual(t, "looks", w.looks(), looked)
		wantEqual(t, "the one that can", w.now(w.agent("nvidia", "gpu=nvidia")), "gpu")
	})
}

func TestTry_DoesNotBlock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		try := func(name string, tags ...string) string {
			t.Helper()
			job, err := w.Try(t.Context(), w.agent(name, tags...))
			w.ok(err)
			return w.key(job)
		}
		wantEqual(t, "of nothing", try("first"), "")
		w.build("{command: a, key: gpu, agents: {gpu: nvidia}}", "{command: a, key: plain}")
		wantEqual(t, "what is there", try("second"), "plain")
		wantEqual(t, "what others take", try("third"), "")
		looked := w.looks()
		wantEqual(t, "what is known not to be there", try("fourth"), "")
		wantEqual(t, "looks", w.looks(), looked)
		wantEqual(t, "what was left", try("fifth", "gpu=nvidia"), "gpu")
		w.failWith(errors.New("the disk is full"))
		w.build("{command: a, key: late}")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		job, err := w.Try(ctx, w.agent("sixth"))
		w.ok(err)
		wantEqual(t, "what cannot be assigned", job, "")
	})
}

func TestWait_OffersAJobAgainThatTheAgentMayHaveMissed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("{command: a, key: a}", "{command: a, key: b}")
		a := w.agent("agent")
		job := w.wait(a).get()
		wantEqual(t, "again", w.wait(a).get(), job)
		w.ok(w.builds.Accept(t.Context(), w.org, job, a.ID))
		wantEqual(t, "after it was accepted", w.now(a), "b")
	})
}

func TestWait_GivesTheJobToWhereTheAgentWaitedLast(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.wait(w.agent("agent"))
		w.waiting(1)
		second := w.wait(w.agent("agent"))
		wantEqual(t, "the first", first.get(), "")
		w.build("{command: a, key: a}", "{command: a, key: b}")
		wantEqual(t, "the second", w.key(second.get()), "a")
	})
}

// However an agent's patience and a job meet, a job that was assigned to it is the one that it gets.
func TestWait_LosesNoJobWhenTheAgentLeaves(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const jobs = 40
		w.build(fmt.Sprintf("{command: a, key: a, parallelism: %d}", jobs))
		got := map[string]bool{}
		for i := 0; len(got) < jobs; i++ {
			a := w.agent(fmt.Sprint("agent ", i))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%8)*time.Millisecond)
			job, err := w.Wait(ctx, a)
			cancel()
			w.ok(err)
			held := w.texts(`SELECT id FROM jobs WHERE agent_id = $1`, a.ID)
			if strings.Join(held, " ") != job {
				t.Fatalf("the agent got %q and holds %q", job, held)
			}
			if job != "" {
				got[job] = true
			}
		}
	})
}

func TestWait_GoesOnWhenAssigningFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.failWith(errors.New("the disk is full"))
		w.build("{command: a, key: a}", "{command: a, key: b}")
		leaves, stays := w.wait(w.agent("leaves")), w.wait(w.agent("stays"))
		w.waiting(2)
		leaves.stop()
		wantEqual(t, "who left", leaves.get(), "")
		w.failWith(nil)
		wantEqual(t, "who stayed", w.key(stays.get()), "a")
		wantEqual(t, "who came", w.now(w.agent("comes")), "b")
	})
}

func TestWait_SkipsJobsThatOthersTook(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.build("{command: a, key: a, parallelism: 20}", "{command: a, key: b}")
		var once sync.Once
		w.mu.Lock()
		w.before = func() {
			once.Do(func() { // another process is faster
				var offers []flow.Offer
				for _, id := range w.texts(`SELECT job_id FROM runnable ORDER BY job_id LIMIT 20`) {
					offers = append(offers, flow.Offer{JobID: id, AgentID: "another"})
				}
				_, err := w.builds.Assign(t.Context(), w.org, b.ID, offers)
				if err != nil {
					t.Error(err)
				}
			})
		}
		w.mu.Unlock()
		wantEqual(t, "what is left", w.now(w.agent("agent")), "b")
	})
}

func TestWait_GivesNothingOfAPausedQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.pauseQueue(true)
		w.build("{command: a, key: a}", "{command: a, key: b}")
		w.wait(w.agent("early")).nothing()
		waiting := w.wait(w.agent("waiting"))
		w.waiting(1)
		w.pauseQueue(false)
		wantEqual(t, "resumed", w.key(waiting.get()), "a")
		w.pauseQueue(true)
		w.wait(w.agent("late")).nothing()
	})
}

// Many agents and many builds at once: every job goes to one agent, every agent gets one job.
func TestWait_GivesEveryAgentOneOfManyJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const agents = 200
		var all []*wait
		for i := range agents {
			all = append(all, w.wait(w.agent(fmt.Sprint("agent ", i), "os=linux", fmt.Sprint("host=", i))))
		}
		for range 20 {
			w.build("{command: a, key: a, parallelism: 4}", "{command: a, key: b, parallelism: 6, agents: {os: linux}}")
		}
		got := map[string]bool{}
		for _, one := range all {
			job := one.get()
			wantEqual(t, "holder", w.holder(job), one.name)
			got[job] = true
		}
		wantEqual(t, "jobs", len(got), agents)
		wantEqual(t, "left", len(w.texts(`SELECT job_id FROM runnable`)), 0)
	})
}

func TestReplicas_WakeEachOther(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newWorld(t, dbtest.Open(t, url)), replica(t, dbtest.Open(t, url))
	here.run(here.bus.Run)
	there.run(there.bus.Run)
	waiting := there.wait(there.agent("agent"))
	there.waiting(1)
	here.build("{command: a, key: a}")
	wantEqual(t, "job", there.key(waiting.get()), "a")
}

func TestReplicas_FindJobsWithoutNotification(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newWorld(t, dbtest.Open(t, url)), replica(t, dbtest.Open(t, url))
	connected, cancel := there.bus.Subscribe("connected")
	defer cancel()
	there.run(there.bus.Run)
	there.run(there.Run)
	<-connected // everybody is woken
	waiting := there.wait(there.agent("agent"))
	there.waiting(1)
	here.build("{command: a, key: a}") // whose bus does not run
	wantEqual(t, "job", there.key(waiting.get()), "a")
}

func TestReplicas_ShareTheJobs(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newWorld(t, dbtest.Open(t, url)), replica(t, dbtest.Open(t, url))
	for _, w := range []*world{here, there} {
		w.run(w.bus.Run)
		w.run(w.Run)
	}
	const agents = 60
	var all []*wait
	for i := range agents {
		w := []*world{here, there}[i%2]
		all = append(all, w.wait(w.agent(fmt.Sprint("agent ", i))))
	}
	for i := range 12 {
		[]*world{here, there}[i%2].build("{command: a, key: a, parallelism: 5}")
	}
	got := map[string]bool{}
	for _, one := range all {
		job := one.get()
		wantEqual(t, "holder", here.holder(job), one.name)
		got[job] = true
	}
	wantEqual(t, "jobs", len(got), agents)
}

func TestWait_GoesOnWhenTheDatabaseCouldNotBeAsked(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.build("{command: a, key: a}")
		w.exec(`ALTER TABLE runnable RENAME TO elsewhere`)
		waiting := w.wait(w.agent("agent"))
		for w.looks() < 3 {
			time.Sleep(time.Millisecond)
		}
		w.exec(`ALTER TABLE elsewhere RENAME TO runnable`)
		wantEqual(t, "job", w.key(waiting.get()), "a")
	})
}

// Agents come and go all the time, some of them twice at once, while jobs are made, taken and returned. In
// the end every job was run by the one that held it.
func TestWait_GivesEveryJobToOneAgentThroughAllTurmoil(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const jobs = 150
		var ran atomic.Int64
		var all sync.WaitGroup
		for i := range 24 {
			name := fmt.Sprint("agent ", i*2/3) // every other has a double
			random := rand.New(rand.NewPCG(uint64(i), 4))
			all.Go(func() {
				for ran.Load() < jobs {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Millisecond)
					wait := w.Wait
					if random.IntN(4) == 0 {
						wait = w.Try
					}
					job, err := wait(ctx, w.agent(name, "os=linux"))
					cancel()
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if job != "" && w.perform(random, job, name) {
						ran.Add(1)
					}
				}
			})
		}
		for range jobs / 10 {
			w.build("{command: a, parallelism: 4}", "{command: b, parallelism: 6, agents: {os: linux}}")
		}
		all.Wait()
		wantEqual(t, "passed", len(w.texts(`SELECT id FROM jobs WHERE state = 'finished'`)), jobs)
		wantEqual(t, "runnable", len(w.texts(`SELECT job_id FROM runnable`)), 0)
	})
}

// perform runs a job as an agent, or returns it, and reports whether it ran the job. When two callers get a job as
// the same agent, only the first runs it.
func (w *world) perform(random *rand.Rand, job, agent string) bool {
	ctx := w.t.Context()
	if random.IntN(8) == 0 {
		w.builds.Return(ctx, w.org, job, agent) // which the double may have accepted
		return false
	}
	for _, move := range []func(context.Context, string, string, string) error{w.builds.Accept, w.builds.Start} {
		if err := move(ctx, w.org, job, agent); err != nil {
			if core.KindOf(err) != core.Unprocessable {
				w.t.Errorf("job %s: %v", job, err)
			}
			return false
		}
	}
	if !w.first(job) {
		return false
	}
	if err := w.builds.Finish(ctx, w.org, job, agent, flow.Exit{}, ""); err != nil {
		w.t.Errorf("job %s: %v", job, err)
	}
	return true
}

func TestRetry_GoesToTheAgentThatTheQueuePrefers(t *testing.T) {
	for affinity, want := range map[string]string{"prefer-warmest": "warm", "prefer-different": "idle"} {
		t.Run(affinity, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.exec(`UPDATE queues SET retry_agent_affinity = $1`, affinity)
				w.build("{command: a, key: a}")
				job := w.wait(w.agent("before")).get()
				ctx := t.Context()
				w.ok(w.builds.Accept(ctx, w.org, job, "before"))
				w.ok(w.builds.Finish(ctx, w.org, job, "before", flow.Exit{Status: 1}, ""))
				idle := func(name string, since time.Duration) *wait {
					a := w.agent(name)
					a.IdleSince = a.IdleSince.Add(-since)
					return w.wait(a)
				}
				all := []*wait{idle("before", 3*time.Hour), idle("idle", 2*time.Hour), idle("warm", time.Hour)}
				w.waiting(3)
				retry, err := w.builds.Retry(ctx, w.org, job, nil)
				w.ok(err)
				w.waiting(2)
				wantEqual(t, "holder", w.holder(retry.ID), want)
				for _, one := range all {
					one.stop()
					one.get()
				}
			})
		})
	}
}

func TestWait_GoesOnAfterPanics(t *testing.T) {
	for name, arm := range map[string]func(w *world, fault func()){
		"in the look": func(w *world, fault func()) {
			w.OnStatement(func(text string, _ []any) {
				if strings.Contains(text, "WITH RECURSIVE present") {
					fault()
				}
			})
		},
		"in the claim": func(w *world, fault func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.before = fault
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				var panics atomic.Int64
				arm(w, func() {
					if panics.Add(1) <= 2 {
						panic("out of paper")
					}
				})
				t.Cleanup(func() { w.OnStatement(func(string, []any) {}) })
				w.build("{command: a, key: a}")
				wantEqual(t, "job", w.now(w.agent("agent")), "a")
				if panics.Load() < 3 {
					t.Errorf("%d attempts, want two that panic and one more", panics.Load())
				}
			})
		})
	}
}
