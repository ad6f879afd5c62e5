package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes processes whose parents have ended children of this process, so that it can find daemons.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// dieWithParent makes the kernel kill a process when this process is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
