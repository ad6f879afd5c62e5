package buildah

import "syscall"

// DieWithParent makes the kernel kill a process when the thread that starts it ends.
func DieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
