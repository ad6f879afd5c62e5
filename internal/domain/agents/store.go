package agents

import (
	"errors"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noAgent = "No agent found"

const agentColumns = `a.id, a.organization_id, a.cluster_id, a.queue_id, a.queue_key, a.token_id, a.token_description,
		a.name, a.hostname, a.ip_address, a.user_agent, a.version, a.build, a.os, a.arch, a.tags, a.priority, a.ignored_in_dispatch, a.only_job_id, a.stack_id,
		a.state, a.stop_asked_at, a.created_at, a.connected_at, a.disconnected_at, a.lost_at, a.stopped_at, a.last_job_finished_at,
		a.paused_at, a.paused_note, a.pause_minutes,
		p.id, p.email, p.name, p.created_at, ` + identity.UserColumns

// fromExisting leaves out agents of deleted clusters.
const fromExisting = `
	FROM agents a
	JOIN clusters ac ON ac.id = a.cluster_id AND ac.deleted_at IS NULL`

const fromAgents = fromExisting + `
	LEFT JOIN users p ON p.id = a.paused_by
	LEFT JOIN users u ON u.id = a.creator_id`

const selectAgent = `
	SELECT ` + agentColumns + fromAgents

func scanAgent(scan db.Scan) (*Agent, error) { return scanAgentAnd(scan) }

// scanAgentAnd scans an agent, and the columns after it into more.
func scanAgentAnd(scan db.Scan, more ...any) (*Agent, error) {
	a := &Agent{}
	var pausedBy, creator identity.User
	dest := []any{
		&a.ID, &a.OrganizationID, &a.ClusterID, db.ToText(&a.QueueID), &a.QueueKey, &a.TokenID, &a.TokenName,
		&a.Name, &a.Hostname, &a.Address, &a.UserAgent, &a.Version, &a.Build, &a.OS, &a.Arch, db.ToJSON(&a.Tags), &a.Priority, &a.Ignored, db.ToText(&a.OnlyJob), db.ToText(&a.StackID),
		&a.State, db.ToTime(&a.StopRequestedAt), db.ToTime(&a.CreatedAt), db.ToTime(&a.ConnectedAt), db.ToTime(&a.DisconnectedAt), db.ToTime(&a.LostAt),
		db.ToTime(&a.StoppedAt), db.ToTime(&a.LastJobFinishedAt),
		db.ToTime(&a.Pause.At), db.ToText(&a.Pause.Note), &a.Pause.Minutes,
	}
	dest = append(dest, identity.UserDest(&pausedBy)...)
	err := scan(slices.Concat(dest, identity.UserDest(&creator), more)...)
	a.Pause.By, a.Creator = pausedBy.OrNil(), creator.OrNil()
	return a, err
}

// byID returns an agent, or a NotFound error.
func byID(q *db.Q, orgID, id string) (*Agent, error) {
	return orNotFound(db.One(q, scanAgent, selectAgent+` WHERE a.organization_id = $1 AND a.id = $2`, orgID, id))
}

// orNotFound turns ErrNoRows into a NotFound error.
func orNotFound[T any](found *T, err error) (*T, error) {
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noAgent)
	}
	return found, err
}

// readSnapshot returns an agent and its job, or a NotFound error. One statement reads both, because sessions
// read them after every change of a job.
func readSnapshot(q *db.Q, orgID, id string) (*snapshot, error) {
	return orNotFound(db.One(q, func(scan db.Scan) (s *snapshot, err error) {
		s = &snapshot{}
		if s.Agent, err = scanAgentAnd(scan, builds.HeldDest(&s.job)...); err == nil {
			s.tagsKey = dispatch.TagsKey(s.Tags)
		}
		return s, err
	}, `
	SELECT `+agentColumns+`, `+builds.HeldColumns+fromAgents+builds.JoinHeld+`
	WHERE a.organization_id = $1 AND a.id = $2
	ORDER BY j.id NULLS LAST
	LIMIT 1`, orgID, id))
}

// readChanged is readSnapshot for an agent that is known: it reads only what changes after registration.
func readChanged(q *db.Q, known *snapshot) (*snapshot, error) {
	return orNotFound(db.One(q, func(scan db.Scan) (*snapshot, error) {
		a := *known.Agent
		now := &snapshot{Agent: &a, tagsKey: known.tagsKey}
		var pausedBy identity.User
		dest := []any{
			db.ToText(&a.QueueID), &a.Ignored, &a.State, db.ToTime(&a.StopRequestedAt), db.ToTime(&a.ConnectedAt), db.ToTime(&a.DisconnectedAt),
			db.ToTime(&a.LostAt), db.ToTime(&a.StoppedAt), db.ToTime(&a.LastJobFinishedAt),
			db.ToTime(&a.Pause.At), db.ToText(&a.Pause.Note), &a.Pause.Minutes,
		}
		err := scan(slices.Concat(dest, identity.UserDest(&pausedBy), builds.HeldDest(&now.job))...)
		a.Pause.By = pausedBy.OrNil()
		return now, err
	}, `
	SELECT a.queue_id, a.ignored_in_dispatch, a.state, a.stop_asked_at, a.connected_at, a.disconnected_at,
		a.lost_at, a.stopped_at, a.last_job_finished_at,
		a.paused_at, a.paused_note, a.pause_minutes, p.id, p.email, p.name, p.created_at, `+builds.HeldColumns+fromExisting+`
	LEFT JOIN users p ON p.id = a.paused_by`+builds.JoinHeld+`
	WHERE a.organization_id = $1 AND a.id = $2
	ORDER BY j.id NULLS LAST
	LIMIT 1`, known.OrganizationID, known.ID))
}

// lockByID returns an agent and locks it until the end of the write, or returns a NotFound error.
func lockByID(q *db.Q, orgID, id string) (*Agent, error) {
	if err := q.Lock("agents", id); err != nil {
		return nil, err
	}
	return byID(q, orgID, id)
}

// bySessionHash returns the agent whose session token has the hash, or a NotFound error.
func bySessionHash(q *db.Q, hash string) (*Agent, error) {
	return orNotFound(db.One(q, scanAgent, selectAgent+` WHERE a.session_hash = $1`, hash))
}

// insertAgent adds an agent that registers.
func insertAgent(q *db.Q, a *Agent, sessionHash string) error {
	_, err := q.Exec(`
		INSERT INTO agents (id, organization_id, cluster_id, queue_id, queue_key, token_id, token_description, creator_id, session_hash,
			name, hostname, ip_address, user_agent, version, build, os, arch, tags, priority, ignored_in_dispatch,
			state, created_at, pause_minutes, only_job_id, stack_id)
		SELECT $1, $2, $3, $4, $5, $6, $7, (SELECT t.created_by FROM agent_tokens t WHERE t.id = $6), $8,
			$9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24`,
		a.ID, a.OrganizationID, a.ClusterID, a.QueueID, a.QueueKey, a.TokenID, a.TokenName, sessionHash,
		a.Name, a.Hostname, a.Address, a.UserAgent, a.Version, a.Build, a.OS, a.Arch, db.JSON(a.Tags), a.Priority, a.Ignored,
		a.State, db.Micros(a.CreatedAt), a.Pause.Minutes, db.Text(a.OnlyJob), db.Text(a.StackID))
	return err
}

// updateAgent writes the columns that change after registration.
func updateAgent(q *db.Q, a *Agent) error {
	var pausedBy any
	if a.Pause.By != nil {
		pausedBy = a.Pause.By.ID
	}
	q.Announce(OrganizationTopic(a.OrganizationID))
	_, err := q.Exec(`
		UPDATE agents SET ignored_in_dispatch = $2, state = $3, stop_asked_at = $4, connected_at = $5, disconnected_at = $6,
			lost_at = $7, stopped_at = $8, paused_at = $9, paused_by = $10, paused_note = $11, pause_minutes = $12
		WHERE id = $1`,
		a.ID, a.Ignored, a.State, db.Micros(a.StopRequestedAt), db.Micros(a.ConnectedAt), db.Micros(a.DisconnectedAt),
		db.Micros(a.LostAt), db.Micros(a.StoppedAt), db.Micros(a.Pause.At), pausedBy, db.Text(a.Pause.Note), a.Pause.Minutes)
	return err
}

// recordSeen stores when an agent was last seen. Without a row in agent_presence an agent cannot get lost.
func recordSeen(q *db.Q, agentID string, at time.Time) error {
	_, err := q.Exec(`
		INSERT INTO agent_presence (agent_id, heard_at) VALUES ($1, $2)
		ON CONFLICT (agent_id) DO UPDATE SET heard_at = excluded.heard_at`, agentID, db.Micros(at))
	return err
}

// deletePresence stops tracking an agent.
func deletePresence(q *db.Q, agentID string) error {
	_, err := q.Exec(`DELETE FROM agent_presence WHERE agent_id = $1`, agentID)
	return err
}

// deleteSilent is deletePresence for an agent not seen since a time. It reports whether there was such a row.
func deleteSilent(q *db.Q, agentID string, since time.Time) (bool, error) {
	n, err := q.Exec(`DELETE FROM agent_presence WHERE agent_id = $1 AND heard_at < $2`, agentID, db.Micros(since))
	return n > 0, err
}

// recordAllSeen stores that tracked agents were seen, and returns how many of them are tracked.
func recordAllSeen(q *db.Q, agentIDs []string, at time.Time) (known int64, err error) {
	in, arg := q.In("agent_id", 1, agentIDs)
	return q.Exec(`UPDATE agent_presence SET heard_at = $2 WHERE `+q.InOrder("agent_presence", "agent_id", in), arg, db.Micros(at))
}

// earliestSeen returns when the agent that has been silent for longest was seen; now if no agent is tracked.
func earliestSeen(q *db.Q, now time.Time) (at time.Time, err error) {
	err = q.QueryRow(`SELECT COALESCE(min(heard_at), $1) FROM agent_presence`, db.Micros(now)).Scan(db.ToTime(&at))
	return at, err
}

type silentAgent struct{ id, organizationID string }

// silentSince returns up to limit tracked agents that were not seen since a time.
func silentSince(q *db.Q, since time.Time, limit int) ([]silentAgent, error) {
	return db.All(q, func(scan db.Scan) (a silentAgent, err error) { return a, scan(&a.id, &a.organizationID) }, `
		SELECT a.id, a.organization_id
		FROM agent_presence p
		JOIN agents a ON a.id = p.agent_id
		WHERE p.heard_at < $1
		ORDER BY p.heard_at
		LIMIT $2`, db.Micros(since), limit)
}

// connectedWithToken returns the ids and addresses of the connected agents that registered with a token of a cluster.
func connectedWithToken(q *db.Q, clusterID, tokenID string) ([]Agent, error) {
	return db.All(q, func(scan db.Scan) (a Agent, err error) { return a, scan(&a.ID, &a.OrganizationID, &a.Address) }, `
		SELECT id, organization_id, ip_address FROM agents
		WHERE cluster_id = $1 AND state = $2 AND token_id = $3
		ORDER BY id`, clusterID, Connected, tokenID)
}

// updateLastJobFinished stores when agents finished jobs.
func updateLastJobFinished(q *db.Q, agentIDs []string, at time.Time) error {
	in, arg := q.In("id", 1, agentIDs)
	return q.Later(`UPDATE agents SET last_job_finished_at = $2 WHERE `+q.InOrder("agents", "id", in), arg, db.Micros(at))
}

// filter selects agents of a list; empty fields match all.
type filter struct{ name, hostname, version, queueID string }

// list returns a page of an organization's connected agents, oldest first, and their total number.
func list(q *db.Q, orgID string, f filter, limit, offset int) ([]*Agent, int, error) {
	var s db.Statement
	s.Where("a.organization_id = %s", orgID)
	s.And(`a.state IN ('connected', 'stopping')`)
	for _, want := range []struct{ column, value string }{{"name", f.name}, {"hostname", f.hostname}, {"version", f.version}, {"queue_id", f.queueID}} {
		if want.value != "" {
			s.Where("a."+want.column+" = %s", want.value)
		}
	}
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) `+fromExisting+` `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	agents, err := db.All(q, scanAgent, selectAgent+`
		`+s.Clause()+`
		ORDER BY a.created_at, a.id
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return agents, total, err
}

// maxSearched limits the agents that a search looks at.
const maxSearched = 2000

// named returns connected agents whose name or hostname contains a text, oldest first.
func named(q *db.Q, orgID, text string, limit int) ([]*Agent, error) {
	return db.All(q, func(scan db.Scan) (*Agent, error) { a := &Agent{}; return a, scan(&a.ID, &a.Name, &a.Hostname) }, `
		SELECT id, name, hostname
		FROM (
			SELECT id, name, hostname, created_at
			FROM agents
			WHERE organization_id = $1 AND state IN ('connected', 'stopping')
			ORDER BY created_at, id
			LIMIT $2) a
		WHERE LOWER(name) LIKE $3 ESCAPE '\' OR LOWER(hostname) LIKE $3 ESCAPE '\'
		ORDER BY created_at, id
		LIMIT $4`, orgID, maxSearched, "%"+db.Like(strings.ToLower(text))+"%", limit)
}

// agentNames returns the names of agents of an organization, by id.
func agentNames(q *db.Q, orgID string, ids []string) (map[string]string, error) {
	in, arg := q.In("id", 2, ids)
	byID := make(map[string]string, len(ids))
	err := db.Each(q, func(scan db.Scan) error {
		var id, name string
		err := scan(&id, &name)
		byID[id] = name
		return err
	}, `SELECT id, name FROM agents WHERE organization_id = $1 AND `+in, orgID, arg)
	return byID, err
}

// countAgents counts the connected agents of a cluster, by queue key.
func countAgents(q *db.Q, orgID, clusterID string) (map[string]agentCountsView, error) {
	busy, err := builds.Holders(q, orgID)
	if err != nil {
		return nil, err
	}
	counts := map[string]agentCountsView{}
	err = db.Each(q, func(scan db.Scan) error {
		var id, key string
		if err := scan(&id, &key); err != nil {
			return err
		}
		n := agentCountsView{Idle: 1, Total: 1}
		if busy[id] {
			n = agentCountsView{Busy: 1, Total: 1}
		}
		sum := counts[key]
		sum.add(n)
		counts[key] = sum
		return nil
	}, `SELECT id, queue_key FROM agents WHERE cluster_id = $1 AND state IN ('connected', 'stopping')`, clusterID)
	return counts, err
}

// removeDisconnected deletes up to limit agents that left before a time, and returns how many it deleted.
func removeDisconnected(q *db.Q, since time.Time, limit int) (int64, error) {
	return q.Exec(`
		DELETE FROM agents WHERE id IN (
			SELECT id FROM agents
			WHERE state NOT IN ('connected', 'stopping') AND COALESCE(disconnected_at, lost_at, created_at) < $1
			LIMIT $2`+q.SkipLocked()+`)`, db.Micros(since), limit)
}
