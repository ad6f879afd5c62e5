package organizations

import (
	"cmp"
	"net/http"
	"time"

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
			Method: http.MethodGet, Path: organizationPath + "/usage", Summary: "Get what the organization stores and uses",
			Description: "What is stored changes with each upload and removal. Builds and jobs are counted every hour.", Handler: route.Do(s.getUsage),
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
	URL       string         `json:"url"`
	Artifacts storedView     `json:"artifacts" doc:"Finished artifacts that the server stores."`
	Caches    storedView     `json:"caches" doc:"Pieces of caches that the server stores; what several caches have in common counts once."`
	Logs      storedView     `json:"logs" doc:"Logs in the blob store, compressed. Logs of up to 32 KiB are in the database and do not count."`
	Days      []usageDayView `json:"days" doc:"The last 30 days in UTC, oldest first, without days on which no build was created."`
}

type storedView struct {
	Bytes      int64  `json:"bytes"`
	Count      int64  `json:"count"`
	LimitBytes *int64 `json:"limit_bytes" doc:"null: no limit."`
}

type usageDayView struct {
	Date       string `json:"date" doc:"Such as 2026-01-31."`
	Builds     int64  `json:"builds" doc:"Builds that were created."`
	Jobs       int64  `json:"jobs" doc:"Jobs of these builds that were started."`
	JobMinutes int64  `json:"job_minutes" doc:"How long these jobs have run together."`
}

// usageDays is how many days a response has.
const usageDays = 30

func (s *Service) getUsage(r *route.Request) (v organizationUsageView, err error) {
	l := quotas.Of(r.Org)
	v = organizationUsageView{URL: s.public.Org(r.Org.Slug, "usage"), Days: []usageDayView{}}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		for _, of := range []struct {
			kind  usage.Kind
			limit int64
			to    *storedView
		}{{usage.Artifacts, l.ArtifactBytes, &v.Artifacts}, {usage.Caches, l.CacheBytes, &v.Caches}, {usage.Logs, l.LogBytes, &v.Logs}} {
			stored, err := usage.Of(q, r.Org.ID, of.kind)
			if err != nil {
				return err
			}
			*of.to = storedView{Bytes: stored.Bytes, Count: stored.Objects, LimitBytes: core.OrNull(of.limit)}
		}
		days, err := usage.Since(q, r.Org.ID, s.clock().AddDate(0, 0, 1-usageDays))
		for _, d := range days {
			v.Days = append(v.Days, usageDayView{Date: d.Day.Format(time.DateOnly), Builds: d.Builds, Jobs: d.Jobs, JobMinutes: d.JobSeconds / 60})
		}
		return err
	})
	return v, err
}

type retentionView struct {
	URL             string         `json:"url"`
	BuildDays       int            `json:"build_retention_days" doc:"How long finished builds are kept, with their logs and artifacts. 0: forever."`
	ArtifactDays    int            `json:"artifact_retention_days" doc:"How long the bytes of artifacts are kept. 0: as long as their builds."`
	TestDays        int            `json:"test_retention_days" doc:"How long test results are kept. 0: forever."`
	AuditDays       int            `json:"audit_retention_days" doc:"How long the audit trail is kept. 0: forever."`
	LogDays         int            `json:"log_retention_days" doc:"How long logs of finished builds are kept. 0: as long as their builds."`
	EventDays       int            `json:"event_retention_days" doc:"How long events are kept. 0: as long as the installation keeps them."`
	DeliveryDays    int            `json:"delivery_retention_days" doc:"How long finished deliveries of notification services are kept; always at most 100 of each service. 0: no limit of time."`
	LogBytes        int64          `json:"log_bytes" doc:"How much all logs in the blob store can have together before the oldest are removed. 0: no limit."`
	ArtifactBytes   int64          `json:"artifact_bytes" doc:"How much all artifacts can have together. 0: no limit."`
	AtArtifactLimit quotas.AtLimit `json:"at_artifact_limit" doc:"What happens when artifact_bytes is reached: refuse uploads, or remove the oldest artifacts."`
	CacheBytes      int64          `json:"cache_bytes" doc:"How much all caches can have together; then the least recently used ones are removed. 0: no limit."`
}

func (s *Service) retentionView(org *identity.Organization) retentionView {
	l := quotas.Of(org)
	return retentionView{
		URL:       s.public.Org(org.Slug, "retention"),
		BuildDays: l.BuildRetentionDays, ArtifactDays: l.ArtifactRetentionDays, TestDays: l.TestRetentionDays, AuditDays: l.AuditRetentionDays,
		LogDays: l.LogRetentionDays, EventDays: l.EventRetentionDays, DeliveryDays: l.DeliveryRetentionDays, LogBytes: l.LogBytes,
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
	LogDays         route.Opt[int]    `json:"log_retention_days"`
	EventDays       route.Opt[int]    `json:"event_retention_days" doc:"0, or at least 2."`
	DeliveryDays    route.Opt[int]    `json:"delivery_retention_days"`
	LogBytes        route.Opt[int64]  `json:"log_bytes"`
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
		{f.LogDays, &spec.LogRetentionDays}, {f.EventDays, &spec.EventRetentionDays}, {f.DeliveryDays, &spec.DeliveryRetentionDays},
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
	if f.LogBytes.Set {
		spec.LogBytes = &f.LogBytes.Value
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
