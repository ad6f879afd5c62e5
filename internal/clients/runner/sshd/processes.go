package sshd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// killSession kills the processes of a login session: an interactive shell puts each command into a process group of
// its own. Where there is no /proc, only the process and its group are killed; the others get SIGHUP with the terminal.
func killSession(leader int) {
	syscall.Kill(-leader, syscall.SIGKILL)
	eachProcess(func(pid int, dir string) {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return
		}
		// The name in parentheses can contain anything; the fields after it are state, parent, group and session.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 3 && fields[3] == strconv.Itoa(leader) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// killMarked kills the processes that have a variable, which they inherited: daemons that left the session.
func killMarked(marker string) {
	if marker == "" {
		return
	}
	for range 3 { // a process can fork while others are killed
		found := false
		eachProcess(func(pid int, dir string) {
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

func eachProcess(do func(pid int, dir string)) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			do(pid, dir)
		}
	}
}
