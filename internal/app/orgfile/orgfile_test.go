package orgfile

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// whole is a file with every key.
//
//go:embed testdata/whole.yaml
var whole string

func apply(t *testing.T, d *db.DB, key seal.Key, file string) ([]string, error) {
	t.Helper()
	return Apply(t.Context(), d, key, core.SystemClock, []byte(file))
}

func TestApply_TwiceChangesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		key := seal.NewKey()
		lines, err := apply(t, d, key, whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"created organization acme", "created member acme/ada@acme.test", "created access_token ada@acme.test/everything",
			"created team acme/everyone", "created cluster acme/Default", "created queue acme/Default/linux-hosted",
			"created agent_token acme/Default/boot", "created oauth_application robot", "created pipeline acme/hello",
			"created suite acme/unit-tests",
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
			}
		}
		if again, err := apply(t, d, key, whole); err != nil || len(again) != 0 {
			t.Errorf("the second time: %v, %v", again, err)
		}
	})
}

func TestApply_PrintsGeneratedTokensOnceAndTheyWork(t *testing.T) {
	const file = `
organizations:
  - slug: acme
    members:
      - {email: ada@acme.test, role: admin, access_tokens: [{description: laptop, scopes: ["*"]}]}
`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		key := seal.NewKey()
		lines, err := apply(t, d, key, file)
		if err != nil {
			t.Fatal(err)
		}
		const prefix = "token access_token ada@acme.test/laptop "
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, prefix) })
		if i < 0 {
			t.Fatalf("no token in %v", lines)
		}
		token := strings.TrimPrefix(lines[i], prefix)
		caller, err := identity.NewDirectory(d, core.SystemClock).Authenticate(t.Context(), token)
		if err != nil || caller.User.Email != "ada@acme.test" {
			t.Errorf("%+v, %v", caller, err)
		}
		if again, err := apply(t, d, key, file); err != nil || len(again) != 0 {
			t.Errorf("the second time: %v, %v", again, err)
		}
	})
}

func TestApply_ReportsAllProblemsByLineAndAppliesNothing(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"empty", "", "line 1: the file is empty"},
		{"not YAML", "organizations:\n  - slug: [a\n", "line 2: not valid YAML: a list in brackets is still open on this line; \",\" or \"]\" was expected"},
		{"unknown keys", "organizations:\n  - slug: acme\n    nmae: x\n    members:\n      - email: a@b.test\n        rule: admin\n",
			"line 3: unknown key \"nmae\"; known here are clusters, features, id, limits, members, name, oauth_applications, pipelines, slug, source_connections, suites, suspended, teams\n" +
				"line 6: unknown key \"rule\"; known here are access_tokens, email, id, name, password, permissions, role"},
		{"wrong shapes", "organizations:\n  - slug: acme\n    suspended: maybe\n    members: none\n    limits:\n      stacks: many\n",
			"line 3: expected true or false\nline 4: expected a list\nline 6: expected a whole number"},
		{"a key twice", "organizations:\n  - slug: acme\n    name: a\n    name: b\n", `line 4: the key "name" is given twice`},
		{"an alias that contains itself", "organizations: &o\n  - slug: acme\n    members: *o\n", ""},
		{"against the rules", "organizations:\n  - slug: v2\n  - slug: acme\n    members:\n      - email: nobody\n        role: king\n  - slug: acme\n",
			""},
	} {
		dbtest.Each(t, func(t *testing.T, d *db.DB) {
			lines, err := apply(t, d, seal.NewKey(), c.file)
			if err == nil || len(lines) != 0 {
				t.Fatalf("%s: applied: %v", c.name, lines)
			}
			if c.want != "" && err.Error() != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.name, err, c.want)
			}
			if strings.Contains(c.name, "rules") && strings.Count(err.Error(), "\n") != 3 {
				t.Errorf("%s: want four complaints, got\n%s", c.name, err)
			}
			var n int
			if err := d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM organizations`).Scan(&n) }); err != nil || n != 0 {
				t.Errorf("%s: %d organizations, %v", c.name, n, err)
			}
		})
	}
}

// An error that only the database can reveal also rolls everything back.
func TestApply_IsAllOrNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		_, err := apply(t, d, seal.NewKey(), `
organizations:
  - slug: acme
    clusters: [{name: Default, default: true}]
    pipelines:
      - {slug: hello, repository: "https://git.example.test/x.git", cluster: Nowhere, configuration: "steps: [{command: x}]"}
`)
		if err == nil || !strings.Contains(err.Error(), "line 6:") || !strings.Contains(err.Error(), "Nowhere") {
			t.Fatalf("got %v", err)
		}
		if _, err := identity.NewDirectory(d, core.SystemClock).Organization(t.Context(), "acme"); core.KindOf(err) != core.NotFound {
			t.Errorf("the organization: %v, want NotFound", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("organizations: &o [{slug: a, members: *o}]")
	f.Fuzz(func(t *testing.T, source string) {
		begun := time.Now()
		if _, err := parse([]byte(source)); err != nil {
			if complaints, ok := err.(core.Complaints); !ok || len(complaints) == 0 {
				t.Fatalf("%q: %v", source, err)
			}
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}
