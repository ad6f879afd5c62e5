package teampages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) usageRoutes() []route.Route {
	return []route.Route{
		s.get("/settings/usage", s.usage),
		s.post("/settings/usage", s.changeRetention),
	}
}

// used is what an organization stores and uses, in a response.
type used struct {
	Artifacts, Logs stored
	Days            []struct {
		Date         string
		Builds, Jobs int64
		Minutes      int64 `json:"job_minutes"`
	}
}

// stored is how much is stored of something.
type stored struct {
	Bytes, Count int64
	Limit        *int64 `json:"limit_bytes"`
}

// Percent returns how much of the limit is used.
func (s stored) Percent() int64 {
	if s.Limit == nil || *s.Limit == 0 {
		return 0
	}
	return int64(float64(s.Bytes) / float64(*s.Limit) * 100)
}

// retention is how long and how much an organization stores, in a response.
type retention struct {
	BuildDays       int    `json:"build_retention_days"`
	ArtifactDays    int    `json:"artifact_retention_days"`
	TestDays        int    `json:"test_retention_days"`
	AuditDays       int    `json:"audit_retention_days"`
	LogDays         int    `json:"log_retention_days"`
	EventDays       int    `json:"event_retention_days"`
	DeliveryDays    int    `json:"delivery_retention_days"`
	LogBytes        int    `json:"log_bytes"`
	ArtifactBytes   int    `json:"artifact_bytes"`
	AtArtifactLimit string `json:"at_artifact_limit"`
	CacheBytes      int    `json:"cache_bytes"`
}

func retentionForm(action string, r retention) pages.Form {
	number := func(n int) string { return pages.Digits(&n) }
	return pages.Form{ID: "retention", Action: action, Submit: "Save", Fields: []pages.Field{
		{Name: "build_retention_days", Label: "Keep finished builds, in days", Kind: pages.NumberField, Value: number(r.BuildDays), Hint: "With their logs and artifacts. 0: forever."},
		{Name: "artifact_retention_days", Label: "Keep artifacts, in days", Kind: pages.NumberField, Value: number(r.ArtifactDays), Hint: "0: as long as their builds."},
		{Name: "test_retention_days", Label: "Keep test results, in days", Kind: pages.NumberField, Value: number(r.TestDays), Hint: "0: forever."},
		{Name: "audit_retention_days", Label: "Keep the audit trail, in days", Kind: pages.NumberField, Value: number(r.AuditDays), Hint: "At least 30. 0: forever."},
		{Name: "log_retention_days", Label: "Keep logs, in days", Kind: pages.NumberField, Value: number(r.LogDays), Hint: "0: as long as their builds."},
		{Name: "event_retention_days", Label: "Keep events, in days", Kind: pages.NumberField, Value: number(r.EventDays), Hint: "At least 2. 0: as long as the installation keeps them."},
		{Name: "delivery_retention_days", Label: "Keep deliveries of notification services, in days", Kind: pages.NumberField, Value: number(r.DeliveryDays), Hint: "At most 100 of each service are kept. 0: no limit of time."},
		{Name: "log_bytes", Label: "Limit of all logs together, in bytes", Kind: pages.NumberField, Value: number(r.LogBytes), Hint: "Then the oldest are removed. 0: no limit."},
		{Name: "artifact_bytes", Label: "Limit of all artifacts together, in bytes", Kind: pages.NumberField, Value: number(r.ArtifactBytes), Hint: "0: no limit."},
		{Name: "at_artifact_limit", Label: "When the limit is reached", Kind: pages.SelectField, Value: r.AtArtifactLimit, Options: []pages.Option{
			{Value: "refuse", Text: "Refuse uploads"}, {Value: "remove_oldest", Text: "Remove the oldest artifacts"},
		}},
		{Name: "cache_bytes", Label: "Limit of all caches together, in bytes", Kind: pages.NumberField, Value: number(r.CacheBytes), Hint: "Then the least recently used ones are removed. 0: no limit."},
	}}
}

func (s *Site) usage(v *pages.Visit) error { return s.showUsage(v, http.StatusOK, nil) }

func (s *Site) showUsage(v *pages.Visit, status int, entered *pages.Form) error {
	shown := struct {
		Manages bool
		used
		Minutes int64
		Form    pages.Form
	}{Manages: v.Member.Can(identity.ChangeOrganization, v.Org)}
	if !shown.Manages {
		return s.show(v, http.StatusForbidden, "usage", "usage", "Usage and retention", shown)
	}
	if _, err := v.Call("GET", v.API("usage"), nil, &shown.used); err != nil {
		return err
	}
	for _, d := range shown.Days {
		shown.Minutes += d.Minutes
	}
	var kept retention
	if _, err := v.Call("GET", v.API("retention"), nil, &kept); err != nil {
		return err
	}
	shown.Form = retentionForm(v.Place("settings", "usage"), kept)
	if entered != nil {
		shown.Form = *entered
	}
	return s.show(v, status, "usage", "usage", "Usage and retention", shown)
}

func (s *Site) changeRetention(v *pages.Visit) error {
	at := v.Place("settings", "usage")
	return v.Submit(retentionForm(at, retention{}), "PATCH", v.API("retention"), at, "Saved.", func(f pages.Form) error {
		return s.showUsage(v, http.StatusUnprocessableEntity, &f)
	})
}
