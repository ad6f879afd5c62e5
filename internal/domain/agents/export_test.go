package agents

import (
	"context"

	"stackyard/internal/platform/seal"
)

// IssueJobToken returns the token of a job that an agent holds.
func IssueJobToken(key seal.Key, orgID, agentID, jobID string) string {
	return newSigner(key).issue(jobToken{organizationID: orgID, agentID: agentID, jobID: jobID})
}

// Flush saves which agents were heard of.
func (s *Service) Flush(ctx context.Context) error { return s.flush(ctx) }
