package clusters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const secrets = home + "/secrets"

func TestSecrets_ShowEveryFieldButTheValue(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		policy := "- pipeline_slug: [hello, deploy]\n  build_branch: main\n"
		made := ada.Post(secrets, body{"key": "SSH_KEY", "value": "correct horse", "description": "For deploys", "policy": policy}).Want(http.StatusCreated)
		id := made.String("id")
		for path, want := range map[string]any{
			"graphql_id":           core.GraphQLID("ClusterSecret", id),
			"key":                  "SSH_KEY",
			"description":          "For deploys",
			"policy":               policy,
			"url":                  s.URL + secrets + "/" + id,
			"cluster_url":          s.URL + home,
			"created_at":           s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by.id":        servertest.AdaID,
			"created_by.name":      "Ada",
			"created_by.email":     "ada@acme.test",
			"updated_at":           s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"updated_by":           nil,
			"last_read_at":         nil,
			"organization.slug":    "acme",
			"organization.url":     s.URL + "/v2/organizations/acme",
			"organization.web_url": s.URL + "/acme",
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if _, ok := core.ParseID(made.String("organization.id")); !ok {
			t.Errorf("organization.id is %q", made.String("organization.id"))
		}
		shown := ada.Get(secrets + "/" + id).Want(http.StatusOK)
		if string(shown.Body) != string(made.Body) {
			t.Errorf("get shows %s\ncreate showed %s", shown.Body, made.Body)
		}
		for _, got := range []*servertest.Response{made, shown, ada.Get(secrets).Want(http.StatusOK)} {
			if strings.Contains(string(got.Body), "correct horse") {
				t.Errorf("the value is shown: %s", got.Body)
			}
		}
	})
}

// stored returns the encrypted value of a secret in the database.
func stored(t *testing.T, s *servertest.Server, id string) (value string) {
	t.Helper()
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT value FROM cluster_secrets WHERE id = $1`, id).Scan(&value)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestSecrets_AreSealedAtRestEachForItself(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(secrets, body{"key": "A", "value": " first value\n"}).Want(http.StatusCreated)
		other := ada.Post(secrets, body{"key": "B", "value": " first value\n"}).Want(http.StatusCreated)
		opens := func(want string) {
			t.Helper()
			sealed := stored(t, s, made.String("id"))
			if strings.Contains(sealed, "value") {
				t.Errorf("the database holds %q", sealed)
			}
			if got, err := s.Key.Open(sealed, "cluster_secret:"+made.String("id")); err != nil || string(got) != want {
				t.Errorf("the sealed value opens as %q, %v; want %q", got, err, want)
			}
			if _, err := s.Key.Open(sealed, "cluster_secret:"+other.String("id")); err == nil {
				t.Error("the sealed value opens in another secret")
			}
		}
		opens(" first value\n")
		ada.Put(made.String("url"), body{"description": "changed"}).Want(http.StatusOK)
		opens(" first value\n")
		ada.Put(made.String("url")+"/value", body{"value": "second value"}).Want(http.StatusOK)
		opens("second value")
	})
}

func TestSecrets_AreListedInPagesOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, key := range []string{"Z", "A", "M"} {
			s.Clock.Advance(time.Second)
			ada.Post(secrets, body{"key": key, "value": "v"}).Want(http.StatusCreated)
		}
		var all []string
		for page := range 3 {
			got := ada.Get(fmt.Sprintf("%s?per_page=1&page=%d", secrets, page+1)).Want(http.StatusOK)
			all = append(all, got.String("0.key"))
		}
		if got := strings.Join(all, " "); got != "Z A M" {
			t.Errorf("listed are %s", got)
		}
	})
}

func TestCreateSecret_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(secrets, body{"key": "TAKEN", "value": strings.Repeat("v", 8191)}).Want(http.StatusCreated)
		for _, c := range []struct {
			sent        any
			field, text string
		}{
			{nil, "key", "is required"},
			{nil, "value", "is required"},
			{body{"key": "1A", "value": "v"}, "key", "must start with a letter"},
			{body{"key": "BuildKite_X", "value": "v"}, "key", "cannot start with buildkite"},
			{body{"key": "TAKEN", "value": "v"}, "key", "has already been taken"},
			{body{"key": "A", "value": " \n"}, "value", "is required"},
			{body{"key": "A", "value": strings.Repeat("v", 8192)}, "value", "must be smaller than 8192 bytes"},
			{body{"key": "A", "value": "v", "description": strings.Repeat("a", 2049)}, "description", "must have at most 2048 characters"},
			{body{"key": "A", "value": "v", "policy": "- branch: main"}, "policy", `is not valid: unknown claim "branch" at line 1`},
			{body{"key": "A", "value": "v", "policy": body{}}, "policy", "must be a string, not an object"},
		} {
			ada.Post(secrets, c.sent).WantFieldError(c.field, c.text)
		}
		other := newCluster(ada, "Other")
		ada.Post(other+"/secrets", body{"key": "TAKEN", "value": "v"}).Want(http.StatusCreated)
	})
}

func TestUpdateSecret_ChangesDescriptionAndPolicyOnly(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(crew)
		ada, mo := s.As(t, servertest.Ada), s.As(t, "svcua_mo")
		made := ada.Post(secrets, body{"key": "A", "value": "v"}).Want(http.StatusCreated)
		path := made.String("url")
		s.Clock.Advance(time.Minute)
		got := mo.Put(path, body{"description": "d"}).Want(http.StatusOK)
		if got.String("description") != "d" || got.String("updated_by.name") != "Mo" || got.String("updated_at") != s.Clock.Now().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("after a change of the description: %s", got.Body)
		}
		if got.At("created_at") != made.At("created_at") || got.String("created_by.name") != "Ada" {
			t.Errorf("the change touched the creation: %s", got.Body)
		}
		got = ada.Put(path, body{"policy": "- build_source: ui"}).Want(http.StatusOK)
		if got.String("policy") != "- build_source: ui" || got.String("description") != "d" || got.String("updated_by.name") != "Ada" {
			t.Errorf("after a change of the policy: %s", got.Body)
		}
		got = ada.Put(path, body{"policy": nil, "description": nil}).Want(http.StatusOK)
		if got.String("policy") != "" || got.String("description") != "" {
			t.Errorf("after clearing: %s", got.Body)
		}
		ada.Put(path, body{"policy": "x"}).WantFieldError("policy", "must be a list of rules")
		ada.Put(path, body{"key": "B"}).WantFieldError("key", "cannot be updated")
		ada.Put(path, body{"value": "B"}).WantFieldError("value", "cannot be updated here; use "+path+"/value")
		ada.Patch(path, body{}).Want(http.StatusMethodNotAllowed)
		s.As(t, servertest.Bo).Put(path, body{}).Want(http.StatusForbidden)
	})
}

func TestUpdateSecretValue_KeepsTheRules(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := ada.Post(secrets, body{"key": "A", "value": "v"}).Want(http.StatusCreated).String("url")
		if got := ada.Put(path+"/value", body{"value": "w"}).Want(http.StatusOK); got.String("key") != "A" || got.String("updated_by.name") != "Ada" {
			t.Errorf("after a change of the value: %s", got.Body)
		}
		for _, c := range []struct {
			sent any
			text string
		}{
			{nil, "is required"},
			{body{"value": " "}, "is required"},
			{body{"value": strings.Repeat("v", 8192)}, "must be smaller than 8192 bytes"},
		} {
			ada.Put(path+"/value", c.sent).WantFieldError("value", c.text)
		}
		s.As(t, servertest.Bo).Put(path+"/value", body{"value": "w"}).Want(http.StatusForbidden)
	})
}

func TestDeleteSecret(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := ada.Post(secrets, body{"key": "A", "value": "v"}).Want(http.StatusCreated).String("url")
		s.As(t, servertest.Bo).Delete(path).Want(http.StatusForbidden)
		ada.Delete(path).Want(http.StatusNoContent)
		ada.Get(path).WantMessage(http.StatusNotFound, "No secret found")
		ada.Delete(path).WantMessage(http.StatusNotFound, "No secret found")
		ada.Post(secrets, body{"key": "A", "value": "v"}).Want(http.StatusCreated)
	})
}
