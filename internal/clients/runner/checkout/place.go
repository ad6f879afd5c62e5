package checkout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A Place is a folder that one job at a time uses, on this machine and whoever runs agents there. What a
// job leaves in it serves the next job of the same pipeline.
type Place struct {
	Dir  string
	lock *os.File
}

// mostPlaces bounds the search for a place that nobody uses.
const mostPlaces = 10_000

// Claim returns a place for the jobs of a pipeline: the first of PIPELINE, PIPELINE-2, PIPELINE-3 and so
// on that nobody uses.
func Claim(buildPath, organization, pipeline string) (*Place, error) {
	base := filepath.Join(buildPath, folder(organization), folder(pipeline))
	if err := os.MkdirAll(filepath.Dir(base), 0o777); err != nil {
		return nil, err
	}
	for n := 1; n <= mostPlaces; n++ {
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
			return &Place{Dir: dir, lock: lock}, nil
		}
		lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("all %d places of %s are in use", mostPlaces, base)
}

// Release lets others use the place. Should the agent die, the kernel does it.
func (p *Place) Release() error { return p.lock.Close() }

// folder makes the name of one folder of a slug, whatever the server sent.
func folder(slug string) string {
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
