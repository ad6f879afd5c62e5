package account

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// fail makes failed sign-ins without the work of checking a password.
func (s *fixture) fail(times int, email, address string) (refused error) {
	s.t.Helper()
	for range times {
		_, err := s.beginAttempt(s.t.Context(), email, Origin{Address: netip.MustParseAddr(address)})
		if core.KindOf(err) == core.RateLimited {
			return err
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return nil
}

func (s *fixture) wantFailures(times int, email, address string) {
	s.t.Helper()
	if err := s.fail(times, email, address); err != nil {
		s.t.Errorf("%d failures of %s at %s: %v", times, email, address, err)
	}
}

func (s *fixture) wantRefused(email, address string) {
	s.t.Helper()
	if err := s.fail(1, email, address); err == nil {
		s.t.Errorf("another attempt of %s at %s was let through", email, address)
	}
}

func TestAttempts_OfOneAccountAtOneAddressAreFew(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		s.wantFailures(maxPerAddressAndAccount, "ada@acme.test", "192.0.2.7")
		s.now = s.now.Add(90 * time.Second)
		_, err := s.SignIn(t.Context(), s.ada.Email, password, home, "")
		wantKind(t, err, core.RateLimited, "Try again in 14 minutes")
		if e, _ := errors.AsType[*core.Error](err); e.RetryAfter != 13*60+30 {
			t.Errorf("Retry-After %d", e.RetryAfter)
		}
		s.wantFailures(1, "ada@acme.test", "192.0.2.8")
		s.wantFailures(1, "bo@acme.test", "192.0.2.7")
		s.now = s.now.Add(attemptWindow)
		s.signIn("")
	})
}

func TestAttempts_OfOneAddressAreMoreAndOfOneAccountMost(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		for i := range maxPerAddress {
			s.wantFailures(1, fmt.Sprintf("user%d@acme.test", i), "192.0.2.7")
		}
		s.wantRefused("another@acme.test", "192.0.2.7")
		for i := range maxPerAccount {
			s.wantFailures(1, "ada@acme.test", fmt.Sprintf("198.51.100.%d", i))
		}
		s.wantRefused("ada@acme.test", "203.0.113.1")
	})
}

func TestAttempts_CountAnIPv6NetworkAsOneAddress(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		for i := range maxPerAddressAndAccount {
			s.wantFailures(1, "ada@acme.test", fmt.Sprintf("2001:db8::%x", i+1))
		}
		s.wantRefused("ada@acme.test", "2001:db8::ffff")
		s.wantFailures(1, "ada@acme.test", "2001:db8:0:1::1")
	})
}

func TestAttempts_ThatSucceedAreNotCounted(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		s.wantFailures(maxPerAddressAndAccount-1, s.ada.Email, "192.0.2.7")
		s.signIn("")
		s.wantFailures(maxPerAddressAndAccount, s.ada.Email, "192.0.2.7")
		s.wantRefused(s.ada.Email, "192.0.2.7")
	})
}

func TestAttempts_AtTheSameTimeAreCountedBeforeTheyAreTried(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		var let atomic.Int32
		var guessing sync.WaitGroup
		for range 3 * maxPerAddressAndAccount {
			guessing.Go(func() {
				if _, err := s.beginAttempt(t.Context(), "ada@acme.test", home); err == nil {
					let.Add(1)
				}
			})
		}
		guessing.Wait()
		if let.Load() != maxPerAddressAndAccount {
			t.Errorf("%d were let through, want %d", let.Load(), maxPerAddressAndAccount)
		}
	})
}

func TestAttempts_AreForgotten(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		s.wantFailures(3, "ada@acme.test", "192.0.2.7")
		s.now = s.now.Add(attemptWindow)
		s.wantFailures(1, "bo@acme.test", "192.0.2.8")
		var kept int
		s.write(func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM tries`).Scan(&kept) })
		if kept != 3 {
			t.Errorf("%d rows are kept, want the 3 of the latest attempt", kept)
		}
	})
}
