package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/logstream"
	"stackyard/internal/clients/runner/redact"
	"stackyard/internal/clients/runner/shell"
	"stackyard/internal/clients/runner/usage"
	"stackyard/internal/clients/sleep"
)

// A job is a job that is running.
type job struct {
	w      *worker
	log    *slog.Logger
	api    *api.Client // uses the job's token
	spec   *api.Job
	ctx    context.Context // for calls; ends some time after the agent was stopped
	cancel *cancellation

	stream     *logstream.Stream
	redactor   *redact.Redactor
	sh         *shell.Shell
	temp       string              // directory of this job
	workspace  *checkout.Workspace // nil before the checkout
	plugins    []*loadedPlugin
	network    *usage.Network        // of the machine when the job began; nil: not known
	verified   bool                  // the signature of the step is good
	repository string                // as the server sent it
	place      atomic.Pointer[place] // of remote sessions
}

// reportTimeout is how long a job may take to send its log and result after its processes ended, if the agent
// was stopped.
const reportTimeout = 20 * time.Second

// runJob runs a job and reports its result.
func (w *worker) runJob(ctx context.Context, spec *api.Job) {
	token := spec.Token
	if token == "" {
		token = w.session.AccessToken
	}
	j := &job{w: w, log: w.log.With("job", spec.ID), api: w.api.As(token), spec: spec, cancel: newCancellation(w.o.CancelGrace)}
	var forget context.CancelFunc
	j.ctx, forget = extend(ctx, w.o.CancelGrace+reportTimeout)
	defer forget()

	if err := j.api.Start(j.ctx, spec.ID, time.Now()); err != nil {
		// The server has ended the job, or will when it receives no reports.
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

// extend returns a context that ends some time after ctx.
func extend(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		sleep.For(longer, after)
		cancel()
	})
	return longer, func() {
		forget()
		cancel()
	}
}

// openLog connects the log: output is redacted, timestamped, and sent in chunks.
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
	j.sh = &shell.Shell{Log: j.redactor, Stop: j.cancel.stop(), User: j.w.o.JobUser, Usage: &usage.Counter{}}
}

// watch cancels the job when the server or the agent stops it. Call end to stop watching.
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

// execute runs the job in its own directories.
func (j *job) execute() outcome {
	temp, err := os.MkdirTemp("", "stackyard-job-")
	if err != nil {
		return j.broken(fmt.Errorf("create job directory: %w", err))
	}
	defer func() {
		if err := os.RemoveAll(temp); err != nil {
			j.log.Warn("remove job directory failed", "error", err)
		}
	}()
	j.temp = temp
	if notice := j.w.o.Notice; notice != "" {
		j.sh.Section(shell.Muted, notice)
	}
	if err := j.setUp(); err != nil {
		return j.broken(err)
	}
	defer j.endProcesses()
	if err := j.isolate(); err != nil {
		return j.broken(err)
	}
	defer j.releaseWorkspace()
	j.markPlace()
	defer j.serveSessions()()
	return j.run()
}

func (j *job) releaseWorkspace() {
	if j.workspace != nil {
		j.workspace.Release()
	}
}

// An outcome is how a job ended.
type outcome struct {
	status int
	signal string
	reason string
}

// The reasons why a job was stopped.
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

// broken logs why a job could not start.
func (j *job) broken(err error) outcome {
	j.sh.Error("The job cannot be run: %v", err)
	return outcome{status: -1, reason: processRunError}
}
