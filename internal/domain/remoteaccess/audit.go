package remoteaccess

import "stackyard/internal/platform/audit"

// sessionRows is what the audit trail records of remote sessions: that they were opened, used and ended.
var sessionRows = &audit.Rows{
	Type: "remote_session", Table: "remote_sessions", Org: "organization_id", Name: "kind",
	Columns: "kind, job_id, user_id, state, address, reason, sent, received",
}
