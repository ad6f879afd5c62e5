package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Group is a control group. A nil Group does nothing.
type Group struct {
	dir  string
	open *os.File
}

// New creates a group with a name that no other has. It returns ErrUnsupported if there can be none, or none with the limits.
func New(name string, limits Limits) (*Group, error) {
	parent, err := parent()
	if err != nil {
		return nil, err
	}
	g := &Group{dir: filepath.Join(parent, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err := g.limit(limits); err != nil {
		g.Remove()
		return nil, fmt.Errorf("%w with limits: %w", ErrUnsupported, err)
	}
	if g.open, err = os.Open(g.dir); err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// cpuPeriod is the period of CPU limits in microseconds.
const cpuPeriod = 100_000

func (g *Group) limit(l Limits) error {
	var errs []error
	if l.Memory > 0 {
		errs = append(errs, g.write("memory.max", strconv.FormatInt(l.Memory, 10)))
		g.write("memory.swap.max", "0") // there may be no swap
	}
	if l.CPUs > 0 {
		errs = append(errs, g.write("cpu.max", fmt.Sprintf("%d %d", int64(l.CPUs*cpuPeriod), cpuPeriod)))
	}
	if l.Tasks > 0 {
		errs = append(errs, g.write("pids.max", strconv.Itoa(l.Tasks)))
	}
	return errors.Join(errs...)
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}

// Attach makes a new process start in the group.
func (g *Group) Attach(attributes *syscall.SysProcAttr) {
	if g != nil {
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(g.open.Fd())
	}
}

// Usage returns what the processes of the group have used so far.
func (g *Group) Usage() Usage {
	u := Usage{-1, -1, -1, -1, -1}
	if g == nil {
		return u
	}
	for line := range strings.Lines(g.read("cpu.stat")) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "user_usec":
			u.UserMicros = number(value)
		case "system_usec":
			u.SystemMicros = number(value)
		}
	}
	u.PeakMemory = number(strings.TrimSpace(g.read("memory.peak")))
	if stat := g.read("io.stat"); stat != "" {
		u.ReadBytes, u.WrittenBytes = 0, 0
		for _, field := range strings.Fields(stat) {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "rbytes":
				u.ReadBytes += max(number(value), 0)
			case "wbytes":
				u.WrittenBytes += max(number(value), 0)
			}
		}
	}
	return u
}

func (g *Group) read(file string) string {
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return ""
	}
	return string(text)
}

// number parses a count, or returns -1.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Count returns the number of processes in the group and below it.
func (g *Group) Count() int {
	if g == nil {
		return 0
	}
	count := 0
	filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "cgroup.procs" {
			if text, err := os.ReadFile(path); err == nil {
				count += bytes.Count(text, []byte("\n"))
			}
		}
		return nil
	})
	return count
}

// Kill kills all processes of the group and below it.
func (g *Group) Kill() error {
	if g == nil {
		return nil
	}
	return g.write("cgroup.kill", "1")
}

// Remove kills what is left in the group and removes it.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	g.Kill()
	if g.open != nil {
		g.open.Close()
	}
	// The kernel needs a moment to remove killed processes from a group, and reports no end of that.
	var err error
	for range 100 {
		// A job may have made groups below its own.
		filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && path != g.dir {
				os.Remove(path)
			}
			return nil
		})
		if err = os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// parent returns the folder in which groups of jobs are created.
var parent = sync.OnceValues(func() (string, error) {
	own, err := ownGroup()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(own, "cgroup.subtree_control")); err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	enableControllers(own)
	return own, nil
})

// enableControllers lets groups below a group have limits and counts. A group with processes of its own cannot do that,
// so the agent moves into a group below. If it fails, groups of jobs have no limits.
func enableControllers(own string) {
	enable := func() bool {
		ok := true
		for _, controller := range strings.Fields(readFile(filepath.Join(own, "cgroup.controllers"))) {
			switch controller {
			case "cpu", "memory", "pids", "io":
				ok = os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("+"+controller), 0) == nil && ok
			}
		}
		return ok
	}
	if enable() {
		return
	}
	leaf := filepath.Join(own, "stackyard-agent")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	if os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0) == nil {
		enable()
	}
}

func readFile(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// ownGroup returns the folder of the agent's own group.
func ownGroup() (string, error) {
	mount := ""
	for line := range strings.Lines(readFile("/proc/self/mountinfo")) {
		before, after, found := strings.Cut(line, " - ")
		if fields := strings.Fields(before); found && strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			mount = fields[4]
		}
	}
	for line := range strings.Lines(readFile("/proc/self/cgroup")) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && mount != "" {
			return filepath.Join(mount, path), nil
		}
	}
	return "", ErrUnsupported
}
