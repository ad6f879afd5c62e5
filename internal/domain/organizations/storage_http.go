package organizations

import (
	"cmp"
	"net/http"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// storageRoutes returns the routes of what an organization stores, and for how long.
func (s *Service) storageRoutes() []route.Route {
	const retention = organizationPath + "/retention"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: organizationPath + "/usage", Summary: "Get what the organization stores",
			Description: "The numbers change with what is stored.", Handler: route.Do(s.getUsage),
		},
		{Method: http.MethodGet, Path: retention, Summary: "Get how long and how much the organization stores", Handler: route.Do(s.getRetention)},
		{
			Method: http.MethodPatch, Path: retention, Summary: "Change how long and how much the organization stores",
			Description: "Changes only the fields in the body. What is too old is removed within an hour or so, in small batches.",
			Handler:     route.DoBody(s.patchRetention),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Organizations", identity.ReadOrganizationSettings, identity.ChangeOrganization
		if r.Method != http.MethodGet {
			r.Scope = identity.WriteOrganizationSettings
		}
	}
	return routes
}

type organizationUsageView struct {
	URL       string            `json:"url"`
	Artifacts artifactUsageView `json:"artifacts"`
	Caches    cacheUsageView    `json:"caches"`
}

type artifactUsageView struct {
	Bytes      int64  `json:"bytes" doc:"Of finished artifacts that the server stores."`
	Count      int64  `json:"count"`
	LimitBytes *int64 `json:"limit_bytes" doc:"null: no limit."`
}

type cacheUsageView struct {
	Bytes      int64  `json:"bytes" doc:"Of caches that the server stores; what several have in common counts once."`
	Count      int64  `json:"count" doc:"Pieces of caches."`
	LimitBytes *int64 `json:"limit_bytes" doc:"null: no limit."`
}

func (s *Service) getUsage(r *route.Request) (v organizationUsageView, err error) {
	var stored, cached usage.Stored
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if stored, err = usage.Of(q, r.Org.ID, usage.Artifacts); err != nil {
			return err
		}
		cached, err = usage.Of(q, r.Org.ID, usage.Caches)
		return err
	})
	return organizationUsageView{
		URL:       s.public.Org(r.Org.Slug, "usage"),
		Artifacts: artifactUsageView{Bytes: stored.Bytes, Count: stored.Objects, LimitBytes: core.OrNull(quotas.Of(r.Org).ArtifactBytes)},
		Caches:    cacheUsageView{Bytes: cached.Bytes, Count: cached.Objects, LimitBytes: core.OrNull(quotas.Of(r.Org).CacheBytes)},
	}, err
}

type retentionView struct {
	URL             string         `json:"url"`
	BuildDays       int            `json:"build_retention_days" doc:"How long finished builds are kept, with their logs and artifacts. 0: forever."`
	ArtifactDays    int            `json:"artifact_retention_days" doc:"How long the bytes of artifacts are kept. 0: as long as their builds."`
	TestDays        int            `json:"test_retention_days" doc:"How long test results are kept. 0: forever."`
	AuditDays       int            `json:"audit_retention_days" doc:"How long the audit trail is kept. 0: forever."`
	ArtifactBytes   int64          `json:"artifact_bytes" doc:"How much all artifacts can have together. 0: no limit."`
	AtArtifactLimit quotas.AtLimit `json:"at_artifact_limit" doc:"What happens when artifact_bytes is reached: refuse uploads, or remove the oldest artifacts."`
	CacheBytes      int64          `json:"cache_bytes" doc:"How much all caches can have together; then the least recently used ones are removed. 0: no limit."`
}

func (s *Service) retentionView(org *identity.Organization) retentionView {
	l := quotas.Of(org)
	return retentionView{
		URL:       s.public.Org(org.Slug, "retention"),
		BuildDays: l.BuildRetentionDays, ArtifactDays: l.ArtifactRetentionDays, TestDays: l.TestRetentionDays, AuditDays: l.AuditRetentionDays,
		ArtifactBytes: l.ArtifactBytes, AtArtifactLimit: cmp.Or(l.AtArtifactLimit, quotas.Refuse), CacheBytes: l.CacheBytes,
	}
}

func (s *Service) getRetention(r *route.Request) (retentionView, error) {
	return s.retentionView(r.Org), nil
}

// retentionFields are the request fields; null stands for 0.
type retentionFields struct {
	BuildDays       route.Opt[int]    `json:"build_retention_days"`
	ArtifactDays    route.Opt[int]    `json:"artifact_retention_days"`
	TestDays        route.Opt[int]    `json:"test_retention_days"`
	AuditDays       route.Opt[int]    `json:"audit_retention_days" doc:"0, or at least 30."`
	ArtifactBytes   route.Opt[int64]  `json:"artifact_bytes"`
	AtArtifactLimit route.Opt[string] `json:"at_artifact_limit" doc:"refuse or remove_oldest."`
	CacheBytes      route.Opt[int64]  `json:"cache_bytes"`
}

// spec returns the fields that were sent as a part of an organization file.
func (f *retentionFields) spec() (spec quotas.Spec) {
	for _, days := range []struct {
		sent route.Opt[int]
		dst  **int
	}{
		{f.BuildDays, &spec.BuildRetentionDays}, {f.ArtifactDays, &spec.ArtifactRetentionDays}, {f.TestDays, &spec.TestRetentionDays}, {f.AuditDays, &spec.AuditRetentionDays},
	} {
		if days.sent.Set {
			*days.dst = &days.sent.Value
		}
	}
	if f.ArtifactBytes.Set {
		spec.ArtifactBytes = &f.ArtifactBytes.Value
	}
	if f.CacheBytes.Set {
		spec.CacheBytes = &f.CacheBytes.Value
	}
	if f.AtArtifactLimit.Set {
		at := cmp.Or(quotas.AtLimit(f.AtArtifactLimit.Value), quotas.Refuse)
		spec.AtArtifactLimit = &at
	}
	return spec
}

func (s *Service) patchRetention(r *route.Request, body retentionFields) (v retentionView, err error) {
	spec := body.spec()
	if err := spec.CheckStorage(); err != nil {
		return v, err
	}
	err = s.directory.Change(r.Context(), func(q *db.Q) error {
		org, err := lockOrganization(q, r.Org.Slug)
		if err != nil {
			return err
		}
		spec.ApplyTo(org)
		v = s.retentionView(org)
		return identity.UpdateOrganization(q, *org)
	})
	return v, err
}
