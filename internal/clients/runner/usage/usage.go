// Package usage counts what the processes of a job use: CPU time, memory, disk and network.
package usage

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"stackyard/internal/clients/runner/cgroup"
)

// A Report is what a job used. Values that are not known are missing.
type Report struct {
	// Source says what counted: cgroup (all processes), or rusage (processes that ended and were waited for).
	Source                string `json:"source"`
	CPUUserMicroseconds   *int64 `json:"cpu_user_microseconds,omitempty"`
	CPUSystemMicroseconds *int64 `json:"cpu_system_microseconds,omitempty"`
	PeakMemoryBytes       *int64 `json:"peak_memory_bytes,omitempty"`
	DiskReadBytes         *int64 `json:"disk_read_bytes,omitempty"`
	DiskWrittenBytes      *int64 `json:"disk_written_bytes,omitempty"`
	NetworkReceivedBytes  *int64 `json:"network_received_bytes,omitempty"`
	NetworkSentBytes      *int64 `json:"network_sent_bytes,omitempty"`
}

// A Counter adds up what processes used. The zero Counter is ready.
type Counter struct {
	mu           sync.Mutex
	user, system int64 // microseconds
	peak         int64 // bytes
	read, wrote  int64 // bytes
}

// The units of what the kernel reports.
const (
	blockSize = 512
	rssUnit   = 1024
)

// Add adds a process that has ended, with those that it waited for.
func (c *Counter) Add(state *os.ProcessState) {
	if state == nil {
		return
	}
	used, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.user += used.Utime.Nano() / 1000
	c.system += used.Stime.Nano() / 1000
	peak := int64(used.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= rssUnit
	}
	c.peak = max(c.peak, peak)
	c.read += int64(used.Inblock) * blockSize
	c.wrote += int64(used.Oublock) * blockSize
}

// Report returns what was used: as the group counted it, else as this Counter did. The network is the machine's since
// before; nil if other jobs ran at the same time.
func (c *Counter) Report(group cgroup.Usage, before *Network) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{Source: "rusage"}
	if group.UserMicros >= 0 {
		r.Source = "cgroup"
	}
	pick := func(counted, added int64) *int64 {
		if counted >= 0 {
			return &counted
		}
		return &added
	}
	r.CPUUserMicroseconds = pick(group.UserMicros, c.user)
	r.CPUSystemMicroseconds = pick(group.SystemMicros, c.system)
	r.PeakMemoryBytes = pick(group.PeakMemory, c.peak)
	r.DiskReadBytes = pick(group.ReadBytes, c.read)
	r.DiskWrittenBytes = pick(group.WrittenBytes, c.wrote)
	if now := ReadNetwork(); before != nil && now != nil && now.received >= before.received && now.sent >= before.sent {
		received, sent := now.received-before.received, now.sent-before.sent
		r.NetworkReceivedBytes, r.NetworkSentBytes = &received, &sent
	}
	return r
}

// Network is what all interfaces but the loopback have received and sent.
type Network struct{ received, sent int64 }

// ReadNetwork returns the counters of the machine or container that the agent runs in, or nil if they are not known.
func ReadNetwork() *Network {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return nil
	}
	return parseNetwork(string(text))
}

func parseNetwork(text string) *Network {
	var n Network
	for line := range strings.Lines(text) {
		name, counters, found := strings.Cut(line, ":")
		fields := strings.Fields(counters)
		if name = strings.TrimSpace(name); !found || name == "lo" || len(fields) < 9 {
			continue
		}
		received, err1 := strconv.ParseInt(fields[0], 10, 64)
		sent, err2 := strconv.ParseInt(fields[8], 10, 64)
		if err1 != nil || err2 != nil {
			return nil
		}
		n.received += received
		n.sent += sent
	}
	return &n
}
