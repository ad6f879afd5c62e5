package notifications

import (
	"regexp"

	"stackyard/internal/platform/identity"
)

// eventBus puts events on the event bus of a cloud account.
var eventBus = &Provider{
	ID: "event_bus", Name: "Event Bus",
	Settings: []Setting{
		{
			Name: "cloud_region", Required: true, CreateOnly: true, Doc: "The region of the event bus.",
			Kind: text{max: 32, pattern: regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`), form: "must be a region, such as us-east-1"},
		},
		{
			Name: "cloud_account_id", Required: true, CreateOnly: true, Show: Masked, Doc: "The account of the event bus: 12 digits.",
			Kind: text{max: 12, pattern: regexp.MustCompile(`^[0-9]{12}$`), form: "must be a string of 12 digits"},
		},
		{
			Name: "include_build_meta_data", Kind: flag{}, Default: fixed(false), Doc: "Whether events carry the meta-data of their build.",
			feature: func(f identity.Features) bool { return f.EventBusBuildMetaData },
		},
	},
}

// EventBusSettings are the settings of an event bus.
type EventBusSettings struct {
	Region               string `json:"cloud_region"`
	AccountID            string `json:"cloud_account_id"`
	IncludeBuildMetaData bool   `json:"include_build_meta_data"`
}
