package delivery_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications/eventbus"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/mail/mailtest"
	"stackyard/internal/domain/notifications/notificationstest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A transcript is what arrived at receivers, one line for each message. With -v the test prints it.
type transcript map[string][]string

func (t transcript) add(receiver, format string, args ...any) {
	t[receiver] = append(t[receiver], fmt.Sprintf(format, args...))
}

// One failed and one fixed build notify a receiver of each kind.
func TestBuild_NotifiesEachKindOfReceiver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		workspace, bus, inbox := notificationstest.NewWorkspace(t), newBus(t), mailtest.Start(t, mail.StartTLS)
		receiver := newReceiver(t)
		s := servertest.Start(t, d, func(p *server.Parts) {
			p.Connections = workspace.Connections()
			p.Endpoints = delivery.Endpoints{
				VisibilityURL: receiver.URL + "/visibility",
				EventBus:      eventbus.Config{Endpoint: bus.URL, AccessKeyID: "AKID", SecretAccessKey: "secret"},
			}
		})
		s.Apply(servertest.World)
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), receiver: receiver, workspace: workspace}
		states := fields{"build_states": fields{"build_failed": true, "build_fixed": true}}
		w.service("webhook", fields{"url": receiver.URL + "/webhook", "events": []string{"build.running", "build.finished", "job.finished"}}, nil)
		w.service("chat_webhook", fields{"url": receiver.URL + "/chat"}, states)
		w.service("event_bus", fields{"cloud_region": "eu-west-1", "cloud_account_id": "123456789012"}, states)
		w.service("observability_pipeline_visibility", fields{"api_key": "key-of-the-vendor"}, nil)
		w.service("open_telemetry_tracing", fields{"endpoint": receiver.URL + "/otlp"}, nil)
		log := w.service("event_log_api", fields{"events": []string{"build.finished"}}, nil).String("id")
		w.service("smtp", fields{"server": inbox.Address, "username": mailtest.Username, "password": mailtest.Password, "from": "ci@acme.test", "tls_verify": false}, states)
		w.settings(w.connect("chat_workspace"), fields{"channel": "#builds", "theme": "emoji"})
		w.connect("tracker")

		for _, exit := range []string{"1", "0"} {
			build := w.notifying(`
steps: [{command: make test, label: Test}]
notify:
  - webhook: "%s/notify"
  - email: team@acme.test
    if: build.state == "failed"
  - slack: "#other"
    if: pipeline.started_passing
`)
			w.finish(build, exit)
			w.runDue()
		}

		got := transcript{}
		for _, r := range receiver.take() {
			got.addRequest(r)
		}
		for _, entry := range bus.entries {
			got.add("event_bus", "%s %s", entry.DetailType, state(t, entry.Detail))
		}
		for _, m := range inbox.Received() {
			_, subject, _ := strings.Cut(string(m.Body), "Subject: ")
			subject, _, _ = strings.Cut(subject, "\r\n")
			got.add("smtp", "to %s: %s", m.To[0], subject)
		}
		for _, m := range workspace.Messages() {
			got.add("chat_workspace", "%s %s", m.Channel, m.Text)
		}
		for _, i := range workspace.Issues() {
			got.add("tracker", "%s %s", i.Identifier, i.Title)
			for _, c := range i.Comments {
				first, _, _ := strings.Cut(c.Body, "\n")
				got.add("tracker", "comment: %s", strings.ReplaceAll(first, w.URL, ""))
			}
		}
		events := w.ada.Get(services + "/" + log + "/events").Want(http.StatusOK)
		for i := range events.Len("items") {
			at := fmt.Sprintf("items.%d.", i)
			got.add("event_log_api", "%s %s", events.String(at+"event"), events.String(at+"payload.build.state"))
		}
		for _, name := range slices.Sorted(maps.Keys(got)) {
			for _, line := range got[name] {
				t.Logf("%-34s %s", name, line)
			}
		}
		got.want(t)
	})
}

// addRequest adds an HTTP request to the receiver that its path names.
func (t transcript) addRequest(r *request) {
	r.t.Helper()
	switch name := strings.Split(r.Path, "/")[1]; name {
	case "webhook", "notify":
		if event := r.Get("X-Service-Event"); event != "ping" {
			t.add(name, "%s %s", event, state(r.t, string(r.Body)))
		}
	case "chat":
		t.add("chat_webhook", "%s", r.at("text"))
	case "visibility":
		t.add("observability_pipeline_visibility", "%s %s", r.at("data.attributes.resource.level"), r.at("data.attributes.resource.status"))
	case "otlp":
		plain, err := gzip.NewReader(bytes.NewReader(r.Body))
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := io.ReadAll(plain)
		if err != nil {
			r.t.Fatal(err)
		}
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			r.t.Fatal(err)
		}
		spans := data.ResourceSpans[0].ScopeSpans[0].Spans
		if id := hex.EncodeToString(spans[0].TraceId); len(id) != 32 {
			r.t.Errorf("the trace id is %q", id)
		}
		t.add("open_telemetry_tracing", "%d spans, %s", len(spans), spans[0].Status.GetCode())
	default:
		r.t.Errorf("a request to %s", r.Path)
	}
}

// state returns the state of the build in a payload.
func state(t testing.TB, payload string) string {
	t.Helper()
	var sent struct{ Build struct{ State string } }
	if err := json.Unmarshal([]byte(payload), &sent); err != nil {
		t.Fatal(err)
	}
	return sent.Build.State
}

// want checks that everything arrived. Messages of different builds and targets can arrive in any order.
func (t transcript) want(test *testing.T) {
	test.Helper()
	for receiver, want := range (transcript{
		"webhook":                           {"build.running running", "job.finished failed", "build.finished failed", "build.running running", "job.finished passed", "build.finished passed"},
		"notify":                            {"build.finished failed", "build.finished passed"},
		"chat_webhook":                      {"Build Hello #1 failed", "Build Hello #2 passed and is fixed"},
		"chat_workspace":                    {"#builds :x: Build Hello #1 failed", "#builds :tada: Build Hello #2 passed and is fixed", "#other :tada: Build Hello #2 passed and is fixed"},
		"tracker":                           {"ENG-100 Hello failed on main", `comment: Build [Hello \#2](/acme/hello/builds/2) **passed and is fixed**.`},
		"event_bus":                         {"Build Finished failed", "Build Finished passed"},
		"observability_pipeline_visibility": {"job error", "pipeline error", "job success", "pipeline success"},
		"open_telemetry_tracing":            {"3 spans, STATUS_CODE_ERROR", "3 spans, STATUS_CODE_UNSET"},
		"event_log_api":                     {"build.finished failed", "build.finished passed"},
		"smtp":                              {"to ada@acme.test: [main] Hello #1 failed", "to team@acme.test: [main] Hello #1 failed", "to ada@acme.test: [main] Hello #2 is fixed"},
	}) {
		if arrived := slices.Sorted(slices.Values(t[receiver])); !slices.Equal(arrived, slices.Sorted(slices.Values(want))) {
			test.Errorf("%s got %q, want %q", receiver, arrived, want)
		}
	}
}

// An eventBridge answers PutEvents as Amazon EventBridge does.
type eventBridge struct {
	*httptest.Server
	mu      sync.Mutex
	entries []struct{ DetailType, Detail string }
}

func newBus(t *testing.T) *eventBridge {
	b := &eventBridge{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		var sent struct {
			Entries []struct{ DetailType, Detail string }
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
			t.Errorf("%v, %v", r.Header, err)
		}
		b.entries = append(b.entries, sent.Entries...)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		io.WriteString(w, `{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}`)
	}))
	t.Cleanup(b.Close)
	return b
}
