package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const monitoring = "../../../deploy/monitoring/"

func TestMetrics_DescribeTheInstallationWithoutNames(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		text := string(s.As(t, "").Get("/metrics").Want(http.StatusOK).Body)
		for _, line := range []string{
			`stackyard_jobs_waiting{cluster="",organization="",queue=""} 0`,
			`stackyard_jobs_running{cluster="",organization="",queue=""} 0`,
			`stackyard_agents{state="idle"} 0`,
			`stackyard_stacks{state="connected"} 0`,
			`stackyard_deliveries_pending 0`,
			`stackyard_database_up 1`,
			`stackyard_database_size_bytes{schema="main"} `,
			`stackyard_job_wait_seconds_count 0`,
		} {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("no line %s", line)
			}
		}
	})
}

var metricName = regexp.MustCompile(`\bstackyard_[a-z_]+`)

// The dashboard and the alerts use only metrics that exist.
func TestMonitoring_UsesMetricsThatExist(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	text := string(s.As(t, "").Get("/metrics").Want(http.StatusOK).Body)
	reference, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && (strings.Contains(text, "# TYPE "+base+" ") || notYetObserved[base]) {
				return strings.Contains(string(reference), "`"+base+"`") || strings.Contains(string(reference), "`_"+base[strings.LastIndex(base, "_")+1:]+"`")
			}
		}
		return false
	}
	expressions := append(dashboardExpressions(t), alertExpressions(t)...)
	if len(expressions) < 20 {
		t.Errorf("only %d expressions", len(expressions))
	}
	for _, e := range expressions {
		for _, name := range metricName.FindAllString(e, -1) {
			if !exists(name) {
				t.Errorf("%s does not exist or is not in docs/metrics.md: %s", name, e)
			}
		}
	}
}

// Prometheus' own tool parses all expressions, if it is installed (package prometheus).
func TestMonitoring_PassesPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for i, e := range dashboardExpressions(t) {
		rules = append(rules, rule{fmt.Sprintf("panel_%d", i), strings.ReplaceAll(e, "$__rate_interval", "5m")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	panels := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(panels, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{panels, monitoring + "prometheus-alerts.yaml"} {
		if output, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, output)
		}
	}
}

// notYetObserved are metrics that have no value before something happens.
var notYetObserved = map[string]bool{
	"stackyard_builds_finished_total": true, "stackyard_jobs_finished_total": true,
	"stackyard_tasks_due": true, "stackyard_tasks_failing": true, "stackyard_tasks_oldest_due_seconds": true,
	"stackyard_certificate_expires_timestamp_seconds": true,
	"stackyard_disk_available_bytes":                  true, "stackyard_disk_size_bytes": true,
	"stackyard_http_requests_total": true, "stackyard_http_request_seconds": true,
}

func dashboardExpressions(t *testing.T) (found []string) {
	t.Helper()
	content, err := os.ReadFile(monitoring + "grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %+v is empty", p)
		}
		for _, target := range p.Targets {
			found = append(found, target.Expr)
		}
	}
	return found
}

func alertExpressions(t *testing.T) (found []string) {
	t.Helper()
	content, err := os.ReadFile(monitoring + "prometheus-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For string
				Annotations      struct{ Summary, Description string }
			}
		}
	}
	if err := yaml.Unmarshal(content, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Expr == "" || r.Annotations.Summary == "" || r.Annotations.Description == "" {
				t.Errorf("rule %+v is incomplete", r)
			}
			found = append(found, r.Expr)
		}
	}
	return found
}
