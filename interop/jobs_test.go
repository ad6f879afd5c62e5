package interop

import (
	"net/http"
	"slices"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// cancelJob cancels a job. The client has no call for it.
func cancelJob(t *testing.T, client *buildkite.Client, id string) {
	t.Helper()
	request, err := client.NewRequest(t.Context(), http.MethodPut, "v2/organizations/acme/jobs/"+id+"/cancel", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(request, nil); err != nil {
		t.Fatal(err)
	}
}

const deployment = `
steps:
  - {command: make, label: Unit, key: unit, agents: {queue: default}, artifact_paths: "bin/*", parallelism: 2, priority: 3}
  - group: Deployment
    key: deployment
    steps:
      - block: Release
        key: ask
        depends_on: ~
        fields:
          - {text: Version, key: version}
          - {select: Region, key: region, default: eu, options: [{label: EU, value: eu}, {label: US, value: us}]}
      - {command: deploy, key: deploy, signature: {value: abc, algorithm: HS256, signed_fields: [command]}}
`

func TestJobs_AreReadInsideBuilds(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		pipeline(t, client, "Deploy", deployment)
		build := call(client.Builds.Create(t.Context(), "acme", "deploy", head("main"))).created(t)
		if len(build.Jobs) != 4 {
			t.Fatalf("the build has %d jobs, want 4", len(build.Jobs))
		}
		unit, ask, deploy := build.Jobs[1], build.Jobs[2], build.Jobs[3]
		wantEmpty(t, unit, "Label", "GroupKey", "LogsURL", "ExitStatus", "StartedAt", "FinishedAt", "UnblockedAt", "Agent", "Retried", "RetriedInJobID", "RetriesCount", "RetrySource", "RetryType",
			"SoftFailed", "UnblockedBy", "Unblockable", "UnblockURL", "TriggeredBuild", "Step.Signature")
		if unit.Type != "script" || unit.State != "scheduled" || unit.Name != "Unit" || unit.Command != "make" || unit.Priority.Number != 3 || *unit.ParallelGroupIndex != 1 || *unit.ParallelGroupTotal != 2 ||
			unit.ClusterQueueID != queueID || unit.ArtifactPaths != "bin/*" || !slices.Equal(unit.AgentQueryRules, []string{"queue=default"}) {
			t.Errorf("got %+v", unit)
		}
		if ask.Type != "manual" || ask.Label != "Release" || ask.State != "blocked" || !ask.Unblockable || ask.UnblockURL == "" || ask.GroupKey != "deployment" {
			t.Errorf("got %+v", ask)
		}
		if signature := deploy.Step.Signature; signature == nil || signature.Value != "abc" || signature.Algorithm != "HS256" || !slices.Equal(signature.SignedFields, []string{"command"}) {
			t.Errorf("the signature is %+v", signature)
		}
	})
}

func TestJobs_Unblock(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		pipeline(t, client, "Deploy", deployment)
		build := call(client.Builds.Create(t.Context(), "acme", "deploy", head("main"))).created(t)
		ask := build.Jobs[2].ID
		unblock := func(job string, options *buildkite.JobUnblockOptions) answer[buildkite.Job] {
			return call(client.Jobs.UnblockJob(t.Context(), "acme", "deploy", "1", job, options))
		}
		unblock(build.Jobs[0].ID, nil).refused(t, http.StatusBadRequest, "This job type cannot be unblocked")
		unblock(unknownID, nil).refused(t, http.StatusNotFound, "No job found")
		unblock(ask, nil).refused(t, http.StatusUnprocessableEntity, "Validation Failed: fields.version is required")
		got := unblock(ask, &buildkite.JobUnblockOptions{Fields: map[string]string{"version": "1.2"}}).ok(t)
		if got.State != "unblocked" || got.Unblockable || got.UnblockedBy == nil || got.UnblockedBy.ID != adaID || got.UnblockedBy.Email != "ada@acme.test" || got.UnblockedAt == nil {
			t.Errorf("unblocked %+v", got)
		}
		unblock(ask, nil).refused(t, http.StatusUnprocessableEntity, "The job's state must be blocked")
		build = call(client.Builds.Get(t.Context(), "acme", "deploy", "1", nil)).ok(t)
		if build.MetaData["version"] != "1.2" || build.MetaData["region"] != "eu" || build.Jobs[3].State != "scheduled" {
			t.Errorf("got %+v", build)
		}
	})
}

func TestJobs_AreUnblockedWithoutFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		pipeline(t, client, "Ask", "steps: [{block: Go}]")
		build := call(client.Builds.Create(t.Context(), "acme", "ask", head("main"))).created(t)
		if !build.Blocked || build.State != "passed" {
			t.Errorf("a blocked build is %s, blocked %t", build.State, build.Blocked)
		}
		call(client.Jobs.UnblockJob(t.Context(), "acme", "ask", "1", build.Jobs[0].ID, nil)).ok(t)
		call(client.Builds.Create(t.Context(), "acme", "ask", head("main"))).created(t)
		second := get(client.Builds.Cancel(t.Context(), "acme", "ask", "2")).ok(t)
		call(client.Jobs.UnblockJob(t.Context(), "acme", "ask", "2", second.Jobs[0].ID, nil)).refused(t, http.StatusUnprocessableEntity, "Jobs from canceled builds cannot be unblocked")
	})
}

func TestJobs_Retry(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		first := call(client.Builds.Create(t.Context(), "acme", "hello", head("main"))).created(t).Jobs[0]
		retry := func(number, job string) answer[buildkite.Job] {
			return call(client.Jobs.RetryJob(t.Context(), "acme", "hello", number, job))
		}
		retry("1", first.ID).refused(t, http.StatusBadRequest, "Only failed, timed out or canceled jobs can be retried")
		cancelJob(t, client, first.ID)
		second := retry("1", first.ID).ok(t)
		if second.ID == first.ID || second.State != "scheduled" || second.RetriesCount != 1 || second.RetryType != "manual" || second.Command != first.Command {
			t.Errorf("retried %+v", second)
		}
		retry("1", first.ID).refused(t, http.StatusUnprocessableEntity, "This job has already been retried")
		options := &buildkite.BuildGetOptions{BuildsListOptions: buildkite.BuildsListOptions{IncludeRetriedJobs: true}}
		all := call(client.Builds.Get(t.Context(), "acme", "hello", "1", options)).ok(t)
		if len(all.Jobs) != 2 || !all.Jobs[0].Retried || all.Jobs[0].RetriedInJobID != second.ID {
			t.Errorf("got %+v", all.Jobs)
		}
		call(client.Builds.Create(t.Context(), "acme", "hello", head("main"))).created(t)
		canceled := get(client.Builds.Cancel(t.Context(), "acme", "hello", "2")).ok(t)
		retry("2", canceled.Jobs[0].ID).refused(t, http.StatusUnprocessableEntity, "Jobs from canceled builds cannot be retried")
	})
}

func TestJobs_Reprioritize(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		job := call(client.Builds.Create(t.Context(), "acme", "hello", head("main"))).created(t).Jobs[0]
		for _, priority := range []int{7, -1, 0} {
			got := call(client.Jobs.ReprioritizeJob(t.Context(), "acme", "hello", "1", job.ID, &buildkite.JobReprioritizationOptions{Priority: priority})).ok(t)
			if got.ID != job.ID || got.Priority.Number != priority {
				t.Errorf("got %+v, want the priority %d", got, priority)
			}
		}
	})
}

func TestJobs_Environment(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		build := call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{Commit: "HEAD", Branch: "main", Env: map[string]string{"A": "1"}})).created(t)
		env := call(client.Jobs.GetJobEnvironmentVariables(t.Context(), "acme", "hello", "1", build.Jobs[0].ID)).ok(t).EnvironmentVariables
		if env["A"] != "1" || env["SERVICE_BUILD_ID"] != build.ID || env["SERVICE_JOB_ID"] != build.Jobs[0].ID {
			t.Errorf("got %v", env)
		}
		call(s.as(t, reader).Jobs.GetJobEnvironmentVariables(t.Context(), "acme", "hello", "1", build.Jobs[0].ID)).
			refused(t, http.StatusForbidden, "Forbidden: your access token needs the scope read_job_env")
	})
}
