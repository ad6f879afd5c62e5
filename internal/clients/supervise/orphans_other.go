//go:build !linux

package supervise

import "syscall"

// adoptOrphans does nothing: only Linux can. Daemons that left the session of the agent are not found.
func adoptOrphans() error { return nil }

// dieWithParent does nothing: only Linux can.
func dieWithParent(*syscall.SysProcAttr) {}
