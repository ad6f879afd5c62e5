package notifications_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// stored returns the row of a service as the database has it, and its settings in the clear.
func stored(t *testing.T, s *servertest.Server, id string) (*notifications.Receiver, notifications.Settings) {
	t.Helper()
	var receivers []*notifications.Receiver
	err := s.DB.Read(t.Context(), func(q *db.Q) (err error) {
		orgs, _, err := identity.OrganizationsByID(q, []string{organization(t, q)}, 1, 0)
		if err != nil {
			return err
		}
		receivers, err = notifications.Enabled(q, orgs[0].ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receivers {
		if r.ID == id {
			settings, err := notifications.New(s.DB, s.Key, "", s.Clock.Now, notifications.Connections{}).Settings(r, identity.DefaultFeatures)
			if err != nil {
				t.Fatal(err)
			}
			return r, settings
		}
	}
	t.Fatalf("service %s is not enabled", id)
	return nil, nil
}

func organization(t *testing.T, q *db.Q) string {
	t.Helper()
	org, err := identity.OrganizationBySlug(q, "acme")
	if err != nil {
		t.Fatal(err)
	}
	return org.ID
}

// everyProvider makes a service of each provider with all its settings, and returns their paths by provider.
func everyProvider(t *testing.T, s *servertest.Server) map[string]string {
	t.Helper()
	ada := s.As(t, servertest.Ada)
	paths := make(map[string]string)
	for provider, more := range map[string]body{
		"webhook":                           {"token": "xyz", "token_mode": "signature", "version": 2, "events": []string{"build.finished"}, "tls_verify": false},
		"chat_webhook":                      {"theme": "emoji"},
		"event_bus":                         {"include_build_meta_data": true},
		"observability_pipeline_visibility": {"vendor_site": "datadoghq.eu", "vendor_tags": "a:b"},
		"open_telemetry_tracing":            {"headers": body{"Authorization": "Bearer s3cret"}, "resource_attributes": body{"a<b": "c&d"}, "tracestate": body{"a": "b"}},
		"event_log_api":                     {"events": []string{"job.finished"}},
	} {
		made := ada.Post(path, with(service(provider, more), body{
			"description": "Café <b>", "branch_configuration": "main", "scope": "some_clusters", "scope_uuids": []string{servertest.AcmeClusterID},
			"build_states": body{"build_failed": true},
		})).Want(http.StatusCreated)
		paths[provider] = path + "/" + made.String("id")
	}
	paths["chat_workspace"] = connect(t, s, "chat_workspace", authorization)
	paths["tracker"] = connect(t, s, "tracker", authorization)
	paths["chat_webhook, connected"] = connect(t, s, "chat_webhook", map[string]string{"url": "https://chat.example.test/T/B/s", "channel": "#builds", "workspace_name": "Acme"})
	return paths
}

func TestUpdate_WithTheBodyOfAGetChangesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for provider, at := range everyProvider(t, s) {
			shown := ada.Get(at).Want(http.StatusOK)
			row, settings := stored(t, s, shown.String("id"))
			s.Clock.Advance(time.Minute)
			for _, sent := range []any{string(shown.Body), body{}, nil, body{"settings": shown.At("settings")}, body{"settings": body{}, "build_states": body{}}} {
				patched := ada.Patch(at, sent).Want(http.StatusOK)
				wantEqual(t, provider+" patched", patched.At(""), shown.At(""))
			}
			again, same := stored(t, s, shown.String("id"))
			wantEqual(t, provider+" in the database", again, row)
			wantEqual(t, provider+"'s settings", same, settings)
		}
	})
}

func TestUpdate_ChangesOnlyWhatIsSent(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		at := everyProvider(t, s)["webhook"]
		want := ada.Get(at).At("").(body)
		settings, states := want["settings"].(body), want["build_states"].(body)
		for _, step := range []struct {
			sent   body
			change func()
		}{
			{body{"description": "New"}, func() { want["description"] = "New" }},
			{body{"description": nil}, func() { want["description"] = "" }},
			{body{"branch_configuration": "release/*"}, func() { want["branch_configuration"] = "release/*" }},
			{body{"branch_configuration": ""}, func() { want["branch_configuration"] = "" }},
			{body{"build_states": body{"build_passed": true}}, func() { states["build_passed"] = true }},
			{body{"build_states": body{"build_failed": false, "job_activated": true}}, func() { states["build_failed"], states["job_activated"] = false, true }},
			{body{"settings": body{"url": "https://other.test/"}}, func() { settings["url"] = "https://other.test/" }},
			{body{"settings": body{"token": "new"}}, func() { settings["token"] = "new" }},
			{body{"settings": body{"token_mode": nil}}, func() { settings["token_mode"] = "token" }},
			{body{"settings": body{"events": []any{}}}, func() { settings["events"] = []any{} }},
			{body{"settings": body{"events": []any{"job.started"}, "tls_verify": true}}, func() { settings["events"], settings["tls_verify"] = []any{"job.started"}, true }},
			{body{"provider": "webhook"}, func() {}},
			{body{"provider": body{"id": "webhook", "name": "Webhook"}}, func() {}},
			{body{"settings": body{"version": 3}}, func() { settings["version"] = 3.0 }},
		} {
			patched := ada.Patch(at, step.sent).Want(http.StatusOK)
			step.change()
			wantEqual(t, "after "+string(must(json.Marshal(step.sent))), patched.At(""), any(want))
			wantEqual(t, "get", ada.Get(at).At(""), any(want))
		}
		token := ada.Patch(at, body{"settings": body{"token": nil}}).Want(http.StatusOK).String("settings.token")
		if token == "new" || len(token) < 32 {
			t.Errorf("null makes the token %q", token)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestUpdate_RefusesWhatCannotBeChanged(t *testing.T) {
	const web = "connected through the web interface"
	cases := []struct {
		provider string
		sent     body
		field    string
		text     string
	}{
		{"webhook", body{"provider": "chat_webhook"}, "provider", "cannot be changed; it is webhook"},
		{"webhook", body{"provider": nil}, "provider", "cannot be changed"},
		{"webhook", body{"provider": 7}, "provider", "must be"},
		{"webhook", body{"provider": body{"name": "Webhook"}}, "provider", "must be the id of a provider"},
		{"webhook", body{"id": core.NewID()}, "id", "is read-only"},
		{"webhook", body{"graphql_id": nil}, "graphql_id", "is read-only"},
		{"webhook", body{"url": "https://example.test"}, "url", "is read-only"},
		{"webhook", body{"enabled": false}, "enabled", "is read-only; use PUT …/enable or PUT …/disable"},
		{"webhook", body{"created_at": "2020-01-02T03:04:05.000Z"}, "created_at", "is read-only"},
		{"webhook", body{"created_by": nil}, "created_by", "is read-only"},
		{"webhook", body{"broken": nil}, "broken", "is read-only"},
		{"webhook", body{"colour": "red"}, "colour", "is not a known field"},
		{"webhook", body{"settings": body{"version": 1}}, "settings.version", "cannot be lowered"},
		{"webhook", body{"settings": body{"version": 4}}, "settings.version", "from 1 to 3"},
		{"webhook", body{"settings": body{"url": nil}}, "settings.url", "is required"},
		{"webhook", body{"settings": body{"url": ""}}, "settings.url", "cannot be blank"},
		{"webhook", body{"settings": body{"theme": "text"}}, "settings.theme", "is not a setting of webhook"},
		{"webhook", body{"settings": nil}, "settings", "must be an object"},
		{"webhook", body{"build_states": nil}, "build_states", "must be an object"},
		{"webhook", body{"build_states": body{"x": true}}, "build_states.x", "is not a known field"},
		{"webhook", body{"scope": nil}, "scope", "must be one of"},
		{"event_bus", body{"settings": body{"cloud_region": "eu-west-1"}}, "settings.cloud_region", "cannot be changed"},
		{"event_bus", body{"settings": body{"cloud_account_id": "210987654321"}}, "settings.cloud_account_id", "cannot be changed"},
		{"event_bus", body{"settings": body{"cloud_account_id": "********9999"}}, "settings.cloud_account_id", "12 digits"},
		{"event_bus", body{"settings": body{"cloud_account_id": "9012"}}, "settings.cloud_account_id", "12 digits"},
		{"event_bus", body{"settings": body{"cloud_region": nil}}, "settings.cloud_region", "is required"},
		{"observability_pipeline_visibility", body{"settings": body{"api_key": "********0000"}}, "settings.api_key", "is masked"},
		{"observability_pipeline_visibility", body{"settings": body{"api_key": nil}}, "settings.api_key", "is required"},
		{"chat_workspace", body{"settings": body{"access_token": "mine"}}, "settings.access_token", web},
		{"chat_workspace", body{"settings": body{"refresh_token": nil}}, "settings.refresh_token", web},
		{"chat_workspace", body{"settings": body{"workspace_id": "T999"}}, "settings.workspace_id", web},
		{"chat_workspace", body{"settings": body{"workspace_name": "Other"}}, "settings.workspace_name", web},
		{"chat_workspace", body{"settings": body{"url": "https://x.test"}}, "settings.url", "is not a setting of chat_workspace"},
		{"tracker", body{"settings": body{"access_token": "mine"}}, "settings.access_token", web},
		{"tracker", body{"provider": "webhook"}, "provider", "cannot be changed; it is tracker"},
		{"chat_webhook, connected", body{"settings": body{"url": "https://other.test/x"}}, "settings.url", web},
		{"chat_webhook, connected", body{"settings": body{"channel": "#other"}}, "settings.channel", web},
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		paths := everyProvider(t, s)
		before := ada.Get(path + "?per_page=100").At("")
		for _, c := range cases {
			ada.Patch(paths[c.provider], c.sent).WantFieldError(c.field, c.text)
			// What is wrong keeps everything else from being changed.
			ada.Patch(paths[c.provider], with(c.sent, body{"description": "changed"})).Want(http.StatusUnprocessableEntity)
		}
		for _, malformed := range []string{`{`, `[]`, `null`, `7`} {
			ada.Patch(paths["webhook"], malformed).Want(http.StatusBadRequest)
		}
		wantEqual(t, "services", ada.Get(path+"?per_page=100").At(""), before)
	})
}

func TestUpdate_TakesUnchangedValuesOfWhatCannotBeChanged(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		paths := everyProvider(t, s)
		for provider, sent := range map[string][]body{
			"webhook":                 {{"version": 2}},
			"event_bus":               {{"cloud_region": "us-east-1", "cloud_account_id": "123456789012"}, {"cloud_account_id": "********9012"}},
			"chat_workspace":          {{"workspace_id": "T012", "access_token": "xoxb-secret"}},
			"chat_webhook, connected": {{"url": "https://chat.example.test/T/B/s", "channel": "#builds"}},
		} {
			for _, settings := range sent {
				before := ada.Get(paths[provider]).At("")
				wantEqual(t, provider, ada.Patch(paths[provider], body{"settings": settings}).Want(http.StatusOK).At(""), before)
			}
		}
		for provider, settings := range map[string]body{
			"chat_workspace":          {"theme": "emoji", "channel": "#ci"},
			"chat_webhook, connected": {"theme": "emoji"},
		} {
			patched := ada.Patch(paths[provider], body{"settings": settings, "description": "Ours"}).Want(http.StatusOK)
			wantEqual(t, provider+"'s description", patched.At("description"), "Ours")
			for name, value := range settings {
				wantEqual(t, provider+" "+name, patched.At("settings."+name), value)
			}
		}
	})
}

func TestUpdate_KeepsAMaskedSecretAndTakesANewOne(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(path, service("observability_pipeline_visibility", nil)).Want(http.StatusCreated)
		at, id := path+"/"+made.String("id"), made.String("id")
		key := func() string {
			_, settings := stored(t, s, id)
			var v notifications.PipelineVisibilitySettings
			if err := settings.Decode(&v); err != nil {
				t.Fatal(err)
			}
			return v.APIKey
		}
		wantEqual(t, "key", key(), minimal["observability_pipeline_visibility"]["api_key"])
		ada.Patch(at, body{"settings": body{"api_key": made.At("settings.api_key"), "vendor_site": "datadoghq.eu"}}).Want(http.StatusOK)
		wantEqual(t, "key after its mask was sent", key(), minimal["observability_pipeline_visibility"]["api_key"])
		patched := ada.Patch(at, body{"settings": body{"api_key": "another-key-4321"}}).Want(http.StatusOK)
		wantEqual(t, "mask", patched.At("settings.api_key"), "********4321")
		wantEqual(t, "site", patched.At("settings.vendor_site"), "datadoghq.eu")
		wantEqual(t, "new key", key(), "another-key-4321")
		// The mask of a key that was replaced since is not a key.
		ada.Patch(at, body{"settings": body{"api_key": made.At("settings.api_key")}}).WantFieldError("settings.api_key", "is masked")
		wantEqual(t, "key", key(), "another-key-4321")

		chat := ada.Post(path, service("chat_webhook", nil)).Want(http.StatusCreated).String("id")
		ada.Patch(path+"/"+chat, body{"settings": body{"url": "https://chat.example.test/new"}}).Want(http.StatusOK)
		_, settings := stored(t, s, chat)
		wantEqual(t, "url", string(settings["url"]), `"https://chat.example.test/new"`)
		otel := ada.Post(path, service("open_telemetry_tracing", body{"headers": body{"a": "b"}})).Want(http.StatusCreated).String("id")
		ada.Patch(path+"/"+otel, body{"settings": body{"headers": body{"c": "d"}}}).Want(http.StatusOK)
		_, settings = stored(t, s, otel)
		wantEqual(t, "headers", string(settings["headers"]), `{"c":"d"}`)
		ada.Patch(path+"/"+otel, body{"settings": body{"headers": nil}}).Want(http.StatusOK)
		_, settings = stored(t, s, otel)
		wantEqual(t, "headers", string(settings["headers"]), `{}`)
	})
}

func TestSettings_AreSealedAtRest(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		everyProvider(t, s)
		var texts []string
		err := s.DB.Read(t.Context(), func(q *db.Q) (err error) {
			texts, err = db.Strings(q, `SELECT settings FROM notification_services`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "services", len(texts), 9)
		for _, text := range texts {
			if !strings.HasPrefix(text, "s1.") || strings.Contains(text, "{") {
				t.Errorf("settings are stored as %s", text)
			}
		}
	})
}

func TestEnable_ClearsDisabledAndBroken(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for provider, at := range everyProvider(t, s) {
			before := ada.Get(at).At("")
			for range 2 {
				disabled := ada.Put(at+"/disable", nil).Want(http.StatusOK)
				wantEqual(t, provider+" disabled", disabled.At("enabled"), false)
				wantEqual(t, provider, ada.Get(at).At(""), disabled.At(""))
			}
			ada.Patch(at, body{"description": "x"}).Want(http.StatusOK)
			wantEqual(t, provider+" patched", ada.Get(at).At("enabled"), false)
			ada.Patch(at, body{"description": before.(body)["description"]}).Want(http.StatusOK)
			for range 2 {
				wantEqual(t, provider+" enabled", ada.Put(at+"/enable", body{}).Want(http.StatusOK).At(""), before)
			}
			markBroken := func(reason string) {
				t.Helper()
				err := s.DB.Write(t.Context(), func(q *db.Q) error {
					return notifications.MarkBroken(q, organization(t, q), at[len(path)+1:], reason, s.Clock.Now())
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			markBroken("Every delivery failed")
			markBroken("Later")
			broken := ada.Get(at).Want(http.StatusOK)
			wantEqual(t, provider+" broken", broken.At("enabled"), false)
			wantEqual(t, "broken", broken.At("broken"), any(body{"at": s.Clock.Now().Format("2006-01-02T15:04:05.000Z"), "reason": "Every delivery failed"}))
			ada.Patch(at, string(broken.Body)).Want(http.StatusOK)
			ada.Put(at+"/disable", nil).Want(http.StatusOK)
			wantEqual(t, provider+" enabled again", ada.Put(at+"/enable", nil).Want(http.StatusOK).At(""), before)
		}
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			return notifications.MarkBroken(q, organization(t, q), core.NewID(), "Gone", s.Clock.Now())
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestDelete_RemovesServicesOfEveryProvider(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, at := range everyProvider(t, s) {
			if deleted := ada.Delete(at).Want(http.StatusNoContent); len(deleted.Body) > 0 {
				t.Errorf("delete answers with %s", deleted.Body)
			}
			ada.Get(at).WantMessage(http.StatusNotFound, missing)
			ada.Delete(at).WantMessage(http.StatusNotFound, missing)
			ada.Patch(at, body{"description": 7}).WantMessage(http.StatusNotFound, missing)
			ada.Put(at+"/enable", nil).WantMessage(http.StatusNotFound, missing)
			ada.Put(at+"/disable", nil).WantMessage(http.StatusNotFound, missing)
		}
		wantEqual(t, "services", ada.Get(path).Len("items"), 0)
	})
}

func TestConnect_AgainReplacesTheCredentials(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		at := connect(t, s, "chat_workspace", authorization)
		ada.Patch(at, body{"description": "Ours"}).Want(http.StatusOK)
		ada.Put(at+"/disable", nil).Want(http.StatusOK)
		again := map[string]string{"workspace_id": "T012", "workspace_name": "Acme Inc", "access_token": "new"}
		wantEqual(t, "path", connect(t, s, "chat_workspace", again), at)
		shown := ada.Get(at).Want(http.StatusOK)
		wantEqual(t, "enabled", shown.At("enabled"), true)
		wantEqual(t, "description", shown.At("description"), "Ours")
		wantEqual(t, "workspace_name", shown.At("settings.workspace_name"), "Acme Inc")
		_, settings := stored(t, s, shown.String("id"))
		wantEqual(t, "access_token", string(settings["access_token"]), `"new"`)
		if other := connect(t, s, "chat_workspace", map[string]string{"workspace_id": "T999", "access_token": "x"}); other == at {
			t.Error("another workspace is connected to the same service")
		}
	})
}
