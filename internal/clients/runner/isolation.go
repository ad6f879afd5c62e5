package runner

import (
	"errors"
	"os"
	"path/filepath"

	"stackyard/internal/clients/runner/cgroup"
	"stackyard/internal/clients/runner/process"
	"stackyard/internal/clients/runner/usage"
)

// runMarker is the variable that identifies the processes of one run of a job.
const runMarker = "STACKYARD_JOB_RUN"

// isolate gives the job a control group, if the agent can create one, and a temporary directory of its own.
func (j *job) isolate() error {
	group, err := cgroup.New(filepath.Base(j.temp), j.w.o.Limits)
	switch {
	case err == nil:
		j.sh.Group = group
	case j.w.o.Limits.Any():
		return err // never run without the limits
	case !errors.Is(err, cgroup.ErrUnsupported):
		j.log.Warn("create control group failed", "error", err)
	}
	if j.w.o.Spawn == 1 { // otherwise the network is shared with other jobs
		j.network = usage.ReadNetwork()
	}
	temp := filepath.Join(j.temp, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	return j.sh.Chown(temp)
}

// endProcesses kills everything that the job left running, and reports what it used.
func (j *job) endProcesses() {
	left := j.sh.Group.Count()
	if err := j.sh.Group.Kill(); err != nil {
		j.log.Warn("kill control group failed", "error", err)
	}
	// Without a group, processes are found by a variable, unless they cleared it. Other jobs may run as the same user.
	process.KillMarked(runMarker + "=" + filepath.Base(j.temp))
	if left > 0 {
		j.sh.Comment("Killed %d processes that the job left running", left)
	}
	report := j.sh.Usage.Report(j.sh.Group.Usage(), j.network)
	if err := j.api.ReportUsage(j.ctx, j.spec.ID, report); err != nil {
		j.log.Debug("report usage failed", "error", err) // servers need not know it
	}
	if err := j.sh.Group.Remove(); err != nil {
		j.log.Warn("remove control group failed", "error", err)
	}
}
