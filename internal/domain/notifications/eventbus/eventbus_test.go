package eventbus_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stackyard/internal/domain/notifications/eventbus"
)

const (
	keyID  = "AKIDEXAMPLE"
	secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// A bridge takes events like EventBridge: it checks the signature of requests and answers in their format.
type bridge struct {
	*httptest.Server
	status  int    // of answers; 0: 200
	body    string // of answers; empty: the event was taken
	entries []map[string]any
}

func newBridge(t *testing.T) *bridge {
	b := &bridge{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if signed(r, body) != r.Header.Get("Authorization") || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"__type": "InvalidSignatureException", "message": "bad signature"}`)
			return
		}
		var sent struct{ Entries []map[string]any }
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Error(err)
		}
		b.entries = append(b.entries, sent.Entries...)
		w.WriteHeader(cmp.Or(b.status, http.StatusOK))
		io.WriteString(w, cmp.Or(b.body, `{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}`))
	}))
	t.Cleanup(b.Close)
	return b
}

// signed returns the Authorization header that a request must have, by the rules of Signature Version 4.
func signed(r *http.Request, body []byte) string {
	header := r.Header.Get("Authorization")
	_, list, _ := strings.Cut(header, "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	_, scope, _ := strings.Cut(header, "Credential="+keyID+"/")
	scope, _, _ = strings.Cut(scope, ",")
	parts := strings.Split(scope, "/")
	if len(parts) != 4 || parts[1] != "eu-west-1" || parts[2] != "events" {
		return ""
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	canonical := r.Method + "\n/\n\n"
	for name := range strings.SplitSeq(list, ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = cmp.Or(value, r.Header.Get("Content-Length"))
		}
		canonical += name + ":" + strings.TrimSpace(value) + "\n"
	}
	canonical += "\n" + list + "\n" + sum(body)
	toSign := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + sum([]byte(canonical))
	key := []byte("AWS4" + secret)
	for _, part := range append(parts, toSign) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return "AWS4-HMAC-SHA256 Credential=" + keyID + "/" + scope + ", SignedHeaders=" + list + ", Signature=" + hex.EncodeToString(key)
}

var bus = eventbus.Bus{Region: "eu-west-1", AccountID: "123456789012"}

func put(t *testing.T, b *bridge, secret string) error {
	t.Helper()
	client := eventbus.New(eventbus.Config{Endpoint: b.URL, AccessKeyID: keyID, SecretAccessKey: secret})
	return client.Put(t.Context(), bus, eventbus.Entry{DetailType: "Build Finished", Detail: `{"version":1}`, Time: time.Unix(1_800_000_000, 0)})
}

func TestPut_SignsTheEvent(t *testing.T) {
	b := newBridge(t)
	if err := put(t, b, secret); err != nil {
		t.Fatal(err)
	}
	if len(b.entries) != 1 {
		t.Fatalf("%d events arrived", len(b.entries))
	}
	for key, want := range map[string]any{
		"EventBusName": "arn:aws:events:eu-west-1:123456789012:event-bus/default",
		"Source":       "stackyard",
		"DetailType":   "Build Finished",
		"Detail":       `{"version":1}`,
		"Time":         1.8e9,
	} {
		if b.entries[0][key] != want {
			t.Errorf("%s is %v, want %v", key, b.entries[0][key], want)
		}
	}
}

func TestPut_ReportsWhetherAnotherAttemptHelps(t *testing.T) {
	for _, c := range []struct {
		name, secret, body string
		status             int
		want               eventbus.Error
	}{
		{"wrong secret", "wrong", "", 0, eventbus.Error{Status: 403, Code: "InvalidSignatureException"}},
		{"throttled", secret, `{"__type": "ThrottlingException", "message": "slow down"}`, 400, eventbus.Error{Status: 400, Code: "ThrottlingException", Retry: true}},
		{"no permission", secret, `{"__type": "AccessDeniedException", "message": "no"}`, 400, eventbus.Error{Status: 400, Code: "AccessDeniedException"}},
		{"server error", secret, `{"__type": "InternalException"}`, 500, eventbus.Error{Status: 500, Code: "InternalException", Retry: true}},
		{"entry refused", secret, `{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "no"}]}`, 200, eventbus.Error{Status: 200, Code: "NotAuthorizedForSourceException"}},
		{"entry throttled", secret, `{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}]}`, 200, eventbus.Error{Status: 200, Code: "ThrottlingException", Retry: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBridge(t)
			b.status, b.body = c.status, c.body
			got, ok := errors.AsType[*eventbus.Error](put(t, b, c.secret))
			if !ok || got.Status != c.want.Status || got.Code != c.want.Code || got.Retry != c.want.Retry {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPut_MayBeRepeatedWithoutAResponse(t *testing.T) {
	b := newBridge(t)
	b.Close()
	if got, ok := errors.AsType[*eventbus.Error](put(t, b, secret)); !ok || got.Status != 0 || !got.Retry {
		t.Errorf("got %+v", got)
	}
}

func TestBus_IsInThePartitionOfItsRegion(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "arn:aws:", "cn-north-1": "arn:aws-cn:", "us-gov-west-1": "arn:aws-us-gov:"} {
		if arn := (eventbus.Bus{Region: region}).ARN(); !strings.HasPrefix(arn, want) {
			t.Errorf("%s: %s", region, arn)
		}
	}
}
