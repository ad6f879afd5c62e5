package agents

import "stackyard/internal/seal"

// IssueJobToken returns the token of a job that an agent holds.
func IssueJobToken(key seal.Key, orgID, agentID, jobID string) string {
	return newSigner(key).issue(jobToken{organizationID: orgID, agentID: agentID, jobID: jobID})
}
