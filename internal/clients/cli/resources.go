package cli

import (
	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

var secrets = &resource{
	noun: "secret", about: "secrets of a cluster", path: "/secrets", cluster: true, arg: "KEY", names: []string{"key"},
	columns: []shown{{"key", "key"}, {"description", "description"}, {"updated", "updated_at"}, {"last read", "last_read_at"}, {"id", "id"}},
	lines:   []shown{{"Key", "key"}, {"Description", "description"}, {"Policy", "policy"}, {"Created", "created_at"}, {"Created by", "created_by.name"}, {"Updated", "updated_at"}, {"Last read", "last_read_at"}, {"Id", "id"}},
	inputs: []input{
		{flag: "value-file", field: "value", usage: "file with the value; - reads standard input", kind: fileInput},
		{flag: "description", field: "description", usage: "description"},
		{flag: "policy-file", field: "policy", usage: "YAML file that says which jobs may read the secret; - reads standard input", kind: fileInput},
	},
	creates: "key", editMethod: put, edit: editSecretValue,
}

// editSecretValue changes the value of a secret, which the API keeps apart from its other attributes.
func editSecretValue(r *remote, one string, body map[string]any) error {
	value, ok := body["value"]
	if !ok {
		return nil
	}
	delete(body, "value")
	return r.Do(r.ctx, put, one+"/value", map[string]any{"value": value}, nil)
}

var members = &resource{
	noun: "member", about: "members of the organization", path: "/members", arg: "EMAIL", names: []string{"email", "name"},
	columns: []shown{{"name", "name"}, {"email", "email"}, {"role", "role"}, {"id", "id"}},
	lines:   []shown{{"Name", "name"}, {"Email", "email"}, {"Role", "role"}, {"Sign-in", "sso_mode"}, {"Expires", "expires_at"}, {"Link", "accept_url"}, {"Id", "id"}},
	inputs: []input{
		{flag: "role", field: "role", usage: "admin or member"},
		{flag: "sso-mode", field: "sso_mode", usage: "required or optional: whether they must sign in with the organization's provider", edit: true},
	},
	creates: "email", createPath: "/invitations", createShort: "Invite a person; the link for them is shown once",
	deleteShort: "Remove a member",
}

var teams = &resource{
	noun: "team", about: "teams of the organization", path: "/teams", arg: "SLUG", names: []string{"slug", "name"},
	columns: []shown{{"slug", "slug"}, {"name", "name"}, {"privacy", "privacy"}, {"default", "default"}, {"description", "description"}},
	lines:   []shown{{"Name", "name"}, {"Slug", "slug"}, {"Description", "description"}, {"Privacy", "privacy"}, {"Default", "default"}, {"Role of new members", "default_member_role"}, {"Members create pipelines", "members_can_create_pipelines"}, {"Created", "created_at"}, {"Id", "id"}},
	inputs: []input{
		{flag: "name", field: "name", usage: "name", edit: true},
		{flag: "description", field: "description", usage: "description"},
		{flag: "privacy", field: "privacy", usage: "visible or secret"},
		{flag: "default", field: "is_default_team", usage: "whether new members of the organization join it", kind: onOffInput},
		{flag: "default-role", field: "default_member_role", usage: "role of new members: member or maintainer"},
		{flag: "members-can-create-pipelines", field: "members_can_create_pipelines", usage: "whether its members can create pipelines", kind: onOffInput},
	},
	creates: "name",
}

var services = &resource{
	noun: "service", about: "notification services", path: "/services", arg: "SERVICE", names: []string{"description"},
	columns: []shown{{"description", "description"}, {"provider", "provider.id"}, {"enabled", "enabled"}, {"branches", "branch_configuration"}, {"id", "id"}},
	lines:   []shown{{"Description", "description"}, {"Provider", "provider.id"}, {"Enabled", "enabled"}, {"Scope", "scope"}, {"Branches", "branch_configuration"}, {"States", "build_states"}, {"Settings", "settings"}, {"Broken", "broken.reason"}, {"Id", "id"}},
	inputs: []input{
		{flag: "description", field: "description", usage: "description"},
		{flag: "setting", field: "settings", usage: "setting of the provider as KEY=VALUE, repeatable; values can be JSON", kind: pairsInput},
		{flag: "state", field: "build_states", usage: "what it is notified of, such as build_failed, repeatable", kind: namesInput},
		{flag: "branches", field: "branch_configuration", usage: "branches that it is notified of, such as \"main feature/*\""},
		{flag: "scope", field: "scope", usage: "which pipelines: all, some_projects, exclude_projects, some_teams or some_clusters"},
		{flag: "scope-id", field: "scope_uuids", usage: "id of a pipeline, team or cluster of --scope, repeatable", kind: listInput},
	},
	creates: "provider",
}

// serviceSwitchCommand enables or disables a service.
func serviceSwitchCommand(verb, short, done string) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " SERVICE", Short: short, Args: cmdline.Exactly("SERVICE")}
	return services.remote(cmd, func(r *remote, collection string, args []string) error {
		o, err := services.find(r, collection, args[0])
		if err != nil {
			return err
		}
		if err := r.Do(r.ctx, put, collection+"/"+r.text(o, "id")+"/"+verb, nil, nil); err != nil {
			return err
		}
		return r.println(done + " " + plain(r.text(o, "description")) + ".")
	})
}

var suites = &resource{
	noun: "suite", about: "test suites", path: "/suites", prefix: "/v2/analytics/organizations/", arg: "SLUG", names: []string{"slug", "name"},
	columns: []shown{{"slug", "slug"}, {"name", "name"}, {"branch", "default_branch"}, {"page", "web_url"}},
	lines:   []shown{{"Name", "name"}, {"Slug", "slug"}, {"Default branch", "default_branch"}, {"Application", "application_name"}, {"API token", "api_token"}, {"Page", "web_url"}, {"Id", "id"}},
	inputs: []input{
		{flag: "name", field: "name", usage: "name", edit: true},
		{flag: "default-branch", field: "default_branch", usage: "branch whose trends are shown"},
		{flag: "application-name", field: "application_name", usage: "name of the tested application"},
		{flag: "team-id", field: "team_ids", usage: "id of a team that gets access, repeatable; required if the organization has teams", kind: listInput, create: true},
		{flag: "show-token", field: "show_api_token", usage: "show the token that uploads results", kind: onOffInput},
	},
	creates: "name", deleteShort: "Delete a suite with all its results",
}

// The groups of queues, tokens and clusters have commands of their own besides these.
var (
	queueResource = &resource{
		noun: "queue", about: "queues of a cluster", path: "/queues", cluster: true, arg: "KEY", names: []string{"key"}, only: []string{"view", "edit"},
		lines: []shown{{"Key", "key"}, {"Description", "description"}, {"Paused", "dispatch_paused"}, {"Note", "dispatch_paused_note"}, {"Stacks", "connection_state"}, {"Machine", "hosted_agents.instance_shape.name"}, {"Created", "created_at"}, {"Page", "web_url"}, {"Id", "id"}},
		inputs: []input{
			{flag: "description", field: "description", usage: "description"},
			{flag: "retry-agent-affinity", field: "retry_agent_affinity", usage: "which agent a retried job prefers: prefer-warmest or prefer-different"},
		},
	}
	tokenResource = &resource{
		noun: "token", about: "agent tokens of a cluster", path: "/tokens", cluster: true, arg: "ID", names: []string{"description"}, only: []string{"view", "edit"},
		lines: []shown{{"Description", "description"}, {"Created", "created_at"}, {"Created by", "created_by.name"}, {"Expires", "expires_at"}, {"From", "allowed_ip_addresses"}, {"Id", "id"}},
		inputs: []input{
			{flag: "description", field: "description", usage: "description"},
			{flag: "allow", field: "allowed_ip_addresses", usage: "address ranges the token can be used from, separated by spaces"},
		},
	}
	clusterResource = &resource{
		noun: "cluster", about: "clusters", path: "/clusters", arg: "NAME", names: []string{"name"}, only: []string{"view", "edit"},
		lines: []shown{{"Name", "name"}, {"Description", "description"}, {"Created", "created_at"}, {"Created by", "created_by.name"}, {"Default queue", "default_queue_id"}, {"Page", "web_url"}, {"Id", "id"}},
		inputs: []input{
			{flag: "name", field: "name", usage: "name"},
			{flag: "description", field: "description", usage: "description"},
		},
	}
)
