package interop

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

func TestClusters_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.Clusters.Create(ctx, "acme", buildkite.ClusterCreate{
			Name: "Linux", Description: "Runs on penguins", Emoji: ":penguin:", Color: "#A9CCE3",
			Maintainers: []buildkite.ClusterMaintainer{{UserID: boID}, {TeamID: everyoneID}},
		})).created(t)
		wantEmpty(t, created, "DefaultQueueID", "DefaultQueueURL")
		if created.Name != "Linux" || created.Description != "Runs on penguins" || created.Emoji != ":penguin:" || created.Color != "#A9CCE3" || created.CreatedBy.ID != adaID {
			t.Errorf("created %+v", created)
		}
		if users, teams := created.Maintainers.Users, created.Maintainers.Teams; len(users) != 1 || users[0].Actor.ID != boID || len(teams) != 1 || teams[0].Actor.ID != everyoneID {
			t.Errorf("created with maintainers %+v", created.Maintainers)
		}
		if got := call(client.Clusters.Get(ctx, "acme", created.ID)).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}

		queue := call(client.ClusterQueues.Create(ctx, "acme", created.ID, buildkite.ClusterQueueCreate{Key: "default"})).created(t)
		updated := call(client.Clusters.Update(ctx, "acme", created.ID, buildkite.ClusterUpdate{Name: "BSD", DefaultQueueID: queue.ID})).ok(t)
		want := created
		want.Name, want.DefaultQueueID, want.DefaultQueueURL = "BSD", queue.ID, queue.URL
		if !reflect.DeepEqual(updated, want) {
			t.Errorf("updated to %+v, want %+v", updated, want)
		}
		if list := call(client.Clusters.List(ctx, "acme", nil)).ok(t); len(list) != 2 || list[0].ID != clusterID || !reflect.DeepEqual(list[1], want) {
			t.Errorf("listed %+v, want the default cluster and %+v", list, want)
		}

		do(client.Clusters.Delete(ctx, "acme", created.ID)).ok(t)
		call(client.Clusters.Get(ctx, "acme", created.ID)).refused(t, http.StatusNotFound, "No cluster found")
	})
}

func TestClusterMaintainers_AreAppointedAndDismissed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		if list := call(client.ClusterMaintainers.List(ctx, "acme", clusterID, nil)).ok(t); len(list) != 0 {
			t.Errorf("listed %+v, want nobody", list)
		}
		user := call(client.ClusterMaintainers.Create(ctx, "acme", clusterID, buildkite.ClusterMaintainer{UserID: boID})).created(t)
		wantEmpty(t, user, "Actor.Slug")
		if a := user.Actor; a.Type != "user" || a.ID != boID || a.Name != "Bo" || a.Email != "bo@acme.test" {
			t.Errorf("appointed %+v, want the user Bo", a)
		}
		team := call(client.ClusterMaintainers.Create(ctx, "acme", clusterID, buildkite.ClusterMaintainer{TeamID: everyoneID})).created(t)
		wantEmpty(t, team, "Actor.Email")
		if a := team.Actor; a.Type != "team" || a.ID != everyoneID || a.Name != "Everyone" || a.Slug != "everyone" {
			t.Errorf("appointed %+v, want the team Everyone", a)
		}

		if list := call(client.ClusterMaintainers.List(ctx, "acme", clusterID, nil)).ok(t); !reflect.DeepEqual(list, []buildkite.ClusterMaintainerEntry{user, team}) {
			t.Errorf("listed %+v, want %+v and %+v", list, user, team)
		}
		if got := call(client.ClusterMaintainers.Get(ctx, "acme", clusterID, team.ID)).ok(t); got != team {
			t.Errorf("got %+v, want %+v", got, team)
		}
		do(client.ClusterMaintainers.Delete(ctx, "acme", clusterID, user.ID)).ok(t)
		call(client.ClusterMaintainers.Get(ctx, "acme", clusterID, user.ID)).refused(t, http.StatusNotFound, "No cluster maintainer found")
	})
}

func TestClusterQueues_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.ClusterQueues.Create(ctx, "acme", clusterID, buildkite.ClusterQueueCreate{
			Key: "gpu", Description: "Few and dear", RetryAgentAffinity: buildkite.RetryAgentAffinityPreferDifferent,
		})).created(t)
		wantEmpty(t, created, "DispatchPaused", "DispatchPausedAt", "DispatchPausedBy", "DispatchPausedNote")
		if created.Key != "gpu" || created.Description != "Few and dear" || created.RetryAgentAffinity != buildkite.RetryAgentAffinityPreferDifferent || created.CreatedBy.ID != adaID {
			t.Errorf("created %+v", created)
		}
		if got := call(client.ClusterQueues.Get(ctx, "acme", clusterID, created.ID)).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}

		update := buildkite.ClusterQueueUpdate{Description: "Fewer and dearer", RetryAgentAffinity: buildkite.RetryAgentAffinityPreferWarmest}
		updated := call(client.ClusterQueues.Update(ctx, "acme", clusterID, created.ID, update)).ok(t)
		want := created
		want.Description, want.RetryAgentAffinity = update.Description, update.RetryAgentAffinity
		if !reflect.DeepEqual(updated, want) {
			t.Errorf("updated to %+v, want %+v", updated, want)
		}
		if list := call(client.ClusterQueues.List(ctx, "acme", clusterID, nil)).ok(t); len(list) != 2 || list[0].ID != queueID || !reflect.DeepEqual(list[1], want) {
			t.Errorf("listed %+v, want the default queue and %+v", list, want)
		}

		do(client.ClusterQueues.Delete(ctx, "acme", clusterID, created.ID)).ok(t)
		call(client.ClusterQueues.Get(ctx, "acme", clusterID, created.ID)).refused(t, http.StatusNotFound, "No cluster queue found")
	})
}

func TestClusterQueues_PauseAndResume(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		paused := call(client.ClusterQueues.Pause(ctx, "acme", clusterID, queueID, buildkite.ClusterQueuePause{Note: "Maintenance"})).ok(t)
		if !paused.DispatchPaused || paused.DispatchPausedNote != "Maintenance" || paused.DispatchPausedAt == nil || paused.DispatchPausedBy == nil || paused.DispatchPausedBy.ID != adaID {
			t.Errorf("paused queue is %+v", paused)
		}
		call(client.ClusterQueues.Pause(ctx, "acme", clusterID, queueID, buildkite.ClusterQueuePause{})).
			refused(t, http.StatusUnprocessableEntity, "Cluster queue is already paused")

		do(client.ClusterQueues.Resume(ctx, "acme", clusterID, queueID)).ok(t)
		if q := call(client.ClusterQueues.Get(ctx, "acme", clusterID, queueID)).ok(t); q.DispatchPaused || q.DispatchPausedAt != nil || q.DispatchPausedBy != nil || q.DispatchPausedNote != "" {
			t.Errorf("resumed queue is %+v", q)
		}
		do(client.ClusterQueues.Resume(ctx, "acme", clusterID, queueID)).
			refused(t, http.StatusUnprocessableEntity, "Cluster queue is not paused")
	})
}

func TestClusterTokens_ShowTheTokenOnce(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.ClusterTokens.Create(ctx, "acme", clusterID, buildkite.ClusterTokenCreateUpdate{
			Description: "Office", AllowedIPAddresses: "192.0.2.0/24 2001:db8::/32",
		})).created(t)
		wantEmpty(t, created)
		if created.Description != "Office" || created.AllowedIPAddresses != "192.0.2.0/24 2001:db8::/32" || created.CreatedBy.ID != adaID {
			t.Errorf("created %+v", created)
		}
		want := created
		want.Token = ""
		if got := call(client.ClusterTokens.Get(ctx, "acme", clusterID, created.ID)).ok(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}

		updated := call(client.ClusterTokens.Update(ctx, "acme", clusterID, created.ID, buildkite.ClusterTokenCreateUpdate{Description: "Lab"})).ok(t)
		want.Description = "Lab"
		if !reflect.DeepEqual(updated, want) {
			t.Errorf("updated to %+v, want %+v", updated, want)
		}
		if list := call(client.ClusterTokens.List(ctx, "acme", clusterID, nil)).ok(t); len(list) != 2 || list[0].Description != "boot" || !reflect.DeepEqual(list[1], want) {
			t.Errorf("listed %+v, want boot and %+v", list, want)
		}

		do(client.ClusterTokens.Delete(ctx, "acme", clusterID, created.ID)).ok(t)
		call(client.ClusterTokens.Get(ctx, "acme", clusterID, created.ID)).refused(t, http.StatusNotFound, "No agent token found")
	})
}

func TestClusterSecrets_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.ClusterSecrets.Create(ctx, "acme", clusterID, buildkite.ClusterSecretCreate{
			Key: "DEPLOY_KEY", Value: "hush", Description: "Opens production", Policy: "- pipeline_slug: hello\n",
		})).created(t)
		wantEmpty(t, created, "LastReadAt", "UpdatedBy")
		if created.Key != "DEPLOY_KEY" || created.Description != "Opens production" || created.Policy != "- pipeline_slug: hello\n" ||
			created.CreatedBy.ID != adaID || created.Organization.Slug != "acme" {
			t.Errorf("created %+v", created)
		}
		if got := call(client.ClusterSecrets.Get(ctx, "acme", clusterID, created.ID)).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}

		updated := call(client.ClusterSecrets.Update(ctx, "acme", clusterID, created.ID, buildkite.ClusterSecretUpdate{Description: "Opens everything"})).ok(t)
		if updated.Description != "Opens everything" || updated.Policy != created.Policy || updated.UpdatedBy == nil || updated.UpdatedBy.ID != adaID {
			t.Errorf("updated to %+v", updated)
		}
		do(client.ClusterSecrets.UpdateValue(ctx, "acme", clusterID, created.ID, buildkite.ClusterSecretValueUpdate{Value: "hush hush"})).ok(t)
		if list := call(client.ClusterSecrets.List(ctx, "acme", clusterID, nil)).ok(t); len(list) != 1 || list[0].Key != "DEPLOY_KEY" {
			t.Errorf("listed %+v, want DEPLOY_KEY alone", list)
		}

		do(client.ClusterSecrets.Delete(ctx, "acme", clusterID, created.ID)).ok(t)
		call(client.ClusterSecrets.Get(ctx, "acme", clusterID, created.ID)).refused(t, http.StatusNotFound, "No secret found")
	})
}
