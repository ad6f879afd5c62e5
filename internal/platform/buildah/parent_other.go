//go:build !linux

package buildah

import "syscall"

// DieWithParent does nothing: only Linux can. There are no containers elsewhere.
func DieWithParent(*syscall.SysProcAttr) {}
