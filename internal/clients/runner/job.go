package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/logstream"
	"stackyard/internal/clients/runner/redact"
	"stackyard/internal/clients/runner/shell"
)

// A job is one job that is being run.
type job struct {
	w      *worker
	log    *slog.Logger
	api    *api.Client // with the job's token
	spec   *api.Job
	ctx    context.Context // for calls; ends some time after the agent had to stop at once
	cancel *cancellation

	stream   *logstream.Stream
	redactor *redact.Redactor
	sh       *shell.Shell
	temp     string          // a folder for this job alone
	place    *checkout.Place // nil until something is checked out
}

// farewell is how much longer than its processes a job may take to send its log and its result when the
// agent has to stop at once.
const farewell = 20 * time.Second

// runJob runs a job and reports how it ended.
func (w *worker) runJob(ctx context.Context, spec *api.Job) {
	token := spec.Token
	if token == "" {
		token = w.session.AccessToken
	}
	j := &job{w: w, log: w.log.With("job", spec.ID), api: w.api.As(token), spec: spec, cancel: newCancellation(w.o.CancelGrace)}
	var forget context.CancelFunc
	j.ctx, forget = outlive(ctx, w.o.CancelGrace+farewell)
	defer forget()

	if err := j.api.Start(j.ctx, spec.ID, time.Now()); err != nil {
		// The server has settled it otherwise, or will when nothing more is heard about it.
		j.log.Warn("start job failed", "error", err)
		return
	}
	j.log.Info("job started")
	j.openLog()
	end := j.watch(ctx)
	outcome := j.execute()
	end()
	j.redactor.Flush()
	result := outcome.result()
	result.FailedChunks = j.stream.Close()
	if size, most := j.stream.Size(), j.spec.LogMaxSize; most > 0 && size > most {
		j.log.Warn("log exceeds server limit", "size", size, "most", most)
	}
	result.LastJob = w.o.DisconnectAfterJob || w.o.AcquireJob != "" || w.drain.Err() != nil
	if err := j.api.Finish(j.ctx, spec.ID, result); err != nil {
		j.log.Error("finish job failed", "error", err)
		return
	}
	j.log.Info("job finished", "exit_status", result.ExitStatus, "signal", result.Signal, "reason", result.SignalReason)
}

// outlive returns a context that ends some time after another.
func outlive(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		wait(longer, after)
		cancel()
	})
	return longer, func() {
		forget()
		cancel()
	}
}

// openLog makes the way of the log: what is written is redacted, gets times, and is sent in chunks.
func (j *job) openLog() {
	size := j.spec.ChunksMaxSize
	if size < 1 {
		size = 100 << 10
	}
	send := func(c api.Chunk) error {
		err := j.api.SendChunk(j.ctx, j.spec.ID, c)
		if err != nil {
			j.log.Warn("upload log chunk failed", "sequence", c.Sequence, "error", err)
		}
		return err
	}
	j.stream = logstream.New(send, size, seconds(j.spec.ChunksInterval, 1))
	j.redactor = redact.New(logstream.NewStamper(j.stream, time.Now))
	j.sh = &shell.Shell{Log: j.redactor, Stop: j.cancel.stop(), User: j.w.o.JobUser}
}

// watch cancels the job when the server or the agent wants it to end. The function that it returns ends the watch.
func (j *job) watch(ctx context.Context) (end func()) {
	watching, end := context.WithCancel(ctx)
	context.AfterFunc(watching, func() {
		if ctx.Err() != nil {
			j.cancel.request(agentStop, false)
		}
	})
	go j.poll(watching)
	return end
}

// execute runs the job in folders of its own.
func (j *job) execute() outcome {
	temp, err := os.MkdirTemp("", "stackyard-job-")
	if err != nil {
		return j.broken(fmt.Errorf("make a folder for the job: %w", err))
	}
	defer func() {
		if err := os.RemoveAll(temp); err != nil {
			j.log.Warn("remove job directory failed", "error", err)
		}
	}()
	j.temp = temp
	if err := j.setUp(); err != nil {
		return j.broken(err)
	}
	defer j.leavePlace()
	return j.run()
}

func (j *job) leavePlace() {
	if j.place != nil {
		j.place.Release()
	}
}

// An outcome is how a job ended.
type outcome struct {
	status int
	signal string
	reason string
}

// The reasons why a job ended that did not end by itself.
const (
	canceled          = "cancel"
	agentStop         = "agent_stop"
	agentRefused      = "agent_refused"
	signatureRejected = "signature_rejected"
	processRunError   = "process_run_error"
)

func (o outcome) result() api.Result {
	return api.Result{ExitStatus: strconv.Itoa(o.status), Signal: o.signal, SignalReason: o.reason, FinishedAt: time.Now().UTC()}
}

// broken shows why a job could not even begin.
func (j *job) broken(err error) outcome {
	j.sh.Error("The job cannot be run: %v", err)
	return outcome{status: -1, reason: processRunError}
}
