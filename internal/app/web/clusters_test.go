package web_test

import (
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const (
	acmeClusters = "/organizations/acme/clusters"
	acmeCluster  = acmeClusters + "/" + servertest.AcmeClusterID
	acmeQueue    = acmeCluster + "/queues/" + servertest.AcmeQueueID
)

func TestClusterPages_CreateChangeAndDelete(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		ada.get(acmeClusters).want(200, "Default", "New cluster").wantLink(acmeCluster)
		ada.post(acmeClusters, "name", "").want(422, "Name is required")
		made := ada.post(acmeClusters, "name", "Second", "description", "Spare").want(303).Header.Get("Location")
		ada.get(made).want(200, "Second", "Spare", "No queues yet")
		ada.post(made+"/queues", "key", "not a key").want(422, "Key")
		ada.post(made+"/queues", "key", "gpu", "description", "Fast").wantRedirect(made)
		ada.get(made).want(200, "Queue created", "gpu", "Fast", "no agents")
		ada.get(made+"/settings").want(200, "Cluster settings", "Default queue", "Maintainers")
		ada.post(made+"/settings", "name", "Third", "color", "red").want(422, "Color")
		ada.post(made+"/settings", "name", "Third").wantRedirect(made + "/settings")
		ada.post(made+"/maintainers", "user", servertest.BoID).wantRedirect(made + "/settings")
		ada.get(made+"/settings").want(200, "Maintainer added", "bo@acme.test")

		bo := signIn(t, s, "bo@acme.test")
		bo.get(acmeCluster).want(200, "default").wantNot("New queue")
		bo.get(made).want(200, "New queue") // a maintainer
		bo.post(acmeCluster+"/queues", "key", "mine").want(403)
		bo.post(acmeClusters, "name", "Mine").want(403)
		bo.post(acmeCluster + "/delete").want(403)
		ada.post(made + "/delete").wantRedirect(acmeClusters)
		ada.get(made).want(404)
		ada.post(acmeCluster + "/delete").want(303)
		signIn(t, s, "cy@rival.test").get(acmeCluster).want(404)
		visit(t, s).get(acmeCluster).want(303)
	})
}

func TestQueuePage_ShowsJobsAndPausesTheQueue(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		ada.get(acmeQueue).want(200, "No job waits", "No job runs", "No agents in this queue", "stackyard agent --endpoint", "can enable advanced queue metrics")
		b := s.As(t, servertest.Ada).Post("/v2/organizations/acme/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(201)
		ada.get(acmeQueue).want(200, "Job of Hello", "Hello #1", "waiting since").wantLink("/acme/hello/builds/1#" + b.String("jobs.0.id"))
		ada.post(acmeQueue+"/pause", "dispatch_paused_note", "Moving <b>racks</b>").wantRedirect(acmeQueue)
		ada.get(acmeQueue).want(200, "Queue paused", "by Ada", "Moving <b>racks</b>", "Resume queue")
		ada.get(acmeCluster).want(200, "paused", "Moving <b>racks</b>")
		bo.get(acmeQueue).want(200, "Moving").wantNot("Resume queue")
		bo.post(acmeQueue + "/resume").want(403)
		bo.post(acmeQueue + "/pause").want(403)
		ada.post(acmeQueue+"/pause").want(422, "paused")
		ada.post(acmeQueue + "/resume").wantRedirect(acmeQueue)
		ada.get(acmeQueue).want(200, "Queue resumed", "Pause queue")
		agent := s.Register(t, map[string]any{"name": "worker-1"})
		agent.Acquire(b.String("jobs.0.id")).Start()
		ada.get(acmeQueue).want(200, "No job waits", "started", "worker-1")
		s.As(t, servertest.Ada).Put("/v2/organizations/acme/pipeline-settings/advanced-queue-metrics", nil).Want(200)
		ada.get(acmeQueue).want(200, "Jobs started", "95% waited up to").wantHTML(`<svg class="chart"`)
		ada.post(acmeQueue, "description", "The only one", "retry_agent_affinity", "prefer-different").wantRedirect(acmeQueue)
		ada.get(acmeQueue).want(200, "The only one")
	})
}

func TestAgentPages_ShowAndControlAgents(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		const agents = "/organizations/acme/agents"
		ada.get(agents).want(200, "No agents are connected", "--token TOKEN")
		s.Register(t, map[string]any{"name": "worker-1", "hostname": "box", "version": "1.2.3", "meta_data": []string{"os=linux"}})
		ada.get(agents).want(200, "worker-1", "box", "version 1.2.3", "connected")
		ada.get(agents+"?name=other").want(200, "No agent matches")
		id := s.As(t, servertest.Ada).Get("/v2/organizations/acme/agents").String("0.id")
		one := agents + "/" + id
		bo.get(one).want(200, "worker-1", "os=linux").wantNot("Stop agent")
		bo.post(one + "/stop").want(403)
		ada.post(one+"/pause", "note", "Disk", "timeout_in_minutes", "many").want(422)
		ada.post(one+"/pause", "note", "Disk full", "timeout_in_minutes", "10").wantRedirect(one)
		ada.get(one).want(200, "Agent paused", "paused", "Disk full", "by Ada", "Resume agent")
		ada.post(one + "/resume").wantRedirect(one)
		ada.post(one+"/stop", "force", "true").wantRedirect(one)
		ada.get(one).want(200, "Agent asked to stop")
		ada.get(agents + "/" + servertest.AdaID).want(404)
		ada.get(agents + "?page=x").want(400)
	})
}

func TestClusterPages_ManageTokensAndSecrets(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		tokens, secrets := acmeCluster+"/tokens", acmeCluster+"/secrets"
		ada.get(tokens).want(200, "boot", "New agent token").wantNot(servertest.AcmeAgent)
		ada.post(tokens, "description", "Office", "allowed_ip_addresses", "nowhere").want(422, "Allowed addresses")
		made := ada.post(tokens, "description", "Office").want(201, "It will not be shown again", "stackyard agent --endpoint")
		value := made.Body[strings.Index(made.Body, "svcct_"):]
		value = value[:strings.IndexAny(value, "<\" ")]
		s.AsAgent(t, value).Get("/v3/token").Want(200)
		ada.get(tokens).want(200, "Office").wantNot(value)
		id := s.As(t, servertest.Ada).Get("/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/tokens").String("1.id")
		bo.post(tokens + "/" + id + "/revoke").want(403)
		ada.post(tokens + "/" + id + "/revoke").wantRedirect(tokens)

		ada.get(secrets).want(200, "No secrets yet")
		ada.post(secrets, "key", "not ok", "value", "hunter22").want(422, "Key").wantNot("hunter22")
		ada.post(secrets, "key", "DEPLOY", "value", "hunter22", "description", "For deploys").wantRedirect(secrets)
		ada.get(secrets).want(200, "DEPLOY", "For deploys", "never read").wantNot("hunter22")
		secret := secrets + "/" + s.As(t, servertest.Ada).Get("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/secrets").String("0.id")
		ada.get(secret).want(200, "Replace value").wantNot("hunter22")
		ada.post(secret+"/value", "value", "other").wantRedirect(secret)
		ada.post(secret, "policy", "]").want(422, "Access policy")
		ada.post(secret, "description", "Changed").wantRedirect(secret)
		bo.post(secret + "/delete").want(403)
		ada.post(secret + "/delete").wantRedirect(secrets)
		ada.get(acmeCluster+"/stacks").want(200, "No stacks yet")
		ada.get(acmeCluster+"/agent-images").want(200, "No agent images")
	})
}
