package notifications

import (
	"encoding/json"
	"regexp"
	"strings"
)

// pipelineVisibility sends finished builds and jobs to the pipeline events API of an observability vendor.
var pipelineVisibility = &Provider{
	ID: "observability_pipeline_visibility", Name: "Observability Pipeline Visibility",
	Settings: []Setting{
		{Name: "api_key", Kind: text{max: 255, header: true}, Required: true, Show: Masked, Doc: "The key of the vendor's API."},
		{
			Name: "vendor_site", Default: fixed("datadoghq.com"), Doc: "The vendor's site that the key belongs to.",
			Kind: text{max: 253, pattern: regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*(:[0-9]{1,5})?$`), form: "must be a host name, such as datadoghq.eu"},
		},
		{
			Name: "vendor_tags", Doc: "Tags for everything that is sent: env:prod,team:core or a list of such tags.",
			Kind: either{text: text{max: 2048}, other: texts{most: 100, item: text{max: 200}}},
		},
	},
}

// PipelineVisibilitySettings are the settings of observability pipeline visibility.
type PipelineVisibilitySettings struct {
	APIKey string `json:"api_key"`
	Site   string `json:"vendor_site"`
	Tags   Tags   `json:"vendor_tags"`
}

// Tags are a list, or a comma-separated text.
type Tags []string

// UnmarshalJSON reads both forms.
func (t *Tags) UnmarshalJSON(b []byte) error {
	*t = nil
	if b[0] != '"' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	var joined string
	if err := json.Unmarshal(b, &joined); err != nil {
		return err
	}
	for tag := range strings.SplitSeq(joined, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			*t = append(*t, tag)
		}
	}
	return nil
}
