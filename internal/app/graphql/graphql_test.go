package graphql_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// ask sends an operation.
func ask(c *servertest.Client, query string, variables map[string]any) *servertest.Response {
	return c.Post("/graphql", map[string]any{"query": query, "variables": variables}).Want(http.StatusOK)
}

const (
	clustersQuery = `query Clusters($org: ID!, $after: String) {
		organization(slug: $org) { id clusters(first: 1, after: $after) { edges { node { id name } } pageInfo { hasNextPage endCursor } } } }`
	queuesQuery = `query Queues($id: ID!) {
		node(id: $id) { __typename ... on Cluster { id name queues(first: 100) { edges { node { id key } } pageInfo { hasNextPage } } } } }`
	jobsQuery = `query Jobs($org: ID!, $queues: [ID!], $rules: [String!], $state: [JobStates!], $first: Int) {
		organization(slug: $org) { jobs(clusterQueue: $queues, agentQueryRules: $rules, state: $state, first: $first) { edges { node { __typename ... on JobTypeCommand {
			id uuid command state exitStatus url startedAt finishedAt createdAt cluster { id name } clusterQueue { id key } agent { id name hostname metaData } } } }
			pageInfo { hasNextPage endCursor } } } }`
	cancelQuery = `mutation Cancel($id: ID!) { jobTypeCommandCancel(input: {id: $id, clientMutationId: "7"}) { clientMutationId jobTypeCommand { id uuid state url } } }`
)

func TestQueries_FindWhatPublishedClientsAskFor(t *testing.T) {
	servertest.EachRunning(t, nil, func(t *testing.T, b *servertest.RunningBuild) {
		ada := b.Ada
		two := ada.Post("/v2/organizations/acme/clusters", map[string]any{"name": "Two"}).Want(http.StatusCreated)

		org := ask(ada, clustersQuery, map[string]any{"org": "acme"})
		id, _ := strings.CutPrefix(org.String("data.organization.clusters.edges.0.node.id"), "")
		if id != core.GraphQLID("Cluster", servertest.AcmeClusterID) || org.At("data.organization.clusters.pageInfo.hasNextPage") != true {
			t.Error(string(org.Body))
		}
		next := ask(ada, clustersQuery, map[string]any{"org": "acme", "after": org.String("data.organization.clusters.pageInfo.endCursor")})
		if next.String("data.organization.clusters.edges.0.node.name") != two.String("name") || next.At("data.organization.clusters.pageInfo.hasNextPage") != false {
			t.Error(string(next.Body))
		}
		for _, clusterID := range []string{id, servertest.AcmeClusterID} {
			queues := ask(ada, queuesQuery, map[string]any{"id": clusterID})
			if queues.String("data.node.__typename") != "Cluster" || queues.String("data.node.queues.edges.0.node.id") != servertest.AcmeQueueID {
				t.Error(string(queues.Body))
			}
		}

		jobs := ask(ada, jobsQuery, map[string]any{"org": "acme", "queues": []string{servertest.AcmeQueueID}, "state": []string{"RUNNING"}, "first": 50})
		const first = "data.organization.jobs.edges.0.node."
		if jobs.String(first+"uuid") != b.ID || jobs.String(first+"state") != "RUNNING" || jobs.String(first+"clusterQueue.key") != "default" ||
			jobs.String(first+"cluster.name") != "Default" || jobs.String(first+"agent.hostname") != "host" || jobs.At(first+"exitStatus") != nil ||
			jobs.String(first+"__typename") != "JobTypeCommand" {
			t.Error(string(jobs.Body))
		}
		for _, none := range []map[string]any{
			{"org": "acme", "state": []string{"FINISHED"}}, {"org": "acme", "queues": []string{core.NewID()}}, {"org": "acme", "rules": []string{"os=plan9"}},
		} {
			if found := ask(ada, jobsQuery, none); found.Len("data.organization.jobs.edges") != 0 {
				t.Errorf("%v: %s", none, found.Body)
			}
		}

		member := ask(ada, `query($org: ID!, $email: String) { organization(slug: $org) { members(first: 1, email: $email) { edges { node { user { id email } } } } } viewer { user { name } } }`,
			map[string]any{"org": "acme", "email": "BO@acme.test"})
		if member.String("data.organization.members.edges.0.node.user.id") != core.GraphQLID("User", servertest.BoID) || member.String("data.viewer.user.name") != "Ada" {
			t.Error(string(member.Body))
		}

		canceled := ask(ada, cancelQuery, map[string]any{"id": core.GraphQLID("JobTypeCommand", b.ID)})
		if canceled.String("data.jobTypeCommandCancel.jobTypeCommand.uuid") != b.ID || canceled.String("data.jobTypeCommandCancel.clientMutationId") != "7" {
			t.Error(string(canceled.Body))
		}
	})
}

func TestMutations_InviteUnblockAndCreateWebhooks(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		org := ask(ada, `{ organization(slug: "acme") { id } }`, nil).String("data.organization.id")
		invited := ask(ada, `mutation($org: ID!, $emails: [String!]!) { organizationInvitationCreate(input: {organizationID: $org, emails: $emails}) { clientMutationId invitationLinks } }`,
			map[string]any{"org": org, "emails": []string{"dee@acme.test", "eve@acme.test"}})
		if invited.Len("data.organizationInvitationCreate.invitationLinks") != 2 {
			t.Error(string(invited.Body))
		}
		webhook := ask(ada, `mutation($id: ID!) { pipelineCreateWebhook(input: {id: $id}) { pipelineID } }`, map[string]any{"id": core.GraphQLID("Pipeline", servertest.AcmePipelineID)})
		if message := webhook.String("errors.0.message"); !strings.Contains(message, "host") {
			t.Errorf("there is no connection to the host, and it says %q", message)
		}

		ada.Patch(servertest.HelloPath, map[string]any{"configuration": "steps: [{block: \"Go?\", fields: [{text: Why, key: why}]}]"}).Want(http.StatusOK)
		build := ada.Post(servertest.HelloPath+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		unblocked := ask(ada, `mutation($id: ID!) { jobTypeBlockUnblock(input: {id: $id, fields: "{\"why\": \"because\"}"}) { jobTypeBlock { state label } } }`,
			map[string]any{"id": core.GraphQLID("JobTypeBlock", build.String("jobs.0.id"))})
		if unblocked.String("data.jobTypeBlockUnblock.jobTypeBlock.state") != "UNBLOCKED" {
			t.Error(string(unblocked.Body))
		}
	})
}

// Scopes, permissions and other organizations are those of the REST API.
func TestPermissions_AreThoseOfTheRESTAPI(t *testing.T) {
	servertest.EachRunning(t, nil, func(t *testing.T, b *servertest.RunningBuild) {
		b.Server.Apply(`organizations: [{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: clusters, token: svcua_narrow, scopes: [read_organizations, read_clusters]}]}]}]`)
		narrow, bo, cy := b.Server.As(t, "svcua_narrow"), b.Server.As(t, servertest.Bo), b.Server.As(t, servertest.Cy)
		job := map[string]any{"id": core.GraphQLID("JobTypeCommand", b.ID)}
		for _, test := range []struct {
			what   string
			as     *servertest.Client
			query  string
			values map[string]any
			want   string
		}{
			{"no scope for builds", narrow, jobsQuery, map[string]any{"org": "acme"}, "needs the scope read_builds"},
			{"no scope to cancel", narrow, cancelQuery, job, "needs the scope write_builds"},
			{"another organization", cy, clustersQuery, map[string]any{"org": "acme"}, "No organization found"},
			{"a job of another organization", cy, cancelQuery, job, "No job found"},
			{"no permission", bo, `mutation($o: ID!) { organizationInvitationCreate(input: {organizationID: $o, emails: ["x@acme.test"]}) { clientMutationId } }`,
				map[string]any{"o": ask(bo, `{ organization(slug: "acme") { id } }`, nil).String("data.organization.id")}, "Forbidden"},
			{"an organization by a foreign id", cy, `mutation($o: ID!) { organizationInvitationCreate(input: {organizationID: $o, emails: ["x@acme.test"]}) { clientMutationId } }`,
				map[string]any{"o": ask(bo, `{ organization(slug: "acme") { id } }`, nil).String("data.organization.id")}, "No organization found"},
		} {
			if got := ask(test.as, test.query, test.values); !got.Has("errors") || !strings.Contains(got.String("errors.0.message"), test.want) {
				t.Errorf("%s: %s, want %q", test.what, got.Body, test.want)
			}
		}
		if got := ask(narrow, clustersQuery, map[string]any{"org": "acme"}); got.Has("errors") {
			t.Error(string(got.Body))
		}
		if got := ask(cy, queuesQuery, map[string]any{"id": servertest.AcmeClusterID}); got.At("data.node") != nil {
			t.Error(string(got.Body))
		}
		b.Server.As(t, "wrong").Post("/graphql", map[string]any{"query": "{ viewer { user { id } } }"}).Want(http.StatusUnauthorized)
	})
}

func TestRequests_AreLimited(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post("/graphql", map[string]any{}).WantMessage(http.StatusBadRequest, "query is required: a GraphQL document")
		ada.Post("/graphql", map[string]any{"query": strings.Repeat(" ", 20_001)}).WantMessage(http.StatusBadRequest, "query is too long: it has more than 20000 bytes")
		ada.Post("/graphql", map[string]any{"query": "{ viewer { user { id } } }", "variables": []int{1}}).WantMessage(http.StatusBadRequest, "variables must be an object")

		var many strings.Builder
		for i := range 70 {
			fmt.Fprintf(&many, " o%d: organization(slug: \"acme\") { id }", i)
		}
		deep := "{ organization(slug: \"acme\") { " + strings.Repeat("clusters { edges { node { queues { edges { node { key } } } ", 1) + "} } } } }"
		for query, want := range map[string]string{
			"{" + many.String() + "}": "the query is too expensive",
			"{ nonsense }":            "nonsense",
			"{ viewer {":              "syntax error",
			"query($a: Nope) { viewer { user { id } } }":                                        "Nope",
			`{ organization(slug: "acme") { clusters(first: 0) { edges { node { id } } } } }`:   "first must be from 1 to 500",
			`{ organization(slug: "acme") { clusters(after: "x") { edges { node { id } } } } }`: "after is not a cursor",
			"fragment A on Query { ...A } { ...A }":                                             "",
			"{ __schema { types { fields { type { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { name } } } } } } } } } } } } } }": "max",
		} {
			got := ask(ada, query, nil)
			if !got.Has("errors") || !strings.Contains(strings.ToLower(string(got.Body)), strings.ToLower(want)) {
				t.Errorf("%.80s: %.300s, want an error with %q", query, got.Body, want)
			}
		}
		if got := ask(ada, deep, nil); got.Has("errors") {
			t.Errorf("%s", got.Body)
		}
		if got := s.As(t, "").Get("/graphql/schema").Want(http.StatusOK); !strings.Contains(string(got.Body), "type JobTypeCommand") {
			t.Error(string(got.Body))
		}
	})
}

// The text of a query can be small and its result large.
func TestRequests_AreLimitedByTheirResults(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		var aliases strings.Builder
		for i := range 450 {
			fmt.Fprintf(&aliases, " a%d: name", i)
		}
		// Each fragment is used near the top first, where the library measures its depth.
		const deep = `fragment A on __Type { fields { type { ...B } } } fragment B on __Type { fields { type { ofType { ...C } } } }
			fragment C on __Type { fields { type { ...D } } } fragment D on __Type { fields { type { fields { type { kind } } } } }
			{ d: __type(name: "Agent") { ...D } c: __type(name: "Agent") { ...C } b: __type(name: "Agent") { ...B } a: __type(name: "Organization") { ...A } }`
		for query, want := range map[string]string{
			"{ __schema { types { fields {" + aliases.String() + " } } } }": "the query is too expensive; its result has more than 25000 fields",
			deep: "the query is too deep; fields can be nested 12 deep",
		} {
			if got := ask(ada, query, nil); got.Has("data") || got.String("errors.0.message") != want {
				t.Errorf("%.60s: %.200s, want %q", query, got.Body, want)
			}
		}
		// Each fragment uses the next one twice.
		var doubling strings.Builder
		for i := range 40 {
			fmt.Fprintf(&doubling, "fragment F%d on __Type { a: ofType { ...F%d } b: ofType { ...F%d } } ", i, i+1, i+1)
		}
		doubling.WriteString(`fragment F40 on __Type { name } { __type(name: "Agent") { ...F0 } }`)
		ada.Post("/graphql", map[string]any{"query": doubling.String()}).WantMessage(http.StatusBadRequest, "query is too large; use fewer fields and fragments")

		// What programs that explore a schema ask for is small enough, and shows the published schema.
		schema := string(s.As(t, "").Get("/graphql/schema").Want(http.StatusOK).Body)
		explored := ask(ada, `{ __schema { queryType { name } mutationType { name } types { kind name description fields(includeDeprecated: true) { name description
			args { name description type { ...T } defaultValue } type { ...T } } inputFields { name type { ...T } } interfaces { ...T }
			enumValues(includeDeprecated: true) { name } possibleTypes { ...T } } directives { name locations args { name type { ...T } } } } }
			fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`, nil)
		if explored.Has("errors") {
			t.Fatalf("%.300s", explored.Body)
		}
		known := 0
		for i := range explored.Len("data.__schema.types") {
			name := explored.String(fmt.Sprintf("data.__schema.types.%d.name", i))
			if strings.HasPrefix(name, "__") || slices.Contains([]string{"Boolean", "Float", "ID", "Int", "String"}, name) {
				continue
			}
			if known++; !strings.Contains(schema, " "+name+" ") && !strings.Contains(schema, " "+name+"\n") {
				t.Errorf("the published schema has no type %s", name)
			}
		}
		if known < 20 {
			t.Errorf("introspection shows %d types", known)
		}
	})
}
