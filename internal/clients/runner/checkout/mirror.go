package checkout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/clients/runner/shell"
)

// lockPause is how often a lock is tried that another job holds.
const lockPause = 100 * time.Millisecond

// updateMirror creates the machine's mirror of the repository, or fetches what it lacks, and returns its path. One job
// at a time does that; the others wait and then find it up to date.
func (c Checkout) updateMirror(sh *shell.Shell) (path string, err error) {
	path = filepath.Join(c.Mirrors, mirrorName(c.Repository))
	if err := os.MkdirAll(c.Mirrors, 0o777); err != nil {
		return "", err
	}
	unlock, err := lock(sh, path+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(path, "HEAD")); errors.Is(err, fs.ErrNotExist) {
		sh.Comment("Creating the mirror %s", path)
		part := path + ".part"
		if err := os.RemoveAll(part); err != nil { // left by an agent that was killed
			return "", err
		}
		for _, args := range [][]string{
			{"git", "init", "--quiet", "--bare", "--template=", part},
			{"git", "-C", part, "remote", "add", "origin", c.Repository},
		} {
			if err := sh.RunQuietly(args...); err != nil {
				return "", err
			}
		}
		if err := fetchMirror(sh, part); err != nil {
			return "", err
		}
		return path, os.Rename(part, path)
	}
	if pinned(c.Commit) {
		if _, err := sh.Output("git", "-C", path, "cat-file", "-e", c.Commit+"^{commit}"); err == nil {
			sh.Comment("The mirror has commit %s", c.Commit)
			return path, nil
		}
	}
	return path, fetchMirror(sh, path)
}

func fetchMirror(sh *shell.Shell, path string) error {
	return sh.Run("git", "-C", path, "fetch", "-v", "--prune", "origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// mirrorName returns the folder of a repository's mirror.
func mirrorName(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	name := strings.Trim(unsafeName.ReplaceAllString(repository[strings.Index(repository, "@")+1:], "-"), "-.")
	return name[:min(len(name), 80)] + "-" + hex.EncodeToString(sum[:8])
}

// lock waits for a file lock, and returns what releases it. If the agent dies, the kernel does.
func lock(sh *shell.Shell, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case sh.Stopped():
			file.Close()
			return nil, shell.ErrStopped
		case !waited:
			sh.Comment("Another job updates the mirror")
		}
		time.Sleep(lockPause)
	}
}

// cloneWithMirror clones with the objects of the machine's mirror. It fetches from the mirror like from a remote: git
// then computes the hash of each object, so that a job that changed the mirror cannot change what others check out.
func (c Checkout) cloneWithMirror(sh *shell.Shell) error {
	mirror, err := c.updateMirror(sh)
	if err != nil {
		return err
	}
	return c.cloneFrom(sh, mirror, "+refs/heads/*:refs/remotes/"+formerRemote+"/branches/*", "+refs/tags/*:refs/remotes/"+formerRemote+"/tags/*")
}
