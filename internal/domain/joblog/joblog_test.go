package joblog_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAppend_PutsChunksWhereTheyBelong(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.wantContent(job, "")
		w.add(job, 5, "world")
		w.wantContent(job, "") // the beginning is missing
		w.add(job, 0, "hello")
		w.wantContent(job, "helloworld")
		w.add(job, 5, "world")
		w.add(job, 12, "late")
		w.wantContent(job, "helloworld")
		w.add(job, 10, ", ")
		w.wantContent(job, "helloworld, late")
	})
}

func TestSeal_KeepsTheContentAndOneObject(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "one\r\n")
		w.add(job, 5, "two\r\n")
		w.end(job)
		w.wantContent(job, "one\r\ntwo\r\n")
		w.runDue()
		if l := w.open(job); !l.Settled() || !l.Ended {
			t.Error("the log is not sealed")
		}
		w.wantContent(job, "one\r\ntwo\r\n")
		if n := w.keys(job); n != 1 {
			t.Errorf("there are %d objects of the log", n)
		}
	})
}

func TestSeal_OfALogWithoutAnyBytesKeepsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.end(job)
		w.runDue()
		w.wantContent(job, "")
		if n := w.keys(job); n != 0 {
			t.Errorf("there are %d objects of the log", n)
		}
	})
}

func TestSeal_MarksWhatIsMissing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 10, "two")
		w.add(job, 1000, "three")
		w.wantContent(job, "")
		w.end(job)
		const want = "[10 bytes of the log are missing here]\r\ntwo\r\n[987 bytes of the log are missing here]\r\nthree"
		w.wantContent(job, want)
		w.runDue()
		w.wantContent(job, want)
	})
}

func TestAppend_AfterTheEndSealsTheLogAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "one, ")
		w.end(job)
		w.runDue()
		w.add(job, 5, "two, ")
		w.wantContent(job, "one, two, ")
		if w.open(job).Settled() {
			t.Error("a log with a late chunk counts as sealed")
		}
		w.add(job, 10, "three")
		w.Clock.Advance(time.Minute)
		w.runDue()
		w.wantContent(job, "one, two, three")
		if l := w.open(job); !l.Settled() {
			t.Error("the log was not sealed again")
		}
		if n := w.keys(job); n != 1 {
			t.Errorf("there are %d objects of the log", n)
		}
	})
}

// A chunk that arrives while the log is sealed is acknowledged after sealing has listed the pieces and before
// it marks the log as settled. The timing is random, so the test repeats it.
func TestAppend_WhileTheLogIsSealedIsKeptAndShownAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		for range 20 {
			job := w.run()
			w.add(job, 0, "in time, ")
			w.end(job)
			var sealing sync.WaitGroup
			sealing.Go(func() { w.WantNoError(w.logs.Seal(context.Background(), job)) })
			w.add(job, 9, "late")
			sealing.Wait()
			w.wantContent(job, "in time, late")
			w.Clock.Advance(time.Minute)
			w.runDue()
			w.wantContent(job, "in time, late")
		}
	})
}

// A process that dies while it seals a log leaves unsealed pieces behind.
func TestSeal_FindsPiecesInALogThatWasThoughtSealed(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.logs.SetSmall(0)
		job := w.run()
		w.add(job, 0, "in time, ")
		w.end(job)
		w.runDue()
		w.WantNoError(w.blobs.AddPiece(t.Context(), job.Prefix()+"/pieces", 9, []byte("late")))
		w.WantNoError(w.logs.Seal(t.Context(), job))
		w.wantContent(job, "in time, late")
		if l := w.open(job); !l.Settled() {
			t.Error("not all of it is sealed")
		}
	})
}

func TestDelete_OfARunningJobKeepsWhatComesLater(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "secret")
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{0: time.Unix(1, 0), 1: time.Unix(2, 0)}))
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.wantContent(job, "")
		if n := w.keys(job); n != 0 {
			t.Errorf("there are %d objects of the deleted log", n)
		}
		w.add(job, 0, "secret") // again, because the response was lost
		w.add(job, 3, "ret, more")
		w.wantContent(job, ", more")
		w.add(job, 12, " and more")
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{1: time.Unix(2, 0), 2: time.Unix(3, 0)}))
		w.wantContent(job, ", more and more")
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.wantContent(job, "")
		w.add(job, 21, "last")
		w.add(job, 4, "et")
		w.end(job)
		w.wantContent(job, "last")
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.wantContent(job, "last")
		if n := w.keys(job); n != 1 {
			t.Errorf("there are %d objects of the sealed log, want its archive", n)
		}
	})
}

func TestDelete_OfARunningJobMovesItsHeaderTimes(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "--- a\n--- b\n")
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{0: time.Unix(1, 0), 1: time.Unix(2, 0)}))
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.add(job, 12, "--- c\n")
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{1: time.Unix(2, 0), 2: time.Unix(3, 0)}))
		if times := w.open(job).HeaderTimes; len(times) != 1 || times[0] != time.Unix(3, 0).UnixNano() {
			t.Errorf("header times are %v", times)
		}
	})
}

func TestDelete_OfAnEndedJobDropsWhatFollows(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "secret")
		w.end(job)
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.add(job, 6, "late")
		w.Clock.Advance(time.Minute)
		w.runDue()
		w.wantContent(job, "")
		if n := w.keys(job); n != 0 {
			t.Errorf("there are %d objects of the log", n)
		}
		w.WantNoError(w.logs.Delete(t.Context(), job))
	})
}

func TestDelete_RemovesASealedLog(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "secret")
		w.end(job)
		w.runDue()
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.wantContent(job, "")
		if n := w.keys(job); n != 0 {
			t.Errorf("there are %d objects of the log", n)
		}
	})
}

// Of a log that is too large, the beginning and the end are stored, and never much more.
func TestAppend_KeepsHeadAndTailOfALogThatIsTooLarge(t *testing.T) {
	const mib = 1 << 20
	eachStore(t, func(t *testing.T, w *fixture) {
		w.logs.SetLimits(2*mib, mib)
		job := w.run()
		content := strings.Repeat("0123456789abcdef", 12*mib/16)
		const size = 700_000
		for at := 0; at < len(content); at += size {
			w.add(job, int64(at), content[at:min(at+size, len(content))])
			if l := w.open(job); l.Size > 2*mib || l.Pieces() > 10 {
				t.Fatalf("a running log has %d bytes in %d pieces", l.Size, l.Pieces())
			}
		}
		w.add(job, 4*mib, "from the middle, too late")
		w.wantContent(job, content[:2*mib])
		w.end(job)
		want := content[:2*mib] + "\r\n[9,437,184 bytes of the log are missing here]\r\n" + content[11*mib:]
		w.wantContent(job, want)
		w.runDue()
		w.wantContent(job, want)
	})
}

// Readers that started before a log was sealed continue in the archive.
func TestCopy_GoesOnAcrossSealing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "one, ")
		w.add(job, 5, "two")
		w.end(job)
		before := w.open(job)
		w.runDue()
		if got := w.part(before, 0, before.Size); got != "one, two" {
			t.Errorf("got %q", got)
		}
		sealed := w.open(job)
		w.add(job, 8, ", three")
		w.Clock.Advance(time.Minute)
		w.runDue()
		if got := w.part(sealed, 0, sealed.Size); got != "one, two" {
			t.Errorf("got %q", got)
		}
		w.WantNoError(w.logs.Delete(t.Context(), job))
		if err := sealed.Copy(t.Context(), &strings.Builder{}, 0, 1); err == nil {
			t.Error("a deleted log is still read")
		}
	})
}
