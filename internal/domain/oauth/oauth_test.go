package oauth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// applyYAML applies a list of applications: what was done, or the complaints.
func applyYAML(t *testing.T, d *db.DB, source string) (lines []string, complaints string) {
	t.Helper()
	var specs []Spec
	if err := yaml.Unmarshal([]byte(source), &specs); err != nil {
		t.Fatal(err)
	}
	var found core.Complaints
	var changes core.Changes
	CheckAll(&found, specs)
	if len(found) == 0 {
		err := d.Write(t.Context(), func(q *db.Q) error {
			changes, found = core.Changes{}, nil
			if err := Apply(identity.Applying{Q: q, Now: noon, Changes: &changes, Complaints: &found}, specs); err != nil {
				return err
			}
			return found.Err()
		})
		if err != nil && len(found) == 0 {
			t.Fatal(err)
		}
	}
	var all []string
	for _, c := range found {
		all = append(all, c.Message)
	}
	return changes.Lines, strings.Join(all, "\n")
}

func mustApply(t *testing.T, d *db.DB, source string, want ...string) {
	t.Helper()
	lines, complaints := applyYAML(t, d, source)
	if complaints != "" || !slices.Equal(lines, want) {
		t.Fatalf("did %q with complaints %q, want %q", lines, complaints, want)
	}
}

func byClientID(t *testing.T, d *db.DB, clientID string) (a Application) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) (err error) {
		a, err = ByClientID(q, clientID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ensureBuiltIn(t *testing.T, d *db.DB, now time.Time) {
	t.Helper()
	if err := d.Write(t.Context(), func(q *db.Q) error { return EnsureBuiltIn(q, now) }); err != nil {
		t.Fatal(err)
	}
}

const robot = `
- name: Robot
  id: 0190c0de-0000-7000-8000-000000000009
  client_id: robot
  client_secret: robot-secret
  confidential: true
  token_expires_in: 3600
  refresh_tokens: true
  enabled: false
  scopes: [write_builds, read_builds]
`

func TestApply_MakesWhatTheFileSays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mustApply(t, d, robot, "created oauth_application robot")
		want := Application{
			ID: "0190c0de-0000-7000-8000-000000000009", ClientID: "robot", secretHash: seal.HashToken("robot-secret"), Name: "Robot",
			Confidential: true, TokenExpiresIn: 3600, RefreshTokens: true, Enabled: false,
			Scopes: identity.Scopes{"write_builds", "read_builds"}, CreatedAt: noon,
		}
		if got := byClientID(t, d, "robot"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got\n%+v, want\n%+v", got, want)
		}
		mustApply(t, d, robot)
		mustApply(t, d, `[{client_id: robot}]`)
		mustApply(t, d, `[{client_id: robot, scopes: [read_builds, write_builds]}]`)
	})
}

func TestApply_DefaultsToAPublicEnabledApplicationWithEveryScope(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mustApply(t, d, `[{client_id: tool}]`, "created oauth_application tool")
		got := byClientID(t, d, "tool")
		if got.Name != "tool" || got.Confidential || got.secretHash != "" || got.TokenExpiresIn != 0 || got.RefreshTokens || !got.Enabled || !got.Scopes.Has("read_user") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestApply_ChangesOnlyWhatIsGiven(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mustApply(t, d, robot, "created oauth_application robot")
		mustApply(t, d, `[{client_id: robot, enabled: true, token_expires_in: 0}]`, "changed oauth_application robot")
		got := byClientID(t, d, "robot")
		if !got.Enabled || got.TokenExpiresIn != 0 || got.Name != "Robot" || got.secretHash != seal.HashToken("robot-secret") {
			t.Errorf("got %+v", got)
		}
		mustApply(t, d, `[{client_id: robot, client_secret: another}]`, "changed oauth_application robot")
		if got := byClientID(t, d, "robot"); got.secretHash != seal.HashToken("another") {
			t.Error("the secret was not replaced")
		}
		mustApply(t, d, `[{client_id: robot, confidential: false}]`, "changed oauth_application robot")
		if got := byClientID(t, d, "robot"); got.secretHash != "" || got.Confidential {
			t.Error("a public application kept its secret")
		}
	})
}

func TestApply_GeneratesTheSecretOfAConfidentialApplicationOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		source := `[{client_id: robot, confidential: true}]`
		lines, complaints := applyYAML(t, d, source)
		if complaints != "" || len(lines) != 2 || lines[0] != "created oauth_application robot" {
			t.Fatalf("got %q, %q", lines, complaints)
		}
		secret, ok := strings.CutPrefix(lines[1], "token oauth_application robot ")
		if !ok || byClientID(t, d, "robot").secretHash != seal.HashToken(secret) {
			t.Fatalf("the line is %q", lines[1])
		}
		mustApply(t, d, source)
	})
}

func TestApply_Complains(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"a client id with spaces":  {`[{client_id: my robot}]`, `"my robot" cannot be a client_id`},
		"no client id":             {`[{name: x}]`, `"" cannot be a client_id`},
		"an unknown scope":         {`[{client_id: x, scopes: [read_builds, fly]}]`, `unknown scopes: fly`},
		"an id that is not one":    {`[{client_id: x, id: 7}]`, `"7" is not a UUID`},
		"a blank name":             {`[{client_id: x, name: " "}]`, `a name must have`},
		"two declarations":         {`[{client_id: x, name: X}, {client_id: x, name: X}, {client_id: x, name: Y}]`, `declared differently`},
		"a negative lifetime":      {`[{client_id: x, token_expires_in: -1}]`, `must not be negative`},
		"an endless lifetime":      {`[{client_id: x, token_expires_in: 1000000000000}]`, `nor above`},
		"a redirect over http":     {`[{client_id: x, redirect_uris: ["http://x.test/"]}]`, `must begin with https`},
		"a public secret":          {`[{client_id: x, client_secret: s}]`, `must be confidential`},
		"another application's id": {`[{client_id: x, id: 0190c0de-0000-7000-8000-000000000009}]`, `belongs to another application`},
		"another id":               {`[{client_id: robot, id: 0190c0de-0000-7000-8000-000000000001}]`, `cannot be changed`},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				mustApply(t, d, robot, "created oauth_application robot")
				if _, complaints := applyYAML(t, d, c.source); !strings.Contains(complaints, c.want) {
					t.Errorf("complains %q, want %q", complaints, c.want)
				}
			})
		})
	}
}

func TestEnsureBuiltIn_AddsThePublicClientsOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ensureBuiltIn(t, d, noon)
		for _, clientID := range []string{"stackyard-cli", "5214b230f06b48938ab5"} {
			a := byClientID(t, d, clientID)
			if a.Confidential || a.secretHash != "" || !a.RefreshTokens || !a.Enabled || a.TokenExpiresIn != 0 || !a.Scopes.Has("write_builds") {
				t.Errorf("%s is %+v", clientID, a)
			}
		}
		before := byClientID(t, d, "stackyard-cli")
		mustApply(t, d, `[{client_id: stackyard-cli, name: Ours, enabled: false}]`, "changed oauth_application stackyard-cli")
		ensureBuiltIn(t, d, noon.Add(time.Hour))
		if after := byClientID(t, d, "stackyard-cli"); after.ID != before.ID || after.Name != "Ours" || after.Enabled {
			t.Errorf("the second time changed it to %+v", after)
		}
	})
}

func TestApply_MakesABuiltInApplicationAsEnsureBuiltInWould(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		source := `[{name: Stackyard CLI, client_id: stackyard-cli, confidential: false}]`
		mustApply(t, d, source, "created oauth_application stackyard-cli")
		if a := byClientID(t, d, "stackyard-cli"); !a.RefreshTokens {
			t.Errorf("got %+v", a)
		}
		ensureBuiltIn(t, d, noon)
		mustApply(t, d, source)
	})
}
