package delivery_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications/eventbus"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/mail/mailtest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// eachAt is each with a server that reaches other systems at the receiver.
func eachAt(t *testing.T, fn func(t *testing.T, w *world)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t)
		s := servertest.Start(t, d, func(p *server.Parts) {
			p.Endpoints = delivery.Endpoints{
				VisibilityURL: r.URL,
				EventBus:      eventbus.Config{Endpoint: r.URL, AccessKeyID: "AKID", SecretAccessKey: "secret"},
			}
		})
		s.Apply(servertest.World)
		fn(t, &world{Server: s, t: t, ada: s.As(t, servertest.Ada), receiver: r})
	})
}

func TestOpenTelemetry_SendsATraceOfEachFinishedBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.service("open_telemetry_tracing", fields{
			"endpoint": w.receiver.URL + "/otlp", "service_name": "ci", "headers": fields{"Authorization": "Bearer secret"}, "tracestate": "a=b",
		}, nil).String("id")
		build := w.build(nil, `{command: make test, label: Test, key: test}`)
		w.runDue()
		if n := len(w.receiver.take()); n > 0 {
			t.Errorf("%d requests for a build that runs", n)
		}
		w.finish(build, "1")
		w.runDue()
		got := w.receiver.take()
		if len(got) != 1 || got[0].Path != "/otlp/v1/traces" || got[0].Get("Authorization") != "Bearer secret" {
			t.Fatalf("got %v", got)
		}
		plain, err := gzip.NewReader(bytes.NewReader(got[0].Body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(plain)
		if err != nil {
			t.Fatal(err)
		}
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Fatal(err)
		}
		spans := data.ResourceSpans[0].ScopeSpans[0].Spans
		if len(spans) != 3 || hex.EncodeToString(spans[0].TraceId) != strings.ReplaceAll(build.String("id"), "-", "") || spans[2].Name != "Test" || spans[2].Status.GetMessage() != "exit_status_1" {
			t.Errorf("got %v", spans)
		}
		record := w.ada.Get(w.deliveries(id).String("items.0.url")).Want(http.StatusOK)
		if text := string(record.Body); strings.Contains(text, "Bearer secret") || !strings.Contains(text, "OTLP trace") {
			t.Errorf("the record is %s", text)
		}
	})
}

func TestOpenTelemetry_SendsNothingForABlockedBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.service("open_telemetry_tracing", fields{"endpoint": w.receiver.URL}, nil)
		w.build(nil, `{block: Really}`)
		w.runDue()
		if n := len(w.receiver.take()); n > 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestPipelineVisibility_SendsEachFinishedBuildAndJob(t *testing.T) {
	eachAt(t, func(t *testing.T, w *world) {
		w.service("observability_pipeline_visibility", fields{"api_key": "key-of-the-vendor", "vendor_tags": "team:core"}, nil)
		build := w.build(nil, `{command: make test, label: Test}`, `{command: never, label: Never, if: "false"}`)
		w.finish(build, "0")
		w.runDue()
		got := w.receiver.take()
		if len(got) != 2 {
			t.Fatalf("%d requests, want one for the job and one for the build", len(got))
		}
		for i, want := range []fields{
			{"data.attributes.resource.level": "job", "data.attributes.resource.id": build.String("jobs.0.id"), "data.attributes.resource.status": "success", "data.attributes.resource.name": "Test"},
			{"data.attributes.resource.level": "pipeline", "data.attributes.resource.unique_id": build.String("id"), "data.attributes.resource.tags": "[team:core]", "data.attributes.resource.url": build.String("web_url")},
		} {
			got[i].want(want)
			if got[i].Path != "/api/v2/ci/pipeline" || got[i].Get("DD-API-KEY") != "key-of-the-vendor" {
				t.Errorf("got %s %v", got[i].Path, got[i].Header)
			}
		}
	})
}

func TestEventBus_PutsEventsByBuildState(t *testing.T) {
	eachAt(t, func(t *testing.T, w *world) {
		for _, withMetaData := range []bool{true, false} {
			service := w.service("event_bus", fields{"cloud_region": "eu-west-1", "cloud_account_id": "123456789012", "include_build_meta_data": withMetaData},
				fields{"build_states": fields{"build_failed": true}})
			for _, exit := range []string{"0", "1"} {
				w.finish(w.build(fields{"meta_data": fields{"release": "7"}}, `{command: a}`), exit)
			}
			w.runDue()
			got := w.receiver.take()
			if len(got) != 1 || got[0].Get("X-Amz-Target") != "AWSEvents.PutEvents" || !strings.Contains(got[0].Get("Authorization"), "Credential=AKID/") {
				t.Fatalf("got %v", got)
			}
			var sent struct {
				Entries []struct{ EventBusName, DetailType, Detail string }
			}
			if err := json.Unmarshal(got[0].Body, &sent); err != nil {
				t.Fatal(err)
			}
			entry := sent.Entries[0]
			if entry.EventBusName != "arn:aws:events:eu-west-1:123456789012:event-bus/default" || entry.DetailType != "Build Finished" {
				t.Errorf("got %+v", entry)
			}
			detail := &request{t: t, Body: []byte(entry.Detail)}
			detail.want(fields{"build.state": "failed", "pipeline.slug": "hello", "organization.slug": "acme", "version": 1})
			if strings.Contains(entry.Detail, `"release"`) != withMetaData {
				t.Errorf("with meta-data %v: %s", withMetaData, entry.Detail)
			}
			w.ada.Delete(services + "/" + service.String("id")).Want(http.StatusNoContent)
		}
	})
}

func TestEventBus_FitsLargeBuilds(t *testing.T) {
	eachAt(t, func(t *testing.T, w *world) {
		w.service("event_bus", fields{"cloud_region": "eu-west-1", "cloud_account_id": "123456789012"}, fields{"build_states": fields{"build_failed": true}})
		build := w.build(fields{"message": strings.Repeat("é", 60_000), "env": fields{"LARGE": strings.Repeat("x", 200_000)}}, `{command: a}`)
		w.finish(build, "1")
		w.runDue()
		got := w.receiver.take()
		if len(got) != 1 || len(got[0].Body) > 256<<10 || !strings.Contains(string(got[0].Body), `truncated`) {
			t.Fatalf("%d requests", len(got))
		}
	})
}

func TestSMTP_MailsFailedAndFixedBuildsToTheCreator(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		server := mailtest.Start(t, mail.StartTLS)
		settings := fields{"server": server.Address, "username": mailtest.Username, "password": mailtest.Password, "from": "Stackyard <ci@acme.test>", "tls_verify": false}
		service := w.service("smtp", settings, fields{"build_states": fields{"build_failed": true, "build_fixed": true}})
		if service.Has("settings.password") {
			t.Error("the password is shown")
		}
		for _, exit := range []string{"0", "2", "0", "0"} {
			w.finish(w.build(nil, `{command: make test, label: Test}`), exit)
		}
		w.runDue()
		got := server.Received()
		if len(got) != 2 {
			t.Fatalf("%d messages, want one for the failed and one for the fixed build", len(got))
		}
		all := string(got[0].Body) + string(got[1].Body) // those of different builds in any order
		for _, text := range []string{"Subject: [main] Hello #2 failed", "Subject: [main] Hello #3 is fixed", "Test (exit status 2)"} {
			if !strings.Contains(all, text) {
				t.Errorf("%q is missing in %s", text, all)
			}
		}
		if got[0].To[0] != "ada@acme.test" || got[1].To[0] != "ada@acme.test" {
			t.Errorf("they went to %v and %v", got[0].To, got[1].To)
		}
	})
}

func TestSMTP_TriesAgainWhenTheServerIsBusy(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		server := mailtest.Start(t, mail.NoTLS)
		server.Refuse(450)
		id := w.service("smtp", fields{"server": server.Address, "from": "ci@acme.test", "tls": "none"}, fields{"build_states": fields{"build_failed": true}}).String("id")
		w.finish(w.build(nil, `{command: a}`), "1")
		w.runDue()
		if shown := w.deliveries(id); shown.String("items.0.state") != "pending" || !strings.Contains(shown.String("items.0.error"), "450") {
			t.Errorf("got %s", shown.Body)
		}
		server.Refuse(0)
		w.Clock.Advance(time.Minute)
		w.runDue()
		if n := len(server.Received()); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestSMTP_RefusesWrongSettings(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for field, value := range map[string]any{"server": "smtp.acme.test", "from": "nobody", "tls": "maybe", "username": ""} {
			settings := fields{"server": "smtp.acme.test:587", "from": "ci@acme.test"}
			settings[field] = value
			w.ada.Post(services, fields{"provider": "smtp", "settings": settings}).Want(http.StatusUnprocessableEntity).WantFieldError("settings."+field, "")
		}
	})
}
