package cli

import "github.com/spf13/cobra"

var secrets = &resource{
	noun: "secret", about: "secrets of a cluster", path: "/secrets", cluster: true, arg: "KEY", names: []string{"key"},
	columns: fields("key", "description", "updated_at updated", "last_read_at last read", "id"),
	lines:   fields("key Key", "description Description", "policy Policy", "created_at Created", "created_by.name Created by", "updated_at Updated", "last_read_at Last read", "id Id"),
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
	columns: fields("name", "email", "role", "id"),
	lines:   fields("name Name", "email Email", "role Role", "sso_mode Sign-in", "expires_at Expires", "accept_url Link", "id Id"),
	inputs: []input{
		{flag: "role", field: "role", usage: "admin or member"},
		{flag: "sso-mode", field: "sso_mode", usage: "required or optional: whether they must sign in with the organization's provider", edit: true},
	},
	creates: "email", createPath: "/invitations", createShort: "Invite a person; the link for them is shown once",
	deleteShort: "Remove a member",
}

var teams = &resource{
	noun: "team", about: "teams of the organization", path: "/teams", arg: "SLUG", names: []string{"slug", "name"},
	columns: fields("slug", "name", "privacy", "default", "description"),
	lines:   fields("name Name", "slug Slug", "description Description", "privacy Privacy", "default Default", "default_member_role Role of new members", "members_can_create_pipelines Members create pipelines", "created_at Created", "id Id"),
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
	columns: fields("description", "provider.id provider", "enabled", "branch_configuration branches", "id"),
	lines:   fields("description Description", "provider.id Provider", "enabled Enabled", "scope Scope", "branch_configuration Branches", "build_states States", "settings Settings", "broken.reason Broken", "id Id"),
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

// serviceCommands enable and disable services.
func serviceCommands() []*cobra.Command {
	act := func(verb, short, done string) *cobra.Command {
		return services.action(&cobra.Command{Use: verb, Short: short}, func(r *remote, one string, o object) error {
			if err := r.Do(r.ctx, put, one+"/"+verb, nil, nil); err != nil {
				return err
			}
			return r.println(done + " " + plain(r.text(o, "description")) + ".")
		})
	}
	return []*cobra.Command{
		act("enable", "Enable a service, also after its deliveries kept failing", "Enabled"),
		act("disable", "Disable a service", "Disabled"),
	}
}

var suites = &resource{
	noun: "suite", about: "test suites", path: "/suites", prefix: "/v2/analytics/organizations/", arg: "SLUG", names: []string{"slug", "name"},
	columns: fields("slug", "name", "default_branch branch", "web_url page"),
	lines:   fields("name Name", "slug Slug", "default_branch Default branch", "application_name Application", "api_token API token", "web_url Page", "id Id"),
	inputs: []input{
		{flag: "name", field: "name", usage: "name", edit: true},
		{flag: "default-branch", field: "default_branch", usage: "branch whose trends are shown"},
		{flag: "application-name", field: "application_name", usage: "name of the tested application"},
		{flag: "team-id", field: "team_ids", usage: "id of a team that gets access, repeatable; required if the organization has teams", kind: listInput, create: true},
		{flag: "show-token", field: "show_api_token", usage: "show the token that uploads results", kind: onOffInput},
	},
	creates: "name", deleteShort: "Delete a suite with all its results",
}
