package agents

import (
	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/db"
)

// record writes what was asked of an agent to the audit trail. Agents that come, go and run jobs are not recorded.
func record(q *db.Q, a *Agent, action string, fields audit.Fields) error {
	return audit.Write(q, audit.Entry{
		OrganizationID: a.OrganizationID, Action: action, Subject: audit.Subject{Type: "agent", ID: a.ID, Name: a.Name}, After: fields,
	})
}
