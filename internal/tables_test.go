package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// owners maps every table of the migrations to the package that owns it, together with the packages in its folder. SQL that names a table belongs into its
// package; other packages call functions of that package.
var owners = map[string]string{
	"identity_epoch": "identity",
	"organizations":  "identity",

	"rate_shares":  "limits",
	"rate_windows": "limits",
	"tries":        "limits",

	"tasks": "tasks",

	"audit_events": "audit",

	"certificates": "autotls",
	"stored_bytes": "usage",
	"usage_days":   "usage",

	"reconciliations": "reconcile",

	"installation": "server",

	"access_token_organizations": "account",
	"access_tokens":              "account",
	"sessions":                   "account",
	"users":                      "account",
	"sign_in_links":              "account",
	"setup_links":                "account",

	"oauth_applications":        "oauth",
	"oauth_authorization_codes": "oauth",
	"oauth_device_requests":     "oauth",
	"oauth_grants":              "oauth",
	"oauth_refresh_tokens":      "oauth",

	"invitations":    "organizations",
	"memberships":    "organizations",
	"team_members":   "organizations",
	"team_pipelines": "organizations",
	"teams":          "organizations",

	"agent_tokens":        "clusters",
	"cluster_maintainers": "clusters",
	"cluster_secrets":     "clusters",
	"clusters":            "clusters",
	"queue_polls":         "clusters",
	"queues":              "clusters",

	"notification_services": "notifications",

	"pipeline_settings": "settings",

	"pipeline_counts":    "pipelines",
	"pipeline_favorites": "pipelines",
	"pipeline_templates": "pipelines",
	"pipelines":          "pipelines",

	"source_connection_tokens": "connections",
	"source_connections":       "connections",

	"commit_statuses": "statuses",

	"build_exports": "buildexports",

	"queue_waits": "queuemetrics",

	"schedules": "schedules",

	"machines": "machines",

	"agent_image_builds": "agentimages",
	"agent_image_logs":   "agentimages",
	"agent_images":       "agentimages",

	"suites":      "suites",
	"team_suites": "suites",

	"pipeline_suites":  "testresults",
	"test_day_changes": "testresults",
	"test_days":        "testresults",
	"test_labels":      "testresults",
	"test_executions":  "testresults",
	"test_flakes":      "testresults",
	"test_runs":        "testresults",
	"test_uploads":     "testresults",
	"tests":            "testresults",

	"rule_sets": "dispatch",
	"runnable":  "dispatch",

	"annotations":       "annotations",
	"artifacts":         "artifacts",
	"cache_blobs":       "caches",
	"cache_entries":     "caches",
	"cache_entry_blobs": "caches",
	"build_details":     "builds",
	"build_meta_data":   "metadata",
	"build_numbers":     "builds",
	"builds":            "builds",
	"job_details":       "builds",
	"job_milestones":    "timeline",
	"job_usage":         "jobusage",
	"jobs":              "builds",
	"rules":             "clusterrules",
	"step_dependencies": "builds",
	"step_details":      "builds",
	"step_updates":      "builds",
	"build_notify":      "builds",
	"step_uploads":      "builds",
	"steps":             "builds",

	"deliveries":        "delivery",
	"delivery_failures": "delivery",

	"event_cursors":       "events",
	"event_wants":         "events",
	"event_wants_version": "events",
	"events":              "events",

	"webhook_deliveries": "hooks",

	"job_logs":    "joblog",
	"log_removal": "joblog",
	"log_pieces":  "joblog",

	"agent_presence": "agents",
	"agents":         "agents",

	"oidc_keys": "oidc",

	"remote_sessions": "remoteaccess",

	"stack_notifications": "stacks",
	"stacks":              "stacks",
}

// access is what a package does with a table of another one.
type access string

const (
	reads  access = "reads"
	writes access = "writes" // and may read
)

// An exception lets a package name tables of others.
type exception struct {
	pkg    string
	access access
	tables []string
}

// exceptions are the packages whose SQL names tables of others, by reason.
var exceptions = map[string][]exception{
	"the directory loads what a caller may do with one query, below the packages that own it": {
		{"identity", reads, []string{"access_token_organizations", "access_tokens", "agent_tokens", "clusters", "memberships", "oauth_applications", "oauth_grants", "team_members", "teams", "users"}},
	},
	"views name the person who created or changed something; a join saves a query per row": {
		{"agents", reads, []string{"users"}},
		{"builds", reads, []string{"users"}},
		{"clusterrules", reads, []string{"users"}},
		{"clusters", reads, []string{"users"}},
		{"notifications", reads, []string{"users"}},
		{"pipelines", reads, []string{"users"}},
		{"schedules", reads, []string{"users"}},
		{"settings", reads, []string{"users"}},
	},
	"a pipeline shows the provider of its host, which a connection declares": {
		{"pipelines", reads, []string{"source_connections"}},
	},
	"access is a condition of the query that lists, so that pages are full": {
		{"builds", reads, []string{"memberships", "team_members", "teams"}},
		{"clusters", reads, []string{"memberships", "team_members", "teams"}},
		{"pipelines", reads, []string{"memberships", "team_members", "team_pipelines", "teams"}},
		{"organizations", reads, []string{"pipelines"}},
	},
	"accounts, members and grants are parts of one identity": {
		{"account", reads, []string{"memberships", "organizations"}},
		{"oauth", reads, []string{"access_tokens", "memberships", "organizations"}},
		{"organizations", reads, []string{"organizations", "users"}},
	},
	"clusters and settings lock their organization": {
		{"clusters", reads, []string{"organizations", "pipelines"}},
		{"settings", reads, []string{"clusters", "organizations"}},
	},
	"milestones are recorded with one statement, of jobs that exist": {
		{"timeline", reads, []string{"jobs"}},
	},
	"jobs are found, ordered and shown together with their builds, queues and pipelines": {
		{"agents", reads, []string{"agent_tokens", "clusters"}},
		{"artifacts", reads, []string{"builds", "jobs", "step_details", "steps"}},
		{"builds", reads, []string{"annotations", "artifacts", "clusters", "pipelines", "queues", "runnable"}},
		{"clusterrules", reads, []string{"pipelines"}},
		{"dispatch", reads, []string{"clusters", "queues"}},
		{"joblog", reads, []string{"jobs"}},
	},
}

func TestTables_AreNamedByTheirOwnersOnly(t *testing.T) {
	tables := migratedTables(t)
	for table := range owners {
		if !tables[table] {
			t.Errorf("owners has %s, which no migration creates", table)
		}
	}
	for table := range tables {
		if owners[table] == "" {
			t.Errorf("owners lacks the table %s", table)
		}
	}
	excepted := map[[2]string]access{}
	for _, list := range exceptions {
		for _, e := range list {
			for _, table := range e.tables {
				excepted[[2]string{e.pkg, table}] = e.access
			}
		}
	}
	found := map[[2]string]access{}
	for path := range goFiles(t) {
		pkg := strings.Split(filepath.ToSlash(path), "/")[1]
		for _, use := range tablesOf(t, path, tables) {
			if owners[use.table] == pkg {
				continue
			}
			key := [2]string{pkg, use.table}
			if found[key] != writes {
				found[key] = use.access
			}
			if known := excepted[key]; known == "" || known == reads && use.access == writes {
				t.Errorf("%s: %s %s %s, which belongs to %s: call a function of that package instead", use.position, pkg, use.access, use.table, owners[use.table])
			}
		}
	}
	for key, access := range excepted {
		if found[key] != access {
			t.Errorf("exceptions: %s no longer %s %s; remove the exception", key[0], access, key[1])
		}
	}
}

var (
	createTable = regexp.MustCompile(`(?i)CREATE\s+(?:/\* UNLOGGED \*/\s+)?TABLE\s+(?:IF NOT EXISTS\s+)?(\w+)`)
	renameTable = regexp.MustCompile(`(?i)ALTER\s+TABLE\s+(\w+)\s+RENAME\s+TO\s+(\w+)`)
	dropTable   = regexp.MustCompile(`(?i)DROP\s+TABLE\s+(?:IF EXISTS\s+)?(\w+)`)
)

// migratedTables returns the tables that exist after all migrations.
func migratedTables(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"platform/db/migrations/*.sql", "platform/db/results/*.sql"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d migrations, error %v", pattern, len(found), err)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	tables := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(string(text), ";") {
			if m := createTable.FindStringSubmatch(statement); m != nil {
				tables[m[1]] = true
			}
			if m := renameTable.FindStringSubmatch(statement); m != nil {
				delete(tables, m[1])
				tables[m[2]] = true
			}
			if m := dropTable.FindStringSubmatch(statement); m != nil {
				delete(tables, m[1])
			}
		}
	}
	return tables
}

// A use is a place where Go code names a table.
type use struct {
	table    string
	access   access
	position token.Position
}

var (
	written = regexp.MustCompile(`\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)`)
	read    = regexp.MustCompile(`\b(?:FROM|JOIN)\s+(\w+(?:\s+(?:AS\s+)?\w+)?(?:\s*,\s*\w+(?:\s+(?:AS\s+)?\w+)?)*)`)
)

// takeTables are the functions of package db that take the name of a table.
var takeTables = map[string]access{"Lock": reads, "LockAll": reads, "InOrder": reads, "FreeID": reads, "DeleteSome": writes}

// tablesOf returns the tables that a file names: in the SQL of its string literals, and in calls of [takeTables].
func tablesOf(t *testing.T, path string, tables map[string]bool) (uses []use) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	note := func(at ast.Node, access access, name string) {
		if tables[name] {
			uses = append(uses, use{name, access, files.Position(at.Pos())})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text := literal(n)
			for _, m := range written.FindAllStringSubmatch(text, -1) {
				note(n, writes, m[1])
			}
			text = written.ReplaceAllString(text, "")
			for _, m := range read.FindAllStringSubmatch(text, -1) {
				for item := range strings.SplitSeq(m[1], ",") {
					note(n, reads, strings.Fields(item)[0])
				}
			}
		case *ast.CallExpr:
			function, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || takeTables[function.Sel.Name] == "" {
				return true
			}
			for _, arg := range n.Args {
				if lit, ok := arg.(*ast.BasicLit); ok {
					note(lit, takeTables[function.Sel.Name], literal(lit))
				}
			}
		}
		return true
	})
	return uses
}

func literal(n *ast.BasicLit) string {
	if n.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(n.Value)
	if err != nil {
		return ""
	}
	return text
}
