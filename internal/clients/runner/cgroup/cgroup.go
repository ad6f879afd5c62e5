// Package cgroup puts the processes of a job into a control group of version 2: it limits what they use, counts it,
// and kills all of them, also those that left their session or cleared their variables.
//
// It works on Linux, where the agent may create groups below its own: as root, or in a group that was delegated to it
// (Delegate=yes in a unit of systemd). Elsewhere New returns ErrUnsupported.
package cgroup

import "errors"

// ErrUnsupported means that the agent cannot create groups here.
var ErrUnsupported = errors.New("control groups (version 2) are not available to the agent")

// Limits are the limits of a job. 0 means none.
type Limits struct {
	Memory int64   // bytes
	CPUs   float64 // how many
	Tasks  int     // processes and threads
}

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l != Limits{} }

// Usage is what a group has used. A value that is not counted is -1.
type Usage struct {
	UserMicros, SystemMicros int64 // CPU time
	PeakMemory               int64 // bytes
	ReadBytes, WrittenBytes  int64 // from and to disks
}
