package commits

import (
	"errors"
	"net/url"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/gitremote"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/sourcehost"
)

const (
	pauseAfterFailure = time.Minute
	maxFailures       = 1000 // repositories and hosts that are remembered
)

// failures remembers which repositories and hosts could not be asked, so that builds of them cost nothing for a while.
type failures struct {
	clock core.Clock
	until *lru.Cache[string, time.Time]
}

func newFailures(clock core.Clock) *failures {
	return &failures{clock: clock, until: lru.New[string, time.Time](maxFailures)}
}

// add notes why a repository could not be asked. A host that does not answer is not asked for its other repositories
// either. A branch that does not exist is no failure.
func (f *failures) add(repository string, err error) {
	if errors.Is(err, gitremote.ErrNotFound) {
		return
	}
	key := repository
	if _, network := errors.AsType[*url.Error](err); network {
		key = hostOf(repository)
	}
	f.until.Add(key, f.clock().Add(pauseAfterFailure))
}

// addSlow notes that the host of a repository did not answer soon.
func (f *failures) addSlow(repository string) {
	f.until.Add(slowKey(repository), f.clock().Add(pauseAfterFailure))
}

// slow reports whether new builds should not wait for the host of a repository now.
func (f *failures) slow(repository string) bool { return f.has(slowKey(repository)) }

func slowKey(repository string) string { return "slow " + hostOf(repository) }

// paused reports whether a repository should not be asked now.
func (f *failures) paused(repository string) bool {
	return f.has(repository) || f.has(hostOf(repository))
}

func (f *failures) has(key string) bool {
	until, ok := f.until.Get(key)
	return ok && f.clock().Before(until)
}

// hostOf returns the host of a repository with its port.
func hostOf(repository string) string {
	address, _ := sourcehost.HTTPURL(repository)
	u, err := url.Parse(address)
	if err != nil {
		return repository
	}
	return u.Host
}
