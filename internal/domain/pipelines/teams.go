package pipelines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// teamLevels are the teams of a new pipeline with their access levels. Clients write them in three forms: a
// list of UUIDs, a list of objects, or an object of levels by UUID. A team without a level gets the highest.
type teamLevels map[string]identity.AccessLevel

// JSONSchema describes the three forms.
func (teamLevels) JSONSchema() map[string]any {
	level := map[string]any{"type": "string", "enum": identity.AccessLevel("").Values()}
	id := map[string]any{"type": "string"}
	return map[string]any{
		"anyOf": []any{
			map[string]any{"type": "array", "items": id},
			map[string]any{"type": "array", "items": map[string]any{
				"type":       "object",
				"properties": map[string]any{"id": id, "uuid": id, "access_level": level},
			}},
			map[string]any{"type": "object", "additionalProperties": level},
			map[string]any{"type": "null"},
		},
	}
}

// UnmarshalJSON reads any of the three forms.
func (t *teamLevels) UnmarshalJSON(b []byte) error {
	*t = teamLevels{}
	switch b[0] {
	case 'n':
		return nil
	case '[':
		return t.readList(b)
	case '{':
		return t.readObject(b)
	default:
		return errors.New("it must be an array of teams, or an object of access levels by team")
	}
}

func (t teamLevels) readList(b []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	for _, item := range items {
		var team struct {
			ID    string `json:"id"`
			UUID  string `json:"uuid"`
			Level string `json:"access_level"`
		}
		target := any(&team)
		if bytes.HasPrefix(item, []byte(`"`)) {
			target = &team.ID
		}
		if json.Unmarshal(item, target) != nil {
			return errors.New("each team must be a UUID, or an object with an id and an access_level")
		}
		if err := t.add(cmp.Or(team.ID, team.UUID), team.Level); err != nil {
			return err
		}
	}
	return nil
}

func (t teamLevels) readObject(b []byte) error {
	var levels map[string]string
	if json.Unmarshal(b, &levels) != nil {
		return errors.New("each access level must be a string")
	}
	for _, id := range slices.Sorted(maps.Keys(levels)) {
		if err := t.add(id, levels[id]); err != nil {
			return err
		}
	}
	return nil
}

func (t teamLevels) add(team, level string) error {
	id, ok := core.ParseID(team)
	if !ok {
		return fmt.Errorf("%.50q is not the UUID of a team", team)
	}
	t[id] = identity.AccessLevel(cmp.Or(level, string(identity.ManageBuildAndRead)))
	if !t[id].Valid() {
		return fmt.Errorf("the access level must be one of %s, not %.50q", strings.Join(t[id].Values(), ", "), level)
	}
	return nil
}

// teams returns the teams of a new pipeline. A viewer who does not manage all pipelines must name one of their
// own teams; if exactly one of them can create pipelines, it is the default.
func (e *edit) teams(requested teamLevels) (teamLevels, error) {
	if !e.v.ManagesAll() {
		own := e.v.creatingTeams()
		mine := func(id string) bool { return requested[id] != "" }
		switch {
		case slices.ContainsFunc(own, mine):
		case len(own) == 1 && len(requested) == 0:
			requested = teamLevels{own[0]: identity.ManageBuildAndRead}
		default:
			e.problems.Add("teams", "must name at least one team that you belong to and whose members can create pipelines")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(requested)) {
		exists, err := lockTeam(e.q, e.v.Org.ID, id)
		if err != nil {
			return nil, err
		}
		if !exists {
			e.problems.Add("teams", "must be teams of this organization; %s is not", id)
		}
	}
	return requested, nil
}

// creatingTeams returns the viewer's teams whose members can create pipelines.
func (v Viewer) creatingTeams() []string {
	var ids []string
	for _, team := range v.Member.Teams {
		if team.CanCreatePipelines {
			ids = append(ids, team.TeamID)
		}
	}
	return ids
}

// lockTeam reports whether the organization has a team, and locks it until the end of the transaction.
func lockTeam(q *db.Q, organizationID, id string) (exists bool, err error) {
	if err := q.Lock("teams", id); err != nil {
		return false, err
	}
	var n int
	err = q.QueryRow(`SELECT COUNT(*) FROM teams WHERE organization_id = $1 AND id = $2`, organizationID, id).Scan(&n)
	return n > 0, err
}

// grant gives teams their access to a pipeline.
func grant(q *db.Q, p *Pipeline, teams teamLevels, now time.Time) error {
	for id, level := range teams {
		if err := organizations.SetPipelineAccess(q, id, p.ID, level, now); err != nil {
			return err
		}
	}
	return nil
}
