package notifications_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const (
	path      = "/v2/organizations/acme/services"
	rivalPath = "/v2/organizations/rival/services"
	missing   = "No notification service found"
)

// body is a JSON object.
type body = map[string]any

// with returns an object with some more members, which win.
func with(b, more body) body {
	all := body{}
	for name, value := range b {
		all[name] = value
	}
	for name, value := range more {
		all[name] = value
	}
	return all
}

// minimal are the smallest settings of each provider that can be created over the API.
var minimal = map[string]body{
	"webhook":                           {"url": "https://example.test/hook"},
	"chat_webhook":                      {"url": "https://chat.example.test/services/T0/B0/secret"},
	"event_bus":                         {"cloud_region": "us-east-1", "cloud_account_id": "123456789012"},
	"observability_pipeline_visibility": {"api_key": "0123456789abcdef0123456789abcdef"},
	"open_telemetry_tracing":            {"endpoint": "https://otlp.example.test"},
	"event_log_api":                     {},
}

// service returns the body that creates a service with the smallest settings and some more.
func service(provider string, settings body) body {
	return body{"provider": provider, "settings": with(minimal[provider], settings)}
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// connect connects a service through the web, and returns the path of it.
func connect(t *testing.T, s *servertest.Server, provider string, given map[string]string) string {
	t.Helper()
	directory := identity.NewDirectory(s.DB, s.Clock.Now)
	org, err := directory.Organization(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	service := notifications.New(s.DB, s.Key, core.PublicURL(s.URL), s.Clock.Now, notifications.Connections{})
	r, err := service.Connect(t.Context(), org, identity.User{ID: servertest.AdaID}, notifications.ProviderByID(provider), given)
	if err != nil {
		t.Fatal(err)
	}
	return path + "/" + r.ID
}

// authorization is what a provider returns when people connect it.
var authorization = map[string]string{
	"workspace_id": "T012", "workspace_name": "Acme", "access_token": "xoxb-secret", "refresh_token": "xoxe-secret", "expires_at": "2030-01-02T03:04:05Z",
}

func TestCreate_ShowsEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(path, with(service("webhook", body{"token": "xyz", "events": []string{"build.finished"}}), body{
			"description":          "Deploys",
			"branch_configuration": "main !wip-*",
			"scope":                "some_projects",
			"scope_uuids":          []string{servertest.AcmePipelineID},
			"build_states":         body{"build_failed": true, "build_fixed": true, "build_passed": false},
		})).Want(http.StatusCreated)
		id := made.String("id")
		wantEqual(t, "the service", made.At(""), any(body{
			"id":                   id,
			"graphql_id":           core.GraphQLID("NotificationService", id),
			"url":                  s.URL + path + "/" + id,
			"provider":             body{"id": "webhook", "name": "Webhook"},
			"description":          "Deploys",
			"enabled":              true,
			"scope":                "some_projects",
			"scope_uuids":          []any{servertest.AcmePipelineID},
			"branch_configuration": "main !wip-*",
			"build_states": body{
				"build_passed": false, "build_fixed": true, "build_failed": true, "build_blocked": false, "build_canceled": false,
				"build_failing": false, "job_activated": false,
			},
			"settings": body{
				"url": "https://example.test/hook", "token": "xyz", "token_mode": "token", "version": 3.0, "events": []any{"build.finished"}, "tls_verify": true,
			},
			"created_at": s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by": ada.Get("/v2/user").At(""),
		}))
		wantEqual(t, "get", ada.Get(path+"/"+id).Want(http.StatusOK).At(""), made.At(""))
		wantEqual(t, "list", ada.Get(path).Want(http.StatusOK).At("items"), any([]any{made.At("")}))
	})
}

func TestCreate_TakesEveryProviderWithItsDefaults(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		want := map[string]struct {
			name     string
			settings body
		}{
			"webhook":                           {"Webhook", body{"url": "https://example.test/hook", "token_mode": "token", "version": 3.0, "events": []any{}, "tls_verify": true}},
			"chat_webhook":                      {"Chat Webhook", body{"theme": "text"}},
			"event_bus":                         {"Event Bus", body{"cloud_region": "us-east-1", "cloud_account_id": "********9012", "include_build_meta_data": false}},
			"observability_pipeline_visibility": {"Observability Pipeline Visibility", body{"api_key": "********cdef", "vendor_site": "datadoghq.com", "vendor_tags": nil}},
			"open_telemetry_tracing":            {"OpenTelemetry Tracing", body{"endpoint": "https://otlp.example.test", "service_name": "stackyard", "resource_attributes": body{}, "tracestate": nil}},
			"event_log_api":                     {"Event Log API", body{"events": []any{}}},
		}
		for provider, want := range want {
			made := ada.Post(path, service(provider, nil)).Want(http.StatusCreated)
			wantEqual(t, provider, made.At("provider"), any(body{"id": provider, "name": want.name}))
			settings := made.At("settings").(body)
			if token, ok := settings["token"].(string); provider == "webhook" && (!ok || len(token) < 32) {
				t.Errorf("the webhook's token is %v", settings["token"])
			}
			delete(settings, "token")
			wantEqual(t, "settings of "+provider, settings, want.settings)
			for field, value := range (body{"description": "", "enabled": true, "scope": "all", "scope_uuids": []any{}, "branch_configuration": ""}) {
				wantEqual(t, provider+" "+field, made.At(field), value)
			}
			for state, on := range made.At("build_states").(body) {
				wantEqual(t, state, on, false)
			}
			// Null is as good as nothing.
			nulls := with(service(provider, nil), body{"description": nil, "branch_configuration": nil, "scope_uuids": nil})
			for setting := range want.settings {
				if minimal[provider][setting] == nil {
					nulls["settings"].(body)[setting] = nil
				}
			}
			again := ada.Post(path, nulls).Want(http.StatusCreated).At("settings").(body)
			delete(again, "token")
			wantEqual(t, "settings of "+provider+" given as null", again, want.settings)
		}
		wantEqual(t, "without settings", ada.Post(path, body{"provider": "event_log_api"}).Want(http.StatusCreated).At("settings"), any(body{"events": []any{}}))
	})
}

func TestCreate_TakesEverySetting(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, c := range []struct {
			provider      string
			settings      body
			shown, hidden []string // of the settings
		}{
			{"webhook", body{
				"url": "http://127.0.0.1:9/hook?a=b", "token": "a b", "token_mode": "signature", "version": 1.0, "tls_verify": false,
				"events": []any{"ping", "build.scheduled", "build.running", "build.failing", "build.finished", "build.skipped", "job.scheduled", "job.started",
					"job.finished", "job.activated", "job.promised_exit_status", "agent.connected", "agent.disconnected", "agent.lost", "agent.stopping",
					"agent.stopped", "agent.blocked", "cluster_token.registration_blocked"},
			}, []string{"url", "token", "token_mode", "version", "tls_verify", "events"}, nil},
			{"chat_webhook", body{"theme": "emoji"}, []string{"theme"}, []string{"url"}},
			{"event_bus", body{"cloud_region": "us-gov-west-1", "include_build_meta_data": true}, []string{"cloud_region", "include_build_meta_data"}, nil},
			{"observability_pipeline_visibility", body{"vendor_site": "us5.datadoghq.com", "vendor_tags": "env:prod,team:core"}, []string{"vendor_site", "vendor_tags"}, nil},
			{"observability_pipeline_visibility", body{"vendor_tags": []any{"env:prod", "team:core"}}, []string{"vendor_tags"}, nil},
			{"open_telemetry_tracing", body{
				"service_name": "ci", "headers": body{"Authorization": "Bearer secret"}, "resource_attributes": body{"deployment.environment": "prod", "empty": ""},
				"tracestate": body{"vendor": "value"},
			}, []string{"endpoint", "service_name", "resource_attributes", "tracestate"}, []string{"headers"}},
			{"open_telemetry_tracing", body{"tracestate": "vendor=value"}, []string{"tracestate"}, nil},
			{"event_log_api", body{"events": []any{"job.finished"}}, []string{"events"}, nil},
		} {
			sent := service(c.provider, c.settings)
			made := ada.Post(path, sent).Want(http.StatusCreated)
			shown := ada.Get(path + "/" + made.String("id")).Want(http.StatusOK)
			wantEqual(t, "get", shown.At(""), made.At(""))
			for _, name := range c.shown {
				wantEqual(t, c.provider+" "+name, shown.At("settings."+name), sent["settings"].(body)[name])
			}
			for _, name := range c.hidden {
				if shown.Has("settings." + name) {
					t.Errorf("%s shows %s", c.provider, name)
				}
			}
			for _, got := range []*servertest.Response{made, shown, ada.Get(path).Want(http.StatusOK)} {
				if strings.Contains(string(got.Body), "secret") {
					t.Errorf("%s shows a secret: %s", c.provider, got.Body)
				}
			}
		}
		twice := ada.Post(path, service("webhook", body{"events": []string{"job.finished", "build.finished", "job.finished"}})).Want(http.StatusCreated)
		wantEqual(t, "events given twice", twice.At("settings.events"), any([]any{"job.finished", "build.finished"}))
	})
}

func TestCreate_RefusesWrongSettings(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	pairs := func(n int) body {
		b := body{}
		for i := range n {
			b[fmt.Sprintf("k%d", i)] = "v"
		}
		return b
	}
	cases := []struct {
		provider, setting string
		value             any
		text              string
	}{
		{"webhook", "url", nil, "is required"},
		{"webhook", "url", "", "cannot be blank"},
		{"webhook", "url", 7, "must be a string"},
		{"webhook", "url", body{}, "must be a string"},
		{"webhook", "url", "example.test/hook", "must be an http or https URL"},
		{"webhook", "url", "ftp://example.test/hook", "must be an http or https URL"},
		{"webhook", "url", "javascript:alert(1)", "must be an http or https URL"},
		{"webhook", "url", "https://", "must be an http or https URL"},
		{"webhook", "url", "https://:443/x", "must be an http or https URL"},
		{"webhook", "url", "https://example.test:99999/", "must be an http or https URL"},
		{"webhook", "url", "https://example.test/a b", "must be an http or https URL"},
		{"webhook", "url", "https://example.test/\nx", "must be an http or https URL"},
		{"webhook", "url", "https://user:pass@example.test/", "must have no user name and no password"},
		{"webhook", "url", "https://example.test/#x", "must have no fragment"},
		{"webhook", "url", "https://example.test/" + long(2048), "at most 2048 bytes"},
		{"webhook", "token", 7, "must be a string"},
		{"webhook", "token", "", "cannot be blank"},
		{"webhook", "token", "a\r\nX-Evil: b", "must be one line"},
		{"webhook", "token", "grün", "ASCII"},
		{"webhook", "token", long(256), "at most 255 characters"},
		{"webhook", "token_mode", "plain", "must be one of token, signature"},
		{"webhook", "token_mode", true, "must be one of token, signature"},
		{"webhook", "version", 0, "must be an integer from 1 to 3"},
		{"webhook", "version", 4, "must be an integer from 1 to 3"},
		{"webhook", "version", -1, "must be an integer from 1 to 3"},
		{"webhook", "version", 2.5, "must be an integer from 1 to 3"},
		{"webhook", "version", "3", "must be an integer from 1 to 3"},
		{"webhook", "events", "build.finished", "must be an array of strings"},
		{"webhook", "events", body{}, "must be an array of strings"},
		{"webhook", "events", []any{7}, "must be an array of strings"},
		{"webhook", "events", []any{nil}, "must be an array of strings"},
		{"webhook", "events", []any{"build.exploded"}, `has "build.exploded", which is not an event`},
		{"webhook", "tls_verify", "yes", "must be true or false"},
		{"webhook", "tls_verify", 1, "must be true or false"},
		{"webhook", "theme", "text", "is not a setting of webhook"},
		{"webhook", "colour", "red", "is not a setting of webhook"},
		{"chat_webhook", "url", nil, "is required"},
		{"chat_webhook", "url", "chat.example.test", "must be an http or https URL"},
		{"chat_webhook", "theme", "dark", "must be one of text, emoji"},
		{"chat_webhook", "token", "x", "is not a setting of chat_webhook"},
		{"chat_webhook", "channel", "#builds", "cannot be changed"},
		{"event_bus", "cloud_region", nil, "is required"},
		{"event_bus", "cloud_region", "nowhere", "must be a region"},
		{"event_bus", "cloud_region", "US-EAST-1", "must be a region"},
		{"event_bus", "cloud_region", 1, "must be a string"},
		{"event_bus", "cloud_account_id", nil, "is required"},
		{"event_bus", "cloud_account_id", "12345678901", "must be a string of 12 digits"},
		{"event_bus", "cloud_account_id", "1234567890123", "12"},
		{"event_bus", "cloud_account_id", "12345678901x", "must be a string of 12 digits"},
		{"event_bus", "cloud_account_id", "********9012", "must be a string of 12 digits"},
		{"event_bus", "cloud_account_id", 123456789012, "must be a string"},
		{"event_bus", "include_build_meta_data", "true", "must be true or false"},
		{"observability_pipeline_visibility", "api_key", nil, "is required"},
		{"observability_pipeline_visibility", "api_key", "", "cannot be blank"},
		{"observability_pipeline_visibility", "api_key", 7, "must be a string"},
		{"observability_pipeline_visibility", "api_key", "********cdef", "is masked"},
		{"observability_pipeline_visibility", "vendor_site", "https://datadoghq.com/", "must be a host name"},
		{"observability_pipeline_visibility", "vendor_tags", 7, "must be a string, or an array of strings"},
		{"observability_pipeline_visibility", "vendor_tags", []any{7}, "has an item that must be a string"},
		{"observability_pipeline_visibility", "vendor_tags", body{"env": "prod"}, "must be a string, or an array of strings"},
		{"open_telemetry_tracing", "endpoint", nil, "is required"},
		{"open_telemetry_tracing", "endpoint", "otlp:4317", "must be an http or https URL"},
		{"open_telemetry_tracing", "service_name", "  ", "cannot be blank"},
		{"open_telemetry_tracing", "headers", "x=y", "must be an object whose values are strings"},
		{"open_telemetry_tracing", "headers", []any{}, "must be an object whose values are strings"},
		{"open_telemetry_tracing", "headers", body{"a": 1}, "must be an object whose values are strings"},
		{"open_telemetry_tracing", "headers", body{"a": nil}, "must be an object whose values are strings"},
		{"open_telemetry_tracing", "headers", body{"a b": "c"}, "not a valid HTTP header name"},
		{"open_telemetry_tracing", "headers", body{"a": "b\r\nc: d"}, "not a valid HTTP header value"},
		{"open_telemetry_tracing", "headers", body{"Host": "x"}, "set by the delivery itself"},
		{"open_telemetry_tracing", "headers", body{"x-a": "1", "X-A": "2"}, "twice"},
		{"open_telemetry_tracing", "headers", pairs(33), "at most 32 keys"},
		{"open_telemetry_tracing", "resource_attributes", body{"a": true}, "must be an object whose values are strings"},
		{"open_telemetry_tracing", "resource_attributes", body{"": "x"}, "blank"},
		{"open_telemetry_tracing", "resource_attributes", pairs(65), "at most 64 keys"},
		{"open_telemetry_tracing", "resource_attributes", body{"a": long(1025)}, "more than 1024 characters"},
		{"open_telemetry_tracing", "tracestate", 7, "must be a string, or an object whose values are strings"},
		{"open_telemetry_tracing", "tracestate", body{"a": 7}, "an object whose values are strings"},
		{"event_log_api", "events", []any{"nothing"}, "is not an event"},
		{"event_log_api", "url", "https://example.test", "is not a setting of event_log_api"},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, c := range cases {
			ada.Post(path, service(c.provider, body{c.setting: c.value})).WantFieldError("settings."+c.setting, c.text)
		}
		for provider, settings := range minimal {
			for setting := range settings {
				sent := service(provider, nil)
				delete(sent["settings"].(body), setting)
				ada.Post(path, sent).WantFieldError("settings."+setting, "is required")
				ada.Post(path, body{"provider": provider}).WantFieldError("settings."+setting, "is required")
			}
		}
		wantEqual(t, "services", ada.Get(path).Len("items"), 0)
	})
}

func TestCreate_RefusesWrongFields(t *testing.T) {
	cases := []struct {
		field string
		value any
		named string
		text  string
	}{
		{"provider", nil, "provider", "is required"},
		{"provider", "", "provider", "is required"},
		{"provider", 7, "provider", "must be a string"},
		{"provider", body{"id": "webhook"}, "provider", "must be a string"},
		{"provider", "pigeon", "provider", "must be one of webhook, chat_webhook, event_bus"},
		{"provider", "Webhook", "provider", "must be one of"},
		{"provider", "chat_workspace", "provider", "connect it through the web interface"},
		{"provider", "tracker", "provider", "connect it through the web interface"},
		{"description", 7, "description", "must be a string"},
		{"description", strings.Repeat("x", 2049), "description", "at most 2048 characters"},
		{"branch_configuration", []string{"main"}, "branch_configuration", "must be a string"},
		{"branch_configuration", strings.Repeat("x", 2049), "branch_configuration", "at most 2048 characters"},
		{"scope", "everything", "scope", "must be one of all, some_projects, exclude_projects, some_teams, some_clusters"},
		{"scope", nil, "scope", "must be one of"},
		{"scope", 7, "scope", "must be a string"},
		{"scope_uuids", "x", "scope_uuids", "must be an array"},
		{"scope_uuids", []any{7}, "scope_uuids", "must be a string"},
		{"build_states", []any{}, "build_states", "must be an object"},
		{"build_states", "all", "build_states", "must be an object"},
		{"build_states", nil, "build_states", "must be an object"},
		{"build_states", body{"build_failed": "yes"}, "build_states.build_failed", "must be true or false"},
		{"build_states", body{"build_failed": 1}, "build_states.build_failed", "must be true or false"},
		{"build_states", body{"build_failed": nil}, "build_states.build_failed", "must be true or false"},
		{"build_states", body{"build_exploded": true}, "build_states.build_exploded", "is not a known field"},
		{"settings", "x", "settings", "must be an object"},
		{"settings", []any{}, "settings", "must be an object"},
		{"settings", nil, "settings", "must be an object"},
		{"colour", "red", "colour", "is not a known field"},
		{"name", "x", "name", "is not a known field"},
		{"id", core.NewID(), "id", "is read-only"},
		{"graphql_id", "x", "graphql_id", "is read-only"},
		{"url", "https://example.test", "url", "is read-only"},
		{"enabled", true, "enabled", "is read-only"},
		{"enabled", false, "enabled", "is read-only"},
		{"created_at", "2026-01-02T03:04:05Z", "created_at", "is read-only"},
		{"created_by", nil, "created_by", "is read-only"},
		{"created_by", body{"id": servertest.AdaID}, "created_by", "is read-only"},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, c := range cases {
			ada.Post(path, with(service("webhook", nil), body{c.field: c.value})).WantFieldError(c.named, c.text)
		}
		ada.Post(path, nil).WantFieldError("provider", "is required")
		// All problems are reported at once, also in the message.
		all := ada.Post(path, body{"provider": "webhook", "scope": "x", "id": "y", "settings": body{"theme": "z", "version": 9}})
		for field, text := range map[string]string{
			"scope": "must be one of", "id": "is read-only", "settings.theme": "is not a setting", "settings.version": "from 1 to 3", "settings.url": "is required",
		} {
			all.WantFieldError(field, text)
			if !strings.Contains(all.String("message"), field+" ") {
				t.Errorf("%q does not name %s", all.String("message"), field)
			}
		}
		for _, malformed := range []string{`{`, `[]`, `null`, `"x"`, `{"description": "\u0000"}`, "{\"description\": \"\xff\"}"} {
			ada.Post(path, malformed).Want(http.StatusBadRequest)
		}
		many := body{}
		for i := range 1000 {
			many[fmt.Sprintf("x%d", i)] = i
		}
		for _, b := range []body{many, service("webhook", many), with(service("webhook", nil), body{"build_states": many})} {
			if n := ada.Post(path, b).Want(http.StatusUnprocessableEntity).Len("errors"); n > 30 {
				t.Errorf("%d unknown fields are named", n)
			}
		}
		wantEqual(t, "services", ada.Get(path).Len("items"), 0)
	})
}

func TestCreate_FollowsTheOrganizationsFeatures(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		log := ada.Post(path, service("event_log_api", nil)).Want(http.StatusCreated).String("id")
		bus := ada.Post(path, service("event_bus", body{"include_build_meta_data": true})).Want(http.StatusCreated).String("id")
		otel := ada.Post(path, service("open_telemetry_tracing", body{"tracestate": "a=b"})).Want(http.StatusCreated).String("id")

		s.Apply("organizations: [{slug: acme, features: {event_log_api: false, event_bus_build_meta_data: false, tracestate: false}}]")
		ada.Post(path, service("event_log_api", nil)).WantFieldError("provider", "is not available to this organization")
		for _, c := range []struct {
			provider, id, setting string
			value                 any
		}{
			{"event_bus", bus, "include_build_meta_data", true},
			{"event_bus", bus, "include_build_meta_data", false},
			{"event_bus", bus, "include_build_meta_data", nil},
			{"open_telemetry_tracing", otel, "tracestate", "a=b"},
		} {
			ada.Post(path, service(c.provider, body{c.setting: c.value})).WantFieldError("settings."+c.setting, "is not available to this organization")
			ada.Patch(path+"/"+c.id, body{"settings": body{c.setting: c.value}}).WantFieldError("settings."+c.setting, "is not available to this organization")
			made := ada.Post(path, service(c.provider, nil)).Want(http.StatusCreated)
			if made.Has("settings."+c.setting) || ada.Get(path+"/"+c.id).Want(http.StatusOK).Has("settings."+c.setting) {
				t.Errorf("%s shows %s", c.provider, c.setting)
			}
		}
		// What exists can still be looked at and done away with.
		ada.Get(path + "/" + log).Want(http.StatusOK)
		ada.Patch(path+"/"+log, body{"description": "Old"}).Want(http.StatusOK)
		ada.Put(path+"/"+log+"/disable", nil).Want(http.StatusOK)
		ada.Delete(path + "/" + log).Want(http.StatusNoContent)

		s.Apply("organizations: [{slug: acme, features: {event_bus_build_meta_data: true, tracestate: true}}]")
		wantEqual(t, "include_build_meta_data", ada.Get(path+"/"+bus).At("settings.include_build_meta_data"), true)
		wantEqual(t, "tracestate", ada.Get(path+"/"+otel).At("settings.tracestate"), "a=b")
	})
}

func TestCreate_EndsAtAThousand(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		first := ada.Post(path, service("event_log_api", nil)).Want(http.StatusCreated).String("id")
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			for range 999 {
				_, err := q.Exec(`
					INSERT INTO notification_services (id, organization_id, provider, description, scope, scope_uuids, branch_configuration, build_states, settings, connected, disabled, created_at)
					SELECT $1, organization_id, provider, description, scope, scope_uuids, branch_configuration, build_states, settings, connected, disabled, created_at
					FROM notification_services WHERE id = $2`, core.NewID(), first)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ada.Post(path, service("webhook", nil)).WantMessage(http.StatusUnprocessableEntity,
			"The organization has 1000 notification services, which is as many as it can have; delete one first")
		s.As(t, servertest.Cy).Post(rivalPath, service("webhook", nil)).Want(http.StatusCreated)
		ada.Delete(path + "/" + first).Want(http.StatusNoContent)
		ada.Post(path, service("webhook", nil)).Want(http.StatusCreated)
	})
}
