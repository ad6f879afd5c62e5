package agentimages_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const (
	acme    = "/v2/organizations/acme"
	cloudID = "0190c0de-0000-7000-8000-0000000000c9"
	cloud   = acme + "/clusters/" + cloudID
	images  = cloud + "/agent-images"
	own     = acme + "/clusters/" + servertest.AcmeClusterID + "/agent-images" // of a cluster that is not hosted
)

type body = map[string]any

// world is an organization file with a hosted cluster.
const world = `
organizations:
  - slug: acme
    clusters:
      - {name: Cloud, id: ` + cloudID + `, hosted: true, queues: [{key: default, default: true}, {key: big}]}
`

// each runs a test on a server that has a hosted cluster, and no folder to build images in.
func each(t *testing.T, fn func(t *testing.T, s *servertest.Server, ada *servertest.Client)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(world)
		fn(t, s, s.As(t, servertest.Ada))
	})
}

func create(ada *servertest.Client, name string) *servertest.Response {
	return ada.Post(images, body{"name": name, "dockerfile": "RUN echo " + name}).Want(http.StatusCreated)
}

// ready makes an image READY, as a build does.
func ready(t *testing.T, s *servertest.Server, id, ref string) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(q *db.Q) error {
		_, err := q.Exec(`UPDATE agent_images SET status = 'READY', image_ref = $2 WHERE id = $1`, id, ref)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreate_ShowsEveryField(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		made := ada.Post(images, body{"name": "ruby", "dockerfile": "RUN apt-get install ruby\n"}).Want(http.StatusCreated)
		at := images + "/" + made.String("id")
		for path, want := range map[string]any{
			"name":                "ruby",
			"status":              "BUILDING",
			"image_ref":           nil,
			"version":             float64(1),
			"last_build_error":    nil,
			"dockerfile":          "RUN apt-get install ruby\n",
			"base_image":          "FROM docker.io/library/buildpack-deps:bookworm-scm",
			"composed_dockerfile": "FROM docker.io/library/buildpack-deps:bookworm-scm\nRUN apt-get install ruby\n",
			"url":                 s.URL + at,
			"web_url":             s.URL + "/organizations/acme/clusters/" + cloudID + "/agent-images/" + made.String("id"),
			"cluster_url":         s.URL + cloud,
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if got := ada.Get(at).Want(http.StatusOK); string(got.Body) != string(made.Body) {
			t.Errorf("get: %s, created: %s", got.Body, made.Body)
		}
		empty := ada.Post(images, body{"name": "plain", "dockerfile": ""}).Want(http.StatusCreated)
		if got := empty.String("composed_dockerfile"); got != "FROM docker.io/library/buildpack-deps:bookworm-scm\n" {
			t.Errorf("composed %q", got)
		}
	})
}

func TestCreate_RefusesInvalidInput(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		for _, c := range []struct {
			sent        body
			field, text string
		}{
			{body{"dockerfile": ""}, "name", "is required"},
			{body{"name": " ", "dockerfile": ""}, "name", "is required"},
			{body{"name": nil, "dockerfile": ""}, "name", "is required"},
			{body{"name": 1, "dockerfile": ""}, "name", "must be a string"},
			{body{"name": strings.Repeat("x", 256), "dockerfile": ""}, "name", "must have at most 255 characters, not 256"},
			{body{"name": "a\nb", "dockerfile": ""}, "name", "must not have control characters"},
			{body{"name": "x"}, "dockerfile", "is required"},
			{body{"name": "x", "dockerfile": nil}, "dockerfile", "is required"},
			{body{"name": "x", "dockerfile": []string{}}, "dockerfile", "must be a string"},
			{body{"name": "x", "dockerfile": "RUN a\nfrom alpine"}, "dockerfile", "must not have a FROM instruction (line 2)"},
			{body{"name": "x", "dockerfile": "RUN <<EOF"}, "dockerfile", "is not a valid Dockerfile"},
		} {
			got := ada.Post(images, c.sent)
			got.WantFieldError(c.field, c.text)
			if !strings.Contains(got.String("message"), c.field) {
				t.Errorf("the message does not name %s: %s", c.field, got.Body)
			}
		}
		if got := ada.Get(images).Want(http.StatusOK); string(got.Body) != "[]\n" && string(got.Body) != "[]" {
			t.Errorf("images: %s", got.Body)
		}
	})
}

func TestList_IsUnpaginatedAndSortedByName(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		for i := range 40 {
			create(ada, fmt.Sprintf("image-%02d", (i*7)%40))
		}
		list := ada.Get(images + "?per_page=1").Want(http.StatusOK)
		for i := range 40 {
			if got := list.String(fmt.Sprint(i, ".name")); got != fmt.Sprintf("image-%02d", i) {
				t.Fatalf("%d is %s", i, got)
			}
		}
		if list.Header.Get("Link") != "" {
			t.Error("the list has pages")
		}
		for i := range 60 {
			create(ada, fmt.Sprint("more-", i))
		}
		ada.Post(images, body{"name": "last", "dockerfile": ""}).WantMessage(http.StatusUnprocessableEntity,
			"The cluster has 100 agent images, the most that are possible; delete one first")
	})
}

func TestCreate_GivesANameToOne(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		var wg sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			wg.Go(func() { statuses[i] = ada.Post(images, body{"name": "ruby", "dockerfile": ""}).Status })
		}
		wg.Wait()
		counts := map[int]int{}
		for _, status := range statuses {
			counts[status]++
		}
		if counts[http.StatusCreated] != 1 || counts[http.StatusConflict] != 7 {
			t.Errorf("statuses %v", counts)
		}
		ada.Post(images, body{"name": " ruby ", "dockerfile": ""}).WantMessage(http.StatusConflict, `An agent image with the name "ruby" already exists in this cluster`)
		id := ada.Get(images).String("0.id")
		ada.Delete(images + "/" + id).Want(http.StatusNoContent)
		create(ada, "ruby")
	})
}

func TestImages_OfAClusterThatIsNotHosted(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		id := create(ada, "ruby").String("id")
		if got := ada.Get(own).Want(http.StatusOK); strings.TrimSpace(string(got.Body)) != "[]" {
			t.Errorf("list %s", got.Body)
		}
		ada.Get(own+"/"+id).WantMessage(http.StatusNotFound, "No agent image found")
		ada.Delete(own+"/"+id).WantMessage(http.StatusNotFound, "No agent image found")
		ada.Post(own, body{"name": "x", "dockerfile": ""}).WantMessage(http.StatusUnprocessableEntity, `Agent images can be created in hosted clusters only; the cluster "Default" is not hosted`)
	})
}

func TestImages_AreNotFoundWithoutTheFeatures(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		id := create(ada, "ruby").String("id")
		for feature, message := range map[string]string{
			"hosted_agents": "Agent images are not available: the organization has no hosted agents",
			"agent_images":  "Agent images are not enabled for this organization",
		} {
			s.Apply("organizations: [{slug: acme, features: {" + feature + ": false}}]")
			for _, base := range []string{images, own} {
				ada.Get(base).WantMessage(http.StatusNotFound, message)
				ada.Get(base+"/"+id).WantMessage(http.StatusNotFound, message)
				ada.Delete(base+"/"+id).WantMessage(http.StatusNotFound, message)
				ada.Post(base, body{"name": "x", "dockerfile": ""}).WantMessage(http.StatusNotFound, message)
			}
			s.Apply("organizations: [{slug: acme, features: {" + feature + ": true}}]")
		}
		ada.Get(images + "/" + id).Want(http.StatusOK)
	})
}

func TestImages_NeedScopeAndPermission(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		at := images + "/" + create(ada, "ruby").String("id")
		s.Apply(`
organizations:
  - slug: acme
    members:
      - {email: ada@acme.test, access_tokens: [{description: r, token: svcua_read, scopes: [read_clusters]}, {description: w, token: svcua_write, scopes: [write_clusters]}]}
`)
		read, write, bo, cy := s.As(t, "svcua_read"), s.As(t, "svcua_write"), s.As(t, servertest.Bo), s.As(t, servertest.Cy)
		wantForbidden := func(r *servertest.Response, name string) {
			t.Helper()
			if got := r.Want(http.StatusForbidden).String("message"); !strings.Contains(got, name) {
				t.Errorf("%q does not name %s", got, name)
			}
		}
		read.Get(images).Want(http.StatusOK)
		read.Get(at).Want(http.StatusOK)
		wantForbidden(read.Post(images, body{"name": "x", "dockerfile": ""}), "write_clusters")
		wantForbidden(read.Delete(at), "write_clusters")
		wantForbidden(write.Get(images), "read_clusters")
		wantForbidden(write.Get(at), "read_clusters")
		for _, path := range []string{at, images + "/" + core.NewID()} { // before the image
			wantForbidden(bo.Get(path), "manage_clusters")
			wantForbidden(bo.Delete(path), "manage_clusters")
		}
		wantForbidden(bo.Get(images), "manage_clusters")
		wantForbidden(bo.Post(images, body{"name": "x", "dockerfile": "FROM x"}), "manage_clusters")
		cy.Get(images).Want(http.StatusNotFound)
		cy.Get("/v2/organizations/rival/clusters/"+cloudID+"/agent-images").WantMessage(http.StatusNotFound, "No cluster found")
		s.Apply("organizations: [{slug: acme, members: [{email: bo@acme.test, permissions: [manage_clusters]}]}]")
		bo.Get(at).Want(http.StatusOK)
		s.As(t, "").Get(images).Want(http.StatusUnauthorized)
		ada.Get(images+"/x").WantMessage(http.StatusNotFound, "No agent image found")
		ada.Delete(images+"/"+core.NewID()).WantMessage(http.StatusNotFound, "No agent image found")
		ada.Get(acme+"/clusters/"+core.NewID()+"/agent-images").WantMessage(http.StatusNotFound, "No cluster found")
	})
}

func TestImages_ArePermittedToMaintainersOfTheCluster(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		ada.Post(cloud+"/maintainers", body{"user": servertest.BoID}).Want(http.StatusCreated)
		create(s.As(t, servertest.Bo), "ruby")
	})
}

func TestDelete_IsRefusedWhileAQueueUsesTheImage(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		id := create(ada, "ruby").String("id")
		ref := "localhost/agent-images/" + id + ":1"
		queue := ada.Get(cloud + "/queues").String("1.url")
		set := func(ref any) *servertest.Response {
			return ada.Patch(queue, body{"hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": ref}})
		}
		set(ref).WantFieldError("hostedAgents.agentImageRef", "must be the image_ref of an agent image of this cluster that is READY")
		ready(t, s, id, ref)
		if got := ada.Get(images + "/" + id).String("image_ref"); got != ref {
			t.Fatalf("image_ref %s", got)
		}
		if got := set(ref).Want(http.StatusOK).String("hosted_agents.platform_settings.linux.agent_image_ref"); got != ref {
			t.Errorf("the queue has %s", got)
		}
		ada.Delete(images+"/"+id).WantMessage(http.StatusConflict, `The agent image "ruby" is assigned to queues (big); assign another image to them first`)
		set("docker.io/library/ruby:3").Want(http.StatusOK)
		ada.Delete(images + "/" + id).Want(http.StatusNoContent)
		ada.Get(images + "/" + id).Want(http.StatusNotFound)
		set(ref).WantFieldError("hostedAgents.agentImageRef", "must be the image_ref")
		ada.Post(cloud+"/queues", body{"key": "new", "hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4", "agentImageRef": ref}}).
			WantFieldError("hostedAgents.agentImageRef", "must be the image_ref")
	})
}

func TestBuild_FailsWithTheReasonWhereNothingCanBeBuilt(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		id := create(ada, "ruby").String("id")
		wrong := ada.Post(images, body{"name": "wrong", "dockerfile": "RUN a\nRUNN b"}).Want(http.StatusCreated).String("id")
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for id, reason := range map[string]string{
			id:    "The image cannot be built: this server has no folder for images",
			wrong: `Unknown instruction "RUNN" in line 3 of the composed Dockerfile`,
		} {
			got := ada.Get(images + "/" + id).Want(http.StatusOK)
			if got.String("status") != "FAILED" || got.At("image_ref") != nil || got.String("last_build_error") != reason {
				t.Errorf("%s", got.Body)
			}
		}
		ada.Delete(images + "/" + id).Want(http.StatusNoContent)
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left int
		err := s.DB.Read(t.Context(), func(q *db.Q) (err error) {
			left, err = db.Count(q, `SELECT COUNT(*) FROM agent_image_builds WHERE image_id = $1`, id)
			return err
		})
		if err != nil || left != 0 {
			t.Errorf("%d builds of the deleted image are left: %v", left, err)
		}
	})
}

func TestUpdate_BuildsTheNextVersion(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server, ada *servertest.Client) {
		at := images + "/" + create(ada, "ruby").String("id")
		create(ada, "node")
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		renamed := ada.Patch(at, body{"name": "ruby 3"}).Want(http.StatusOK)
		if renamed.String("name") != "ruby 3" || renamed.String("status") != "FAILED" || renamed.At("version") != float64(1) {
			t.Errorf("renamed: %s", renamed.Body)
		}
		changed := ada.Patch(at, body{"dockerfile": "RUN b"}).Want(http.StatusOK)
		if changed.String("status") != "BUILDING" || changed.At("version") != float64(2) || changed.At("last_build_error") != nil || changed.At("image_ref") != nil {
			t.Errorf("changed: %s", changed.Body)
		}
		ada.Patch(at, body{"name": "node"}).Want(http.StatusConflict)
		ada.Patch(at, body{"dockerfile": "FROM x"}).WantFieldError("dockerfile", "must not have a FROM instruction")
		ada.Patch(at, body{"dockerfile": nil}).WantFieldError("dockerfile", "is required")
	})
}

func TestImages_AreUnavailableWhereTheyAreDisabled(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d, func(p *server.Parts) { p.Images.Disabled = true })
		s.Apply(servertest.World)
		s.Apply(world)
		ada := s.As(t, servertest.Ada)
		const message = "The hosted-agent service is not available: this installation does not build agent images"
		for _, got := range []*servertest.Response{
			ada.Get(images), ada.Get(images + "/" + core.NewID()), ada.Delete(images + "/" + core.NewID()), ada.Post(images, body{"name": "x", "dockerfile": ""}),
		} {
			got.WantMessage(http.StatusServiceUnavailable, message)
			if got.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	})
}
