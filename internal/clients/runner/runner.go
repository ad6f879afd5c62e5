// Package runner is the agent: it registers with a server, takes jobs, runs them and reports what became
// of them. It is a client like anybody's and imports nothing of the server.
//
// Run starts workers, each an agent of its own in the server's eyes (worker.go). A worker gets orders over
// a stream or by asking (orders.go), says that it is alive, and runs one job at a time (job.go): the
// phases of a job (phases.go) are hooks, a checkout, the command and what follows it. The rooms below:
//
//	api        the calls, and how each is repeated
//	checkout   git
//	environ    variables and their two names
//	shell      commands, shown in the log
//	process    terminals, process groups and signals
//	osuser     users that jobs run as
//	redact     secret values kept out of logs
//	logstream  log chunks
//	artifact   files to and from the server
//	document   pipeline files, for uploads
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"stackyard/internal/clients/runner/osuser"
)

// Options say how to be an agent.
type Options struct {
	Endpoint string // with /v3 at its end
	Token    string // agent token, or job acquisition token
	Version  string

	Name     string // %spawn is the worker's number; the server fills in %hostname, %pid and %random
	Priority string
	Tags     []string // key=value
	Queue    string   // "": what the tags say, else the cluster's default queue
	Spawn    int      // workers

	// AcquireJob is the only job to run, by its id; "" takes what comes.
	AcquireJob          string
	DisconnectAfterJob  bool
	DisconnectAfterIdle time.Duration // 0: never

	BuildPath   string        // where checkouts are
	HooksPath   string        // where the agent's hooks are; "": it has none
	Shell       []string      // what runs commands, which follow as the last argument
	CancelGrace time.Duration // between asking a job to stop and killing it
	GitTimeout  time.Duration // of a checkout; 0: none
	JobUser     *osuser.User  // that jobs run as; nil: that of the agent
	Executable  string        // this program, for commands inside of jobs

	Log *slog.Logger
}

// ErrAcquisitionRefused says that the server will not let the agent run the job it was started for.
var ErrAcquisitionRefused = errors.New("the job cannot be acquired")

// Run is an agent until it is told to disconnect, or drain or ctx is done. When drain is done running jobs
// are finished first; when ctx is done they are cancelled.
func Run(ctx, drain context.Context, o Options) error {
	if err := os.MkdirAll(o.BuildPath, 0o777); err != nil {
		return fmt.Errorf("make the build path: %w", err)
	}
	var workers sync.WaitGroup
	failures := make([]error, o.Spawn)
	for i := range o.Spawn {
		number := i + 1
		workers.Go(func() { failures[i] = newWorker(o, number, drain).run(ctx) })
	}
	workers.Wait()
	return errors.Join(failures...)
}

// ParseTags reads tags: key=value, separated by commas. A key alone is as good as key=true.
func ParseTags(text string) ([]string, error) {
	var tags []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found {
			value = "true"
		}
		if key == "" {
			return nil, fmt.Errorf("%q has no key; write key=value", part)
		}
		tags = append(tags, key+"="+value)
	}
	return tags, nil
}

// tags returns the tags to register with: --queue wins over what they say.
func (o Options) tags() []string {
	tags := []string{}
	for _, tag := range o.Tags {
		if o.Queue == "" || !strings.HasPrefix(tag, "queue=") {
			tags = append(tags, tag)
		}
	}
	if o.Queue != "" {
		tags = append(tags, "queue="+o.Queue)
	}
	return tags
}

// workerName returns the name of one of the workers.
func (o Options) workerName(number int) string {
	return strings.ReplaceAll(o.Name, "%spawn", strconv.Itoa(number))
}
