package checkout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A Workspace is a directory that one job at a time uses, across all agents on this machine. The next job of
// the same pipeline reuses what a job leaves in it.
type Workspace struct {
	Dir  string
	lock *os.File
}

// maxWorkspaces limits the search for a free workspace.
const maxWorkspaces = 10_000

// Claim returns the first free workspace for a pipeline: PIPELINE, PIPELINE-2, PIPELINE-3 and so on.
func Claim(buildPath, organization, pipeline string) (*Workspace, error) {
	base := filepath.Join(buildPath, dirName(organization), dirName(pipeline))
	if err := os.MkdirAll(filepath.Dir(base), 0o777); err != nil {
		return nil, err
	}
	for n := 1; n <= maxWorkspaces; n++ {
		dir := base
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &Workspace{Dir: dir, lock: lock}, nil
		}
		lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("all %d workspaces of %s are in use", maxWorkspaces, base)
}

// Release frees the workspace. If the agent dies, the kernel does.
func (w *Workspace) Release() error { return w.lock.Close() }

// dirName converts a slug into a safe directory name.
func dirName(slug string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, slug)
	if name == "" {
		return "-"
	}
	return name
}
