package handoff

import "golang.org/x/sys/unix"

// Protect keeps other processes of the same user from reading the memory, the environment and the open files of
// this one, and from attaching to it. Processes with CAP_SYS_PTRACE, for example of root, still can.
func Protect() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
