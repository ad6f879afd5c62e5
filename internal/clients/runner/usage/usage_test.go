package usage

import (
	"os/exec"
	"testing"

	"stackyard/internal/clients/runner/cgroup"
)

func TestCounter_AddsWhatProcessesUsed(t *testing.T) {
	var c Counter
	c.Add(nil)
	for range 2 {
		cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		c.Add(cmd.ProcessState)
	}
	none := cgroup.Usage{UserMicros: -1, SystemMicros: -1, PeakMemory: -1, ReadBytes: -1, WrittenBytes: -1}
	r := c.Report(none, nil)
	if r.Source != "rusage" || *r.CPUUserMicroseconds+*r.CPUSystemMicroseconds < 1 || *r.PeakMemoryBytes < 100<<10 || r.NetworkSentBytes != nil {
		t.Errorf("got %+v", r)
	}
	r = c.Report(cgroup.Usage{UserMicros: 7, SystemMicros: 8, PeakMemory: -1, ReadBytes: -1, WrittenBytes: 9}, ReadNetwork())
	if r.Source != "cgroup" || *r.CPUUserMicroseconds != 7 || *r.DiskWrittenBytes != 9 || *r.PeakMemoryBytes < 100<<10 {
		t.Errorf("got %+v", r)
	}
}

func TestParseNetwork(t *testing.T) {
	const text = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100  1 0 0 0 0 0 0  100 1 0 0 0 0 0 0
  eth0: 5000 10 0 0 0 0 0 0  700 8 0 0 0 0 0 0
  eth1:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0
`
	if n := parseNetwork(text); *n != (Network{5001, 702}) {
		t.Errorf("got %+v", n)
	}
}
