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

// stored is what an organization stores, in a response.
type stored struct {
	Artifacts struct {
		Bytes int64
		Count int64
		Limit *int64 `json:"limit_bytes"`
	}
}

// retention is how long and how much an organization stores, in a response.
type retention struct {
	BuildDays       int    `json:"build_retention_days"`
	ArtifactDays    int    `json:"artifact_retention_days"`
	TestDays        int    `json:"test_retention_days"`
	AuditDays       int    `json:"audit_retention_days"`
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
		Bytes   int64
		Count   int64
		Limit   int64
		Form    pages.Form
		Percent int64
	}{Manages: v.Member.Can(identity.ChangeOrganization, v.Org)}
	if !shown.Manages {
		return s.show(v, http.StatusForbidden, "usage", "usage", "Usage and retention", shown)
	}
	var used stored
	if _, err := v.Call("GET", v.API("usage"), nil, &used); err != nil {
		return err
	}
	var kept retention
	if _, err := v.Call("GET", v.API("retention"), nil, &kept); err != nil {
		return err
	}
	shown.Bytes, shown.Count = used.Artifacts.Bytes, used.Artifacts.Count
	if used.Artifacts.Limit != nil && *used.Artifacts.Limit > 0 {
		shown.Limit = *used.Artifacts.Limit
		shown.Percent = int64(float64(shown.Bytes) / float64(shown.Limit) * 100)
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
