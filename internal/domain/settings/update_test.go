package settings

import (
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/route"
)

func TestUpdate_HoldsTimeoutsAgainstEachOther(t *testing.T) {
	const exceeds = "must not exceed maximum_timeout_in_minutes, which is 60"
	for _, c := range []struct {
		name                  string
		stored                Settings
		sent                  string
		byDefault, atMost     int
		complaint, complained string
	}{
		{name: "default alone", sent: `{"default_timeout_in_minutes": 90}`, byDefault: 90},
		{name: "maximum alone", sent: `{"maximum_timeout_in_minutes": 60}`, atMost: 60},
		{name: "both, equal", sent: `{"default_timeout_in_minutes": 60, "maximum_timeout_in_minutes": 60}`, byDefault: 60, atMost: 60},
		{name: "both, wrong way round", sent: `{"default_timeout_in_minutes": 61, "maximum_timeout_in_minutes": 60}`,
			complained: "default_timeout_in_minutes", complaint: exceeds},
		{name: "default above the stored maximum", stored: Settings{MaximumTimeout: 60}, sent: `{"default_timeout_in_minutes": 61}`,
			complained: "default_timeout_in_minutes", complaint: exceeds},
		{name: "maximum below the stored default", stored: Settings{DefaultTimeout: 61}, sent: `{"maximum_timeout_in_minutes": 60}`,
			complained: "maximum_timeout_in_minutes", complaint: "must not be less than default_timeout_in_minutes, which is 61"},
		{name: "both raised past the stored maximum", stored: Settings{DefaultTimeout: 5, MaximumTimeout: 60},
			sent: `{"default_timeout_in_minutes": 100, "maximum_timeout_in_minutes": 200}`, byDefault: 100, atMost: 200},
		{name: "default raised as the maximum is cleared", stored: Settings{MaximumTimeout: 60},
			sent: `{"default_timeout_in_minutes": 100, "maximum_timeout_in_minutes": null}`, byDefault: 100},
		{name: "default cleared as the maximum is lowered", stored: Settings{DefaultTimeout: 50, MaximumTimeout: 60},
			sent: `{"default_timeout_in_minutes": null, "maximum_timeout_in_minutes": 10}`, atMost: 10},
		{name: "a wrong maximum says nothing about the default", stored: Settings{MaximumTimeout: 60},
			sent:       `{"default_timeout_in_minutes": 100, "maximum_timeout_in_minutes": 0}`,
			complained: "maximum_timeout_in_minutes", complaint: "must be an integer from 1 to 525600, or null for none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := c.stored
			err := parse(t, c.sent).applyTo(nil, "", &set)
			if c.complaint != "" {
				wantProblems(t, err, map[string]string{c.complained: c.complaint})
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if set.DefaultTimeout != c.byDefault || set.MaximumTimeout != c.atMost {
				t.Errorf("default %d, maximum %d; want %d, %d", set.DefaultTimeout, set.MaximumTimeout, c.byDefault, c.atMost)
			}
		})
	}
}

func TestUpdate_ReportsEveryWrongFieldAndChangesNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		acme, rival := newOrganization(t, d, "acme"), newOrganization(t, d, "rival")
		s := New(d, "", core.SystemClock)
		_, err := s.update(t.Context(), acme, parse(t, `{
			"default_branch": "no spaces",
			"default_cluster_id": "`+newCluster(t, d, rival)+`",
			"default_timeout_in_minutes": 10,
			"maximum_timeout_in_minutes": -1,
			"scheduled_job_expiry_in_minutes": 525601}`))
		wantProblems(t, err, map[string]string{
			"default_branch":                  "must be the name of a git branch, of at most 255 bytes",
			"default_cluster_id":              "must be the id of a cluster of this organization",
			"maximum_timeout_in_minutes":      "must be an integer from 1 to 525600, or null for none",
			"scheduled_job_expiry_in_minutes": "must be an integer from 1 to 525600, or null for none",
		})
		if got := of(t, d, acme); got != defaults {
			t.Errorf("a refused update left %+v", got)
		}
	})
}

func TestUpdate_OfDifferentFieldsAtOnceLosesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		acme := newOrganization(t, d, "acme")
		cluster := newCluster(t, d, acme)
		s := New(d, "", core.SystemClock)
		var all sync.WaitGroup
		for _, sent := range []string{
			`{"default_branch": "trunk"}`,
			`{"default_cluster_id": "` + cluster + `"}`,
			`{"default_timeout_in_minutes": 1}`,
			`{"maximum_timeout_in_minutes": 2}`,
			`{"scheduled_job_expiry_in_minutes": 3}`,
		} {
			all.Go(func() {
				if _, err := s.update(t.Context(), acme, parse(t, sent)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if _, err := s.setExport(t.Context(), acme, Destination{Strategy: "s3", Location: "builds"}); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		want := Settings{
			DefaultBranch: "trunk", DefaultClusterID: cluster,
			DefaultTimeout: 1, MaximumTimeout: 2, ScheduledJobExpiry: 3,
			BuildExport: Destination{Strategy: "s3", Location: "builds"},
		}
		if got := of(t, d, acme); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func parse(t *testing.T, body string) (u pipelineSettingsUpdate) {
	t.Helper()
	if err := route.Decode([]byte(body), &u); err != nil {
		t.Error(err)
	}
	return u
}

func wantProblems(t *testing.T, err error, want map[string]string) {
	t.Helper()
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unprocessable {
		t.Fatalf("got the error %v, want one of validation", err)
	}
	got := make(map[string]string)
	for _, f := range e.Fields {
		got[f.Field] = f.Code
	}
	if !maps.Equal(got, want) {
		text, _ := json.MarshalIndent(got, "", "  ")
		t.Errorf("problems: %s", text)
	}
}
