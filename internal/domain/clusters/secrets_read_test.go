package clusters_test

import (
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// newReader returns a service on the server's database, and a job of acme that reads secrets.
func newReader(t *testing.T, s *servertest.Server) (*clusters.Service, clusters.Reader) {
	t.Helper()
	by := clusters.Reader{
		OrganizationID: s.OrganizationID(t, "acme"),
		ClusterID:      servertest.AcmeClusterID, QueueID: servertest.AcmeQueueID,
		PipelineID: servertest.AcmePipelineID, PipelineSlug: "hello",
		BuildSource: "webhook", BuildBranch: "main",
		BuildCreator: &identity.User{ID: servertest.AdaID, Email: "ada@acme.test"},
	}
	directory := identity.NewDirectory(s.DB, s.Clock.Now)
	return clusters.New(s.DB, directory, s.Key, core.PublicURL(s.URL), s.Clock.Now), by
}

func TestReadSecret_AsksThePolicy(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		service, by := newReader(t, s)
		path := ada.Post(secrets, body{"key": "KEY", "value": "correct horse"}).Want(http.StatusCreated).String("url")
		for policy, want := range map[string]bool{
			"":                                true,
			"# anybody":                       true,
			"- pipeline_slug: hello":          true,
			"- pipeline_slug: other":          false,
			"- pipeline_slug: hell*":          false,
			"- pipeline_slug: [other, hello]": true,
			"- pipeline_id: " + servertest.AcmePipelineID:               true,
			"- pipeline_id: " + servertest.AcmeQueueID:                  false,
			"- build_source: webhook":                                   true,
			"- build_source: ui":                                        false,
			"- build_branch: main":                                      true,
			"- build_branch: m*":                                        true,
			"- build_branch: maintenance":                               false,
			"- build_creator: ada@acme.test":                            true,
			"- build_creator: " + servertest.AdaID:                      true,
			"- build_creator: bo@acme.test":                             false,
			"- build_creator_team: " + servertest.AcmeTeamID:            true,
			"- build_creator_team: everyone":                            true,
			"- build_creator_team: others":                              false,
			"- cluster_queue_id: " + servertest.AcmeQueueID:             true,
			"- cluster_queue_key: default":                              true,
			"- cluster_queue_key: deploy":                               false,
			"- {pipeline_slug: hello, build_branch: other}":             false,
			"- {pipeline_slug: hello, build_branch: main}":              true,
			"- pipeline_slug: other\n- build_branch: [release, main]\n": true,
		} {
			ada.Put(path, body{"policy": policy}).Want(http.StatusOK)
			secret, value, err := service.ReadSecret(t.Context(), by, "KEY")
			switch {
			case want && (err != nil || value != "correct horse" || secret.Key != "KEY"):
				t.Errorf("%q: %q, %v", policy, value, err)
			case !want && (core.KindOf(err) != core.Forbidden || value != "" || secret != (clusters.Secret{})):
				t.Errorf("%q: %q, %v; want it refused", policy, value, err)
			}
		}
	})
}

func TestReadSecret_AsksForTheCreatorOfTheBuild(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		service, by := newReader(t, s)
		s.As(t, servertest.Ada).Post(secrets, body{"key": "KEY", "value": "v", "policy": "- build_creator_team: everyone\n- build_creator: ada@acme.test\n"}).Want(http.StatusCreated)
		for name, creator := range map[string]*identity.User{
			"another user": {ID: servertest.BoID, Email: "bo@acme.test"},
			"nobody":       nil,
		} {
			by.BuildCreator = creator
			if _, _, err := service.ReadSecret(t.Context(), by, "KEY"); core.KindOf(err) != core.Forbidden {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestReadSecret_KnowsOnlyThoseOfTheCluster(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		service, by := newReader(t, s)
		ada.Post(secrets, body{"key": "KEY", "value": "v"}).Want(http.StatusCreated)
		ada.Post(newCluster(ada, "Other")+"/secrets", body{"key": "OTHER", "value": "v"}).Want(http.StatusCreated)
		stranger := by
		stranger.OrganizationID = core.NewID()
		for name, c := range map[string]struct {
			by  clusters.Reader
			key string
		}{
			"unknown": {by, "NONE"}, "another cluster's": {by, "OTHER"}, "another organization's": {stranger, "KEY"}, "in another case": {by, "key"},
		} {
			_, value, err := service.ReadSecret(t.Context(), c.by, c.key)
			if core.KindOf(err) != core.NotFound || value != "" {
				t.Errorf("%s: %q, %v", name, value, err)
			}
		}
	})
}

func TestReadSecret_NotesWhen(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		service, by := newReader(t, s)
		path := ada.Post(secrets, body{"key": "KEY", "value": "v"}).Want(http.StatusCreated).String("url")
		read := func() string {
			t.Helper()
			if _, _, err := service.ReadSecret(t.Context(), by, "KEY"); err != nil {
				t.Fatal(err)
			}
			return ada.Get(path).Want(http.StatusOK).String("last_read_at")
		}
		first := s.Clock.Now().Format("2006-01-02T15:04:05.000Z")
		if got := read(); got != first {
			t.Errorf("read at %s, want %s", got, first)
		}
		s.Clock.Advance(59 * time.Second)
		if got := read(); got != first {
			t.Errorf("read again at %s, want %s", got, first)
		}
		s.Clock.Advance(time.Second)
		if got := read(); got != s.Clock.Now().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("read later at %s", got)
		}
	})
}
