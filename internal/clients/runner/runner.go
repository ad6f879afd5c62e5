// Package runner is the agent: it registers with a server, accepts jobs, runs them and reports the results. It
// is an ordinary client and imports nothing of the server.
//
// Run starts workers; the server sees each as an agent (worker.go). A worker receives orders over a stream or
// by polling (orders.go), sends heartbeats, and runs one job at a time (job.go). The phases of a job
// (phases.go) are hooks, checkout, command and cleanup. While it runs, users can open shells in it (sessions.go).
// Sub-packages:
//
//	api        calls and their retries
//	checkout   git
//	environ    variables and their two names
//	shell      commands, shown in the log
//	process    terminals, process groups and signals
//	cgroup     control groups: limits, and the end of all processes
//	usage      what jobs use
//	osuser     users that jobs run as
//	redact     removes secrets from logs
//	logstream  log chunks
//	artifact   uploads and downloads files
//	document   pipeline files, for uploads
//	signing    signatures of steps
//	container  images of steps
//	sshd       shells that users open in jobs
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

	"stackyard/internal/clients/runner/cgroup"
	"stackyard/internal/clients/runner/container"
	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/clients/runner/plugin"
	"stackyard/internal/clients/runner/podexec"
	"stackyard/internal/clients/runner/shell"
	"stackyard/internal/clients/runner/signing"
	"stackyard/internal/platform/rfb"
)

// Options configure an agent.
type Options struct {
	Endpoint string // ends with /v3
	Token    string // agent token or job acquisition token
	Version  string

	Name     string // %spawn is the worker's number; the server replaces %hostname, %pid and %random
	Priority string
	Tags     []string // key=value
	Queue    string   // "": what the tags say, else the cluster's default queue
	Spawn    int      // number of workers

	// AcquireJob is the id of the only job to run; "" accepts any job.
	AcquireJob          string
	DisconnectAfterJob  bool
	DisconnectAfterIdle time.Duration // 0: never

	BuildPath      string             // directory of checkouts
	PluginsPath    string             // where checkouts of plugins are kept; "": each job has its own
	PluginsLock    plugin.Lock        // the plugins that may run, with their checksums; nil: all
	PluginsOffline bool               // fetch no plugins: they are in PluginsPath, or folders of the machine
	NoPlugins      bool               // refuse steps with plugins
	WorkDir        string             // where jobs run instead of a checkout; "": they check out
	HooksPath      string             // where the agent's hooks are; "": it has none
	Shell          []string           // runs commands, which are appended as the last argument
	CancelGrace    time.Duration      // between SIGTERM and SIGKILL
	GitMirrors     string             // directory of mirrors that jobs share; "": none
	GitTimeout     time.Duration      // of a checkout; 0: none
	JobUser        *osuser.User       // nil: run jobs as the agent's user
	Executable     string             // this program, for commands in jobs
	DebugTime      time.Duration      // how long a failed job is kept for debugging, if a user wants it; 0: 30 minutes
	VNC            rfb.Server         // the desktop of this machine; its address is "" if there is none
	Limits         cgroup.Limits      // of each job
	Containers     *container.Runtime // runs the images of steps; nil: there is none
	Images         ImagePolicy
	SigningKey     signing.Key  // signs pipelines that jobs upload; nil: they are not signed
	VerifyKeys     signing.Keys // verify the signatures of jobs; nil: the agent refuses signed jobs
	AllowNoSign    bool         // with VerifyKeys: run jobs without a signature, with a warning
	Notice         string       // shown at the start of each job's log; "": none

	// CommandSocket is where another container of the pod runs the commands of jobs; "": they run here.
	CommandSocket string

	Log *slog.Logger
}

// ErrAcquisitionRefused means that the server does not let the agent run AcquireJob.
var ErrAcquisitionRefused = errors.New("the job cannot be acquired")

// Run runs an agent until the server disconnects it, or drain or ctx is done. When drain is done, running jobs
// finish first. When ctx is done, they are canceled.
func Run(ctx, drain context.Context, o Options) error {
	if err := os.MkdirAll(o.BuildPath, 0o777); err != nil {
		return fmt.Errorf("create build path: %w", err)
	}
	var commands shell.Executor
	if o.CommandSocket != "" {
		// Wait for the other container before taking a job: until then the stack can explain why it does not start.
		conn, err := podexec.Dial(drain, o.CommandSocket)
		if err != nil {
			return err
		}
		defer conn.Close()
		commands = conn
	}
	var workers sync.WaitGroup
	failures := make([]error, o.Spawn)
	for i := range o.Spawn {
		number := i + 1
		workers.Go(func() { failures[i] = newWorker(o, number, drain, commands).run(ctx) })
	}
	workers.Wait()
	return errors.Join(failures...)
}

// ParseTags parses comma-separated key=value tags. A key alone means key=true.
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

// tags returns the tags to register with. Queue overrides a queue tag. A tag says that the machine has a desktop.
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
	if o.VNC.Address != "" {
		tags = append(tags, "vnc=true")
	}
	return tags
}

func (o Options) workerName(number int) string {
	return strings.ReplaceAll(o.Name, "%spawn", strconv.Itoa(number))
}
