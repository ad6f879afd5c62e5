package notifications

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

func TestMaskOf_ShowsTheLastCharacters(t *testing.T) {
	for secret, want := range map[string]string{
		"":                "********",
		"ab":              "********",
		"abc":             "********c",
		"abcdef":          "********ef",
		"123456789012":    "********9012",
		"a-long-key-cdef": "********cdef",
		"schlüssel-größe": "********röße",
	} {
		if got := maskOf(canonical(secret)); got != want {
			t.Errorf("%q: %q, want %q", secret, got, want)
		}
	}
}

func TestProviders_AreConsistent(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range providers {
		if seen[p.ID] || p.Name == "" {
			t.Errorf("provider %q is there twice or has no name", p.ID)
		}
		seen[p.ID] = true
		names := make(map[string]bool)
		for _, s := range p.Settings {
			switch {
			case names[s.Name]:
				t.Errorf("%s has the setting %s twice", p.ID, s.Name)
			case s.Doc == "" || s.Kind == nil:
				t.Errorf("%s of %s has no description or no kind", s.Name, p.ID)
			case s.Required && s.Default != nil:
				t.Errorf("%s of %s is required and has a default", s.Name, p.ID)
			case s.Default != nil:
				if _, broken := s.Kind.read(canonical(s.Default())); broken != "" {
					t.Errorf("the default of %s of %s %s", s.Name, p.ID, broken)
				}
			}
			names[s.Name] = true
		}
	}
}

func TestTags_ReadBothForms(t *testing.T) {
	for raw, want := range map[string][]string{`" a:b, ,c:d"`: {"a:b", "c:d"}, `["a:b","c:d"]`: {"a:b", "c:d"}, `""`: nil, `null`: nil} {
		var s PipelineVisibilitySettings
		if err := (Settings{"vendor_tags": json.RawMessage(raw)}).Decode(&s); err != nil || !slices.Equal(s.Tags, want) {
			t.Errorf("%s: %q, %v", raw, s.Tags, err)
		}
	}
}

func TestTraceState_ReadsBothForms(t *testing.T) {
	for raw, want := range map[string]TraceState{`"a=b,c=d"`: "a=b,c=d", `{"c":"d","a":"b"}`: "a=b,c=d", `{}`: "", `null`: ""} {
		var s OpenTelemetrySettings
		if err := (Settings{"tracestate": json.RawMessage(raw)}).Decode(&s); err != nil || s.TraceState != want {
			t.Errorf("%s: %q, %v", raw, s.TraceState, err)
		}
	}
}

// A mask shows at most four characters, and sending it back keeps the secret.
func FuzzMask(f *testing.F) {
	f.Add("0123456789abcdef0123456789abcdef")
	f.Add("********cdef")
	f.Add("ключ-и-замок")
	f.Fuzz(func(t *testing.T, secret string) {
		if !utf8.ValidString(secret) {
			return
		}
		key := pipelineVisibility.setting("api_key")
		stored := canonical(secret)
		mask := maskOf(stored)
		shown := strings.TrimPrefix(mask, masking)
		if n := utf8.RuneCountInString(shown); n > maxUnmasked || 3*n > utf8.RuneCountInString(secret) {
			t.Errorf("%q is shown as %q", secret, mask)
		}
		if next, broken := key.next(&Receiver{}, stored, canonical(mask)); broken != "" || !bytes.Equal(next, stored) {
			t.Errorf("%q sent back as %q becomes %s, %s", secret, mask, next, broken)
		}
		// Other masks are rejected.
		if next, broken := key.next(&Receiver{}, canonical("another secret"), canonical(mask)); broken == "" && !bytes.Equal(next, canonical("another secret")) {
			t.Errorf("%q is taken for a secret", mask)
		}
	})
}

// Arbitrary settings are rejected, or give settings that can be shown, sent back unchanged and decoded for delivery.
func FuzzSettings(f *testing.F) {
	f.Add("webhook", `{"url": "https://example.test", "events": ["ping"], "version": 1}`, `{"version": 2, "token": null}`)
	f.Add("chat_webhook", `{"url": "https://example.test", "theme": "emoji"}`, `{"theme": null}`)
	f.Add("event_bus", `{"cloud_region": "us-east-1", "cloud_account_id": "123456789012"}`, `{"cloud_account_id": "********9012"}`)
	f.Add("observability_pipeline_visibility", `{"api_key": "k", "vendor_tags": ["a", "b"]}`, `{"vendor_tags": "a"}`)
	f.Add("open_telemetry_tracing", `{"endpoint": "http://a", "headers": {"a": "b"}, "tracestate": {"a": "b"}}`, `{"resource_attributes": {"\u003c": ""}}`)
	f.Add("event_log_api", `{}`, `{"events": []}`)
	f.Add("tracker", `{"access_token": "x"}`, `{"workspace_id": null}`)
	f.Fuzz(func(t *testing.T, provider, create, update string) {
		p := ProviderByID(provider)
		var first, second map[string]json.RawMessage
		if p == nil || json.Unmarshal([]byte(create), &first) != nil || json.Unmarshal([]byte(update), &second) != nil {
			return
		}
		features := identity.DefaultFeatures
		r := &Receiver{Provider: p}
		var problems core.Problems
		settings := p.create(first, features, &problems)
		if len(problems) > 0 {
			return
		}
		next := p.merge(r, settings, second, features, &problems)
		if len(problems) > 0 {
			next = settings
		}
		checkSound(t, p, next)
		shown, err := json.Marshal(p.view(next, features))
		if err != nil {
			t.Fatal(err)
		}
		var sentBack map[string]json.RawMessage
		if err := json.Unmarshal(shown, &sentBack); err != nil {
			t.Fatal(err)
		}
		problems = nil
		if again := p.merge(r, next, sentBack, features, &problems); len(problems) > 0 || !again.equal(next) {
			t.Errorf("%s: what is shown, %s, is sent back and makes %v of %v, %v", provider, shown, again, next, problems)
		}
	})
}

// checkSound checks the invariants that deliveries rely on.
func checkSound(t *testing.T, p *Provider, s Settings) {
	t.Helper()
	decoded := map[string]any{
		"webhook": new(WebhookSettings), "chat_webhook": new(ChatWebhookSettings), "event_bus": new(EventBusSettings),
		"observability_pipeline_visibility": new(PipelineVisibilitySettings), "open_telemetry_tracing": new(OpenTelemetrySettings),
		"event_log_api": new(EventLogSettings), "chat_workspace": new(ChatWorkspaceSettings), "tracker": new(TrackerSettings),
	}[p.ID]
	if err := s.Decode(decoded); err != nil {
		t.Errorf("%s: %v cannot be decoded: %v", p.ID, s, err)
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if p.setting(name) == nil {
			t.Errorf("%s has the setting %s", p.ID, name)
		}
	}
	for _, setting := range p.Settings {
		if setting.Required && s[setting.Name] == nil {
			t.Errorf("%s lacks %s", p.ID, setting.Name)
		}
	}
}
