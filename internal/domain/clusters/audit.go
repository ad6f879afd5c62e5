package clusters

import "stackyard/internal/platform/audit"

// What the audit trail records of clusters and what belongs to them.
const (
	organizationOf = "(SELECT c.organization_id FROM clusters c WHERE c.id = cluster_id)"
	clusterName    = "(SELECT c.name FROM clusters c WHERE c.id = cluster_id)"
)

var (
	clusterRows = &audit.Rows{
		Type: "cluster", Table: "clusters", Org: "organization_id", Name: "name", Gone: "deleted_at IS NOT NULL",
		Columns: `name, description, emoji, color, is_default bool, hosted bool, default_queue_id, hosted_git_mirror_enabled bool,
			hosted_container_cache_enabled bool`,
	}
	queueRows = &audit.Rows{
		Type: "queue", Table: "queues", Org: organizationOf, Name: clusterName + " || '/' || key",
		Columns: "key, description, retry_agent_affinity, hosted_agents json, dispatch_paused_at time, dispatch_paused_note",
	}
	tokenRows = &audit.Rows{
		Type: "agent_token", Table: "agent_tokens", Org: organizationOf, Name: clusterName + " || '/' || description",
		Columns: "description, allowed_ip_addresses json, expires_at time, hash secret token",
	}
	secretRows = &audit.Rows{
		Type: "secret", Table: "cluster_secrets", Org: organizationOf, Name: clusterName + " || '/' || key",
		Columns: "key, description, policy, value secret",
	}
	maintainerRows = &audit.Rows{
		Type: "cluster_maintainer", Table: "cluster_maintainers", Org: organizationOf,
		Name:    clusterName + ` || ': ' || COALESCE((SELECT u.email FROM users u WHERE u.id = user_id), (SELECT t.name FROM teams t WHERE t.id = team_id))`,
		Columns: "user_id, team_id",
	}
)
