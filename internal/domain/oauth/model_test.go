package oauth

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/platform/core"
)

// TestModel holds a device's request against a model of it, whatever the device and the person do, in
// whatever order while time passes: the device gets one token, and only after an approval in time; each
// poll gets the right code; a poll that comes too early makes the device wait longer; and its token works until the
// approval is revoked.
func TestModel(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		rapid.Check(t, func(rt *rapid.T) {
			m := &model{fixture: s, state: pending, wait: 5 * time.Second, expires: s.now.Now().Add(600 * time.Second)}
			m.deviceCode, m.userCode = s.ask(s.tool, "")
			rt.Repeat(map[string]func(*rapid.T){
				"":        m.checkToken,
				"poll":    func(t *rapid.T) { m.poll(t, inBody) },
				"search":  func(t *rapid.T) { m.poll(t, inHeader) },
				"approve": m.approve,
				"deny":    m.deny,
				"revoke":  m.revoke,
				"pass":    m.pass,
			})
		})
	})
}

// model knows how a request should stand.
type model struct {
	*fixture
	deviceCode, userCode string
	state                deviceState
	revoked              bool
	expires              time.Time
	token                string // the one that the device got

	wait    time.Duration   // between two polls
	polled  time.Time       // the last poll that counts
	last    string          // the code of the last poll that counts
	pardons credentialPlace // where a repetition of it may have the credentials; "": nowhere
}

func (m *model) expired() bool { return !m.now.Now().Before(m.expires) }

// pass lets time pass, mostly little.
func (m *model) pass(t *rapid.T) {
	ms := rapid.OneOf(rapid.Int64Range(0, 12_000), rapid.Int64Range(0, 300_000)).Draw(t, "milliseconds")
	m.now.Advance(time.Duration(ms) * time.Millisecond)
}

func (m *model) approve(t *rapid.T) {
	err := m.ApproveDevice(m.t.Context(), m.ada, m.userCode, m.acme.ID)
	m.decided(t, err, approved)
}

func (m *model) deny(t *rapid.T) {
	m.decided(t, m.DenyDevice(m.t.Context(), m.ada, m.userCode), denied)
}

// decided checks what came of a decision.
func (m *model) decided(t *rapid.T, err error, to deviceState) {
	var want core.Kind
	switch {
	case m.revoked:
		want = core.NotFound
		m.exec(`DELETE FROM tries`) // which was a guess
	case m.state != pending:
		want = core.Conflict
	case m.expired():
		want = core.Gone
	default:
		m.state = to
	}
	if core.KindOf(err) != want {
		t.Fatalf("the decision came to %v, want an error of kind %d", err, want)
	}
}

// revoke takes back what was approved.
func (m *model) revoke(t *rapid.T) {
	err := m.RevokeApplication(m.t.Context(), m.ada.UserID, m.tool.ID, m.acme.ID)
	if granted := (m.state == approved || m.state == redeemed) && !m.revoked; granted {
		m.revoked = true
	}
	if kind := core.KindOf(err); kind != 0 && kind != core.NotFound {
		t.Fatal(err)
	}
}

func (m *model) poll(t *rapid.T, place credentialPlace) {
	view, err := m.redeemDevice(m.t.Context(), m.tool, m.deviceCode, place)
	code := "token"
	if e, ok := err.(*core.Error); ok {
		code = e.Code
	} else if err != nil {
		t.Fatal(err)
	}
	if want := m.wantCode(place); code != want {
		t.Fatalf("a poll got %s, want %s", code, want)
	}
	if code == "token" {
		m.state, m.token = redeemed, view.AccessToken
	}
}

// wantCode returns the code that a poll should get.
func (m *model) wantCode(place credentialPlace) string {
	switch {
	case m.revoked, m.state == redeemed:
		return "invalid_grant"
	case m.state == denied:
		return "access_denied"
	case m.expired():
		return "expired_token"
	case m.state == approved:
		return "token"
	}
	now := m.now.Now()
	early := !m.polled.IsZero() && now.Sub(m.polled) < m.wait-time.Second
	if early && place == m.pardons {
		m.pardons = ""
		return m.last
	}
	m.polled, m.pardons, m.last = now, inHeader, "authorization_pending"
	if place == inHeader {
		m.pardons = inBody
	}
	if early {
		m.wait += 5 * time.Second
		m.last = "slow_down"
	}
	return m.last
}

// checkToken checks that the token works as long as it should.
func (m *model) checkToken(t *rapid.T) {
	if m.token == "" {
		return
	}
	_, err := m.directory.Authenticate(m.t.Context(), m.token)
	if works := err == nil; works == m.revoked {
		t.Fatalf("the token works: %v, its grant was revoked: %v", works, m.revoked)
	}
}
