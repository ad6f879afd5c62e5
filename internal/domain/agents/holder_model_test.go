package agents_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// TestHolder_IsOneForEachJob sends allowed and forbidden requests of agents in random order, while jobs are
// canceled, time passes and servers are replaced by others on the same database. At all times a job is
// acknowledged to one agent only, an agent has at most one job, and the end of a job stays as acknowledged.
func TestHolder_IsOneForEachJob(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		checks.Value.Set("10") // each takes about a second
	}
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(servertest.HelloPath, fields{"configuration": "steps: [{command: a}, {command: b}, {command: c}]"}).Want(http.StatusOK)
		latest := w.Server // server of the previous run: time does not go back
		rapid.Check(t, func(rt *rapid.T) {
			m := &holderModel{world: w, server: latest, agents: map[string]*modelAgent{}, jobs: map[string]*modelJob{}}
			defer func() { latest = m.server }()
			m.build(rt)
			m.register(rt)
			rt.Repeat(map[string]func(*rapid.T){
				"":           m.check,
				"build":      m.build,
				"register":   m.register,
				"ping":       m.ping,
				"accept":     m.accept,
				"acquire":    m.acquire,
				"start":      m.start,
				"finish":     m.finish,
				"cancel":     m.cancel,
				"beat":       m.beat,
				"disconnect": m.disconnect,
				"stop":       m.stop,
				"pass":       m.pass,
				"restart":    m.restart,
			})
			m.end(rt)
		})
	})
}

type modelAgent struct {
	session string
}

type modelJob struct {
	build  string
	holder string // agent that the job was acknowledged to
	token  string
	exit   *int // acknowledged exit status
}

// holderModel records what servers acknowledged.
type holderModel struct {
	*world
	server *servertest.Server
	agents map[string]*modelAgent
	jobs   map[string]*modelJob
}

// call sends a request without checking the response.
func (m *holderModel) call(t *rapid.T, authorization, method, path string, body any) (status int, answer map[string]any) {
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, m.server.URL+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 500 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, got)
	}
	json.Unmarshal(got, &answer)
	return resp.StatusCode, answer
}

func pick[V any](t *rapid.T, from map[string]V, what string) string {
	if len(from) == 0 {
		t.Skip("nothing to pick from")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(from))).Draw(t, what)
}

func (m *holderModel) build(t *rapid.T) {
	_, made := m.call(t, "Bearer "+servertest.Ada, "POST", servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "main"})
	for _, job := range made["jobs"].([]any) {
		m.jobs[job.(fields)["id"].(string)] = &modelJob{build: strconv.Itoa(int(made["number"].(float64)))}
	}
}

func (m *holderModel) register(t *rapid.T) {
	if len(m.agents) > 5 {
		t.Skip("there are enough")
	}
	_, made := m.call(t, "Token "+servertest.AcmeAgent, "POST", "/v3/register", fields{})
	a := &modelAgent{session: "Token " + made["access_token"].(string)}
	m.agents[made["id"].(string)] = a
	m.call(t, a.session, "POST", "/v3/connect", nil)
}

func (m *holderModel) ping(t *rapid.T) {
	id := pick(t, m.agents, "agent")
	_, answer := m.call(t, m.agents[id].session, "GET", "/v3/ping", nil)
	if job, ok := answer["job"].(fields); ok && rapid.Bool().Draw(t, "accepts") {
		m.take(t, id, job["id"].(string), "/accept")
	}
}

func (m *holderModel) accept(t *rapid.T) {
	m.take(t, pick(t, m.agents, "agent"), pick(t, m.jobs, "job"), "/accept")
}

func (m *holderModel) acquire(t *rapid.T) {
	m.take(t, pick(t, m.agents, "agent"), pick(t, m.jobs, "job"), "/acquire")
}

func (m *holderModel) take(t *rapid.T, agent, job, how string) {
	status, answer := m.call(t, m.agents[agent].session, "PUT", "/v3/jobs/"+job+how, nil)
	j := m.jobs[job]
	if status != http.StatusOK || j == nil {
		return
	}
	if j.holder != "" && j.holder != agent {
		t.Fatalf("the job %s was given to %s, and then to %s", job, j.holder, agent)
	}
	if j.exit != nil {
		t.Fatalf("the job %s was given to %s after it had ended", job, agent)
	}
	j.holder, j.token = agent, "Token "+answer["token"].(string)
}

// credentials returns a token for a request about a job: the job's own, or the session token of any agent.
func (m *holderModel) credentials(t *rapid.T, job string) (authorization, agent string) {
	if j := m.jobs[job]; j.token != "" && rapid.Bool().Draw(t, "with its token") {
		return j.token, j.holder
	}
	agent = pick(t, m.agents, "agent")
	return m.agents[agent].session, agent
}

func (m *holderModel) start(t *rapid.T) {
	job := pick(t, m.jobs, "job")
	who, agent := m.credentials(t, job)
	status, _ := m.call(t, who, "PUT", "/v3/jobs/"+job+"/start", fields{})
	if status == http.StatusOK && m.jobs[job].holder != agent {
		t.Fatalf("%s started the job %s of %s", agent, job, m.jobs[job].holder)
	}
}

func (m *holderModel) finish(t *rapid.T) {
	job, exit := pick(t, m.jobs, "job"), rapid.IntRange(-1, 2).Draw(t, "exit status")
	who, agent := m.credentials(t, job)
	status, _ := m.call(t, who, "PUT", "/v3/jobs/"+job+"/finish", fields{"exit_status": strconv.Itoa(exit)})
	if status != http.StatusOK {
		return
	}
	j := m.jobs[job]
	if j.holder != agent {
		t.Fatalf("%s finished the job %s of %s", agent, job, j.holder)
	}
	if j.exit != nil && *j.exit != exit {
		t.Fatalf("the job %s ended with %d, and then with %d", job, *j.exit, exit)
	}
	j.exit = &exit
}

func (m *holderModel) cancel(t *rapid.T) {
	m.call(t, "Bearer "+servertest.Ada, "PUT", servertest.HelloPath+"/builds/"+m.jobs[pick(t, m.jobs, "job")].build+"/cancel", nil)
}

func (m *holderModel) beat(t *rapid.T) {
	m.call(t, m.agents[pick(t, m.agents, "agent")].session, "POST", "/v3/heartbeat", fields{})
}

func (m *holderModel) disconnect(t *rapid.T) {
	id := pick(t, m.agents, "agent")
	m.call(t, m.agents[id].session, "POST", "/v3/disconnect", nil)
	delete(m.agents, id)
}

func (m *holderModel) stop(t *rapid.T) {
	m.call(t, "Bearer "+servertest.Ada, "PUT", acmeAgents+"/"+pick(t, m.agents, "agent")+"/stop", fields{"force": rapid.Bool().Draw(t, "force")})
}

func (m *holderModel) pass(t *rapid.T) {
	m.server.Clock.Advance(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
	if err := m.server.RunDue(m.t.Context()); err != nil {
		t.Fatal(err)
	}
}

// restart replaces the server by a new one, which has no sessions.
func (m *holderModel) restart(*rapid.T) {
	other := servertest.Start(m.t, m.DB, func(p *server.Parts) { p.Key = m.Key })
	other.Clock.Advance(m.server.Clock.Now().Sub(other.Clock.Now()))
	m.server = other
}

// check compares the database with the model.
func (m *holderModel) check(t *rapid.T) {
	type row struct {
		agent, state string
		exit         *int
	}
	now := map[string]row{}
	busy := map[string]string{}
	err := m.DB.Read(m.t.Context(), func(q *db.Q) error {
		in, arg := q.In("id", 1, slices.Collect(maps.Keys(m.jobs)))
		_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
			var id string
			var r row
			if err := scan(&id, db.ToText(&r.agent), &r.state, &r.exit); err != nil {
				return none, err
			}
			now[id] = r
			return none, nil
		}, `SELECT id, agent_id, state, exit_status FROM jobs WHERE `+in, arg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, r := range now {
		j := m.jobs[id]
		if j.holder != "" && r.agent != j.holder {
			t.Fatalf("the job %s was given to %s, and %s has it", id, j.holder, r.agent)
		}
		if j.exit != nil && (r.exit == nil || *r.exit != *j.exit) {
			t.Fatalf("the job %s ended with %d, and now it ended with %v", id, *j.exit, r.exit)
		}
		switch r.state {
		case "assigned", "accepted", "running", "canceling", "timing_out":
			if other := busy[r.agent]; other != "" {
				t.Fatalf("%s has the jobs %s and %s", r.agent, other, id)
			}
			busy[r.agent] = id
		}
	}
}

// end lets time pass until everything has ended: no job is stuck with an agent.
func (m *holderModel) end(t *rapid.T) {
	clear(m.agents)
	for range 8 {
		m.server.Clock.Advance(2 * time.Minute)
		if err := m.server.RunDue(m.t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var held int
	err := m.DB.Read(m.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM jobs WHERE state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out')`).Scan(&held)
	})
	if err != nil {
		t.Fatal(err)
	}
	if held > 0 {
		t.Fatalf("%d jobs are still with agents that have vanished", held)
	}
	for _, j := range m.jobs { // so that they are not offered in the next run
		m.call(t, "Bearer "+servertest.Ada, "PUT", servertest.HelloPath+"/builds/"+j.build+"/cancel", nil)
	}
}
