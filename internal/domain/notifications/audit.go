package notifications

import (
	"encoding/json"

	"stackyard/internal/platform/audit"
)

// receiverRows is what the audit trail records of notification services, besides their settings.
var receiverRows = &audit.Rows{
	Type: "notification_service", Table: "notification_services", Org: "organization_id", Name: "provider || ': ' || description",
	Columns: "provider, description, scope, scope_uuids json, branch_configuration, build_states json, disabled bool, broken_at time, broken_reason",
}

// audited returns the settings for the audit trail. Switches and numbers are shown, all else may be a secret.
func (s Settings) audited() audit.Fields {
	values := make(map[string]any, len(s))
	secret := make(map[string]bool, len(s))
	for key, text := range s {
		var value any
		if json.Unmarshal(text, &value) != nil {
			value = string(text)
		}
		switch value.(type) {
		case bool, float64, nil:
		default:
			secret[key] = true
		}
		values[key] = value
	}
	return audit.Object("settings", values, func(key string) bool { return secret[key] })
}
