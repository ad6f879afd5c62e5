package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillMarked kills the processes that have a variable, which they inherited: NAME=value. Where there is no /proc, it
// finds none.
func KillMarked(marker string) {
	if marker == "" {
		return
	}
	for range 3 { // a process can fork while others are killed
		found := false
		each(func(pid int, dir string) {
			environ, err := os.ReadFile(filepath.Join(dir, "environ"))
			if err != nil || pid == os.Getpid() {
				return
			}
			for variable := range bytes.SplitSeq(environ, []byte{0}) {
				if string(variable) == marker {
					found = true
					syscall.Kill(pid, syscall.SIGKILL)
					return
				}
			}
		})
		if !found {
			return
		}
	}
}

// KillSession kills the processes of a login session: an interactive shell puts each command into a process group of
// its own. Where there is no /proc, only the process and its group are killed; the others get SIGHUP with the terminal.
func KillSession(leader int) {
	syscall.Kill(-leader, syscall.SIGKILL)
	each(func(pid int, dir string) {
		if fields := stat(dir); len(fields) > 3 && fields[3] == strconv.Itoa(leader) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// Children returns the children of a process, also those that have ended and were not waited for. Where there is no
// /proc, it finds none.
func Children(parent int) (pids []int) {
	each(func(pid int, dir string) {
		if fields := stat(dir); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	})
	return pids
}

// stat returns what the kernel says of a process: state, parent, group, session and more.
func stat(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	// The name in parentheses, which comes before, can contain anything.
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func each(do func(pid int, dir string)) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			do(pid, dir)
		}
	}
}
