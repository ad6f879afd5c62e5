package servertest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	errors []string
}

func (l *recorder) Helper() {}
func (l *recorder) Errorf(format string, args ...any) {
	l.errors = append(l.errors, fmt.Sprintf(format, args...))
}

func TestValidator_ReportsWhatIsNotAsDocumented(t *testing.T) {
	s := Start(t, dbtest.New(t, db.SQLite))
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"as documented", 200, `{"id":"x","graphql_id":"x","name":"x","email":"x","avatar_url":"x","created_at":"2026-01-02T03:04:05.678Z"}`, ""},
		{"a field is missing", 200, `{"id":"x","graphql_id":"x","name":"x","email":"x","avatar_url":"x"}`, "created_at"},
		{"a field has the wrong type", 200, `{"id":1,"graphql_id":"x","name":"x","email":"x","avatar_url":"x","created_at":null}`, "id"},
		{"a field is not documented", 200, `{"id":"x","graphql_id":"x","name":"x","email":"x","avatar_url":"x","created_at":null,"extra":1}`, "extra"},
		{"a status is not documented", 418, `{"message":"x"}`, "418"},
		{"an error without a message", 403, `{}`, "message"},
	} {
		failures := &recorder{TB: t}
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v2/user", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}
		s.validator.check(failures, req, resp, []byte(c.body))
		got := strings.Join(failures.errors, "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want something about %q", c.name, got, c.want)
		}
	}
}
