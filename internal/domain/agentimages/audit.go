package agentimages

import "stackyard/internal/platform/audit"

// imageRows is what the audit trail records of agent images; how they are built is no configuration.
var imageRows = &audit.Rows{
	Type: "agent_image", Table: "agent_images", Org: "organization_id", Name: "name",
	Columns: "name, cluster_id, dockerfile",
}
