package clusters_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestQueues_ShowEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(home+"/queues", body{"key": "linux-2_X", "description": "Small ones", "retry_agent_affinity": "prefer-different"}).Want(http.StatusCreated)
		id := made.String("id")
		for path, want := range map[string]any{
			"graphql_id":           core.GraphQLID("ClusterQueue", id),
			"key":                  "linux-2_X",
			"description":          "Small ones",
			"url":                  s.URL + home + "/queues/" + id,
			"web_url":              s.URL + "/organizations/acme/clusters/" + servertest.AcmeClusterID + "/queues/" + id,
			"cluster_url":          s.URL + home,
			"retry_agent_affinity": "prefer-different",
			"dispatch_paused":      false,
			"dispatch_paused_by":   nil,
			"dispatch_paused_at":   nil,
			"dispatch_paused_note": nil,
			"connection_state":     "never_connected",
			"last_connected_at":    nil,
			"created_at":           s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by.id":        servertest.AdaID,
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if made.Has("hosted") || made.Has("hosted_agents") {
			t.Errorf("a self-hosted queue is shown as hosted: %s", made.Body)
		}
		if got := ada.Get(made.String("url")).Want(http.StatusOK); string(got.Body) != string(made.Body) {
			t.Errorf("get shows %s\ncreate showed %s", got.Body, made.Body)
		}
		plain := ada.Post(home+"/queues", body{"key": "plain", "description": nil, "retry_agent_affinity": nil, "hostedAgents": nil}).Want(http.StatusCreated)
		if plain.String("retry_agent_affinity") != "prefer-warmest" || plain.String("description") != "" {
			t.Errorf("the defaults are %s", plain.Body)
		}
	})
}

func TestQueues_AreListedInPagesOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, key := range []string{"z", "a", "m"} {
			s.Clock.Advance(time.Second)
			ada.Post(home+"/queues", body{"key": key}).Want(http.StatusCreated)
		}
		for page, want := range map[int]string{1: "default z a", 2: "m", 3: ""} {
			got := ada.Get(fmt.Sprintf("%s/queues?per_page=3&page=%d", home, page)).Want(http.StatusOK)
			var keys []string
			for i := range got.Len("") {
				keys = append(keys, got.String(fmt.Sprint(i, ".key")))
			}
			if strings.Join(keys, " ") != want {
				t.Errorf("page %d has %q, want %q", page, keys, want)
			}
		}
	})
}

func TestCreateQueue_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		shaped := func(hosted body) body { return body{"key": "new", "hostedAgents": hosted} }
		for _, c := range []struct {
			sent        any
			field, text string
		}{
			{nil, "key", "is required"},
			{body{"key": "a b"}, "key", "must have only letters, digits, hyphens and underscores"},
			{body{"key": "__default__"}, "key", "stands for the default queue"},
			{body{"key": "default"}, "key", "has already been taken"},
			{body{"key": "new", "description": strings.Repeat("a", 2049)}, "description", "must have at most 2048 characters"},
			{body{"key": "new", "retry_agent_affinity": "coldest"}, "retry_agent_affinity", "must be prefer-warmest or prefer-different"},
			{shaped(body{}), "hostedAgents.instanceShape", "is required"},
			{shaped(body{"instanceShape": "LINUX"}), "hostedAgents.instanceShape", "must be one of LINUX_AMD64_2X4, "},
			{shaped(body{"instanceShape": "MACOS_ARM64_M4_6X28", "agentImageRef": "x"}), "hostedAgents.agentImageRef", "can be given for Linux agents only"},
			{shaped(body{"instanceShape": "LINUX_ARM64_2X4", "agentImageRef": strings.Repeat("x", 1025)}), "hostedAgents.agentImageRef", "must have at most 1024 characters"},
		} {
			ada.Post(home+"/queues", c.sent).WantFieldError(c.field, c.text)
		}
		other := newCluster(ada, "Other")
		ada.Post(other+"/queues", body{"key": "default"}).Want(http.StatusCreated)
	})
}

func TestCreateQueue_HoldsAClusterToItsNumberOfQueues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for i := range 45 {
			ada.Post(home+"/queues", body{"key": fmt.Sprint("q", i)}).Want(http.StatusCreated)
		}
		statuses := race(12, func(i int) int {
			return ada.Post(home+"/queues", body{"key": fmt.Sprint("r", i)}).Status
		})
		if statuses[http.StatusCreated] != 4 || statuses[http.StatusUnprocessableEntity] != 8 {
			t.Errorf("46 queues and 12 more at once: %v", statuses)
		}
		ada.Post(home+"/queues", body{"key": "more"}).WantMessage(http.StatusUnprocessableEntity, "A cluster can have at most 50 queues")
	})
}

// race runs fn n times at once and counts the statuses it returns.
func race(n int, fn func(i int) int) map[int]int {
	var wg sync.WaitGroup
	statuses := make([]int, n)
	for i := range n {
		wg.Go(func() { statuses[i] = fn(i) })
	}
	wg.Wait()
	counts := make(map[int]int)
	for _, status := range statuses {
		counts[status]++
	}
	return counts
}

func TestUpdateQueue_ChangesWhatIsSentByPutAndPatch(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := ada.Post(home+"/queues", body{"key": "linux"}).Want(http.StatusCreated).String("url")
		for _, method := range []string{http.MethodPut, http.MethodPatch} {
			got := ada.Do(method, path, body{"description": method, "key": "linux"}).Want(http.StatusOK)
			if got.String("description") != method || got.String("retry_agent_affinity") != "prefer-warmest" {
				t.Errorf("%s description: %s", method, got.Body)
			}
			got = ada.Do(method, path, body{"retry_agent_affinity": "prefer-different"}).Want(http.StatusOK)
			if got.String("description") != method || got.String("retry_agent_affinity") != "prefer-different" {
				t.Errorf("%s affinity: %s", method, got.Body)
			}
			got = ada.Do(method, path, body{"description": nil, "retry_agent_affinity": "prefer-warmest"}).Want(http.StatusOK)
			if got.String("description") != "" || got.String("retry_agent_affinity") != "prefer-warmest" {
				t.Errorf("%s back: %s", method, got.Body)
			}
		}
		ada.Patch(path, body{"key": "other"}).WantFieldError("key", "cannot be changed")
		ada.Patch(path, body{"retry_agent_affinity": "x"}).WantFieldError("retry_agent_affinity", "must be prefer-warmest or prefer-different")
		ada.Patch(path, body{"hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4"}}).WantFieldError("hostedAgents", "cannot be given for a self-hosted queue")
	})
}

func TestHostedQueues_ShowTheirAgents(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(home+"/queues", body{"key": "hosted", "hostedAgents": body{"instanceShape": "LINUX_ARM64_4X16"}}).Want(http.StatusCreated)
		for path, want := range map[string]any{
			"hosted": true,
			"hosted_agents.instance_shape.machine_type": "linux",
			"hosted_agents.instance_shape.architecture": "arm64",
			"hosted_agents.instance_shape.cpu":          4.0,
			"hosted_agents.instance_shape.memory":       16.0,
			"hosted_agents.instance_shape.name":         "LINUX_ARM64_4X16",
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if made.Has("hosted_agents.platform_settings") {
			t.Errorf("there are settings although none were set: %s", made.Body)
		}
		path := made.String("url")
		got := ada.Patch(path, body{"hostedAgents": body{"instanceShape": "LINUX_ARM64_4X16", "agentImageRef": "ubuntu:24.04"}}).Want(http.StatusOK)
		if got.String("hosted_agents.platform_settings.linux.agent_image_ref") != "ubuntu:24.04" {
			t.Errorf("the image is not shown: %s", got.Body)
		}
		got = ada.Put(path, body{"hostedAgents": body{"instanceShape": "LINUX_ARM64_16X64"}}).Want(http.StatusOK)
		if got.String("hosted_agents.instance_shape.name") != "LINUX_ARM64_16X64" || !got.Has("hosted_agents.platform_settings") {
			t.Errorf("after a change of the shape: %s", got.Body)
		}
		got = ada.Put(path, body{"hostedAgents": body{"instanceShape": "LINUX_ARM64_16X64", "agentImageRef": nil}}).Want(http.StatusOK)
		if got.Has("hosted_agents.platform_settings") {
			t.Errorf("the image is still there: %s", got.Body)
		}
		for shape, text := range map[string]string{
			"":                    "is required",
			"HUGE":                "must be one of",
			"LINUX_AMD64_16X64":   "must have the machine type and architecture of LINUX_ARM64_16X64",
			"MACOS_ARM64_M4_6X28": "must have the machine type and architecture of LINUX_ARM64_16X64",
		} {
			ada.Patch(path, body{"hostedAgents": body{"instanceShape": shape}}).WantFieldError("hostedAgents.instanceShape", text)
		}
	})
}

func TestHostedQueues_AreThoseOfAHostedCluster(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, clusters: [{name: Hosted, id: 0190c0de-0000-7000-8000-0000000000c9, hosted: true, queues: [{key: linux}]}]}]`)
		ada := s.As(t, servertest.Ada)
		got := ada.Get(acme + "/0190c0de-0000-7000-8000-0000000000c9/queues").Want(http.StatusOK)
		if got.At("0.hosted") != true || got.String("0.hosted_agents.instance_shape.name") != "LINUX_AMD64_2X4" {
			t.Errorf("the queue is %s", got.Body)
		}
		changed := ada.Patch(got.String("0.url"), body{"hostedAgents": body{"instanceShape": "LINUX_AMD64_8X32"}}).Want(http.StatusOK)
		if changed.At("hosted_agents.instance_shape.cpu") != 8.0 {
			t.Errorf("the shape did not change: %s", changed.Body)
		}
	})
}

func TestHostedQueues_NeedTheFeature(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, features: {hosted_agents: false}}]`)
		s.As(t, servertest.Ada).Post(home+"/queues", body{"key": "hosted", "hostedAgents": body{"instanceShape": "LINUX_AMD64_2X4"}}).
			WantFieldError("hostedAgents", "hosted agents are not enabled for this organization")
	})
}

func TestPauseDispatch_IsAMarkWithAReason(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		queue := home + "/queues/" + servertest.AcmeQueueID
		for i, c := range []struct {
			sent any
			note any
		}{
			{nil, nil},
			{body{}, nil},
			{body{"dispatch_paused_note": "Weekly restart"}, "Weekly restart"},
			{body{"note": "Weekly restart"}, "Weekly restart"},
			{body{"dispatch_paused_note": "this", "note": "that"}, "this"},
		} {
			s.Clock.Advance(time.Minute)
			paused := ada.Post(queue+"/pause_dispatch", c.sent).Want(http.StatusOK)
			for path, want := range map[string]any{
				"dispatch_paused":       true,
				"dispatch_paused_at":    s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
				"dispatch_paused_by.id": servertest.AdaID,
				"dispatch_paused_note":  c.note,
			} {
				if got := paused.At(path); got != want {
					t.Errorf("%d: %s is %v, want %v", i, path, got, want)
				}
			}
			if got := ada.Get(queue).Want(http.StatusOK); string(got.Body) != string(paused.Body) {
				t.Errorf("get shows %s\npausing showed %s", got.Body, paused.Body)
			}
			ada.Post(queue+"/pause_dispatch", c.sent).WantMessage(http.StatusUnprocessableEntity, "Cluster queue is already paused")
			if ada.Patch(queue, body{"description": "still paused"}).Want(http.StatusOK).At("dispatch_paused") != true {
				t.Error("a change of the description resumed the queue")
			}
			resumed := ada.Post(queue+"/resume_dispatch", `{"ignored": true}`).Want(http.StatusOK)
			for _, path := range []string{"dispatch_paused_at", "dispatch_paused_by", "dispatch_paused_note"} {
				if resumed.At(path) != nil {
					t.Errorf("%d: after resuming %s is %v", i, path, resumed.At(path))
				}
			}
			ada.Post(queue+"/resume_dispatch", nil).WantMessage(http.StatusUnprocessableEntity, "Cluster queue is not paused")
		}
		ada.Post(queue+"/pause_dispatch", body{"note": strings.Repeat("a", 2049)}).WantFieldError("dispatch_paused_note", "must have at most 2048 characters")
		s.As(t, servertest.Bo).Post(queue+"/pause_dispatch", nil).Want(http.StatusForbidden)
		s.As(t, servertest.Bo).Post(queue+"/resume_dispatch", nil).Want(http.StatusForbidden)
	})
}

func TestPauseDispatch_SucceedsOnceHoweverManyAsk(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		queue := home + "/queues/" + servertest.AcmeQueueID
		for _, action := range []string{"/pause_dispatch", "/resume_dispatch"} {
			statuses := race(8, func(int) int { return ada.Post(queue+action, nil).Status })
			if statuses[http.StatusOK] != 1 || statuses[http.StatusUnprocessableEntity] != 7 {
				t.Errorf("%s by eight at once: %v", action, statuses)
			}
		}
	})
}

func TestDeleteQueue_SparesTheDefaultOne(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		first := home + "/queues/" + servertest.AcmeQueueID
		ada.Delete(first).WantMessage(http.StatusUnprocessableEntity, "The default queue of a cluster cannot be deleted; make another queue the default first")
		second := ada.Post(home+"/queues", body{"key": "linux"}).Want(http.StatusCreated)
		ada.Patch(home, body{"default_queue_id": second.At("id")}).Want(http.StatusOK)
		ada.Delete(first).Want(http.StatusNoContent)
		ada.Get(first).WantMessage(http.StatusNotFound, "No cluster queue found")
		ada.Delete(second.String("url")).Want(http.StatusUnprocessableEntity)
		s.As(t, servertest.Bo).Delete(second.String("url")).Want(http.StatusForbidden)
	})
}

func TestDeleteQueue_AndMakingItTheDefaultNeverBothSucceed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for i := range 8 {
			queue := ada.Post(home+"/queues", body{"key": fmt.Sprint("q", i)}).Want(http.StatusCreated)
			race(2, func(i int) int {
				if i == 0 {
					return ada.Delete(queue.String("url")).Status
				}
				return ada.Patch(home, body{"default_queue_id": queue.At("id")}).Status
			})
			ada.Get(ada.Get(home).Want(http.StatusOK).String("default_queue_url")).Want(http.StatusOK)
		}
	})
}
