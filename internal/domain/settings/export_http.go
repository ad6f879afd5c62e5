package settings

import (
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// An exportingOrg is an organization whose plan includes the export of builds.
type exportingOrg struct{ orgID string }

// loadExportingOrg runs before the body is decoded, so that an organization without the feature gets this error
// for any body.
func loadExportingOrg(r *route.Request) (exportingOrg, error) {
	if !r.Org.Features.BuildExports {
		return exportingOrg{}, core.Errorf(core.Forbidden, "Forbidden: the plan of this organization does not include build exports")
	}
	return exportingOrg{orgID: r.Org.ID}, nil
}

type buildExportUpdate struct {
	Location   string `json:"location" doc:"Required. A bucket name, or a URI of the bucket whose prefix is stripped."`
	StrategyID string `json:"strategy_id" doc:"Required. One of build_exports.supported_strategies."`
}

// maxLocation is the length limit of a location, in characters.
const maxLocation = 2048

// destination returns the destination in the body, or an error with all problems.
func (u buildExportUpdate) destination() (Destination, error) {
	var problems core.Problems
	known := slices.Contains(blob.Strategies, u.StrategyID)
	switch {
	case u.StrategyID == "":
		problems.Add("strategy_id", "is required")
	case !known:
		problems.Add("strategy_id", "must be one of %s", strings.Join(blob.Strategies, ", "))
	}
	to := Destination{Strategy: u.StrategyID}
	switch {
	case strings.TrimSpace(u.Location) == "":
		problems.Add("location", "is required")
	case utf8.RuneCountInString(u.Location) > maxLocation:
		problems.Add("location", "must be at most %d characters long", maxLocation)
	case known:
		var err error
		if to.Location, err = blob.BucketName(u.StrategyID, u.Location); err != nil {
			problems.Add("location", "is invalid: %s", err)
		}
	}
	return to, problems.Err()
}

func (s *Service) putExport(r *route.Request, e exportingOrg, sent buildExportUpdate) (pipelineSettingsView, error) {
	to, err := sent.destination()
	if err != nil {
		return pipelineSettingsView{}, err
	}
	set, err := s.startExport(r.Context(), e.orgID, to)
	return s.view(r, set, err)
}

func (s *Service) deleteExport(r *route.Request, e exportingOrg) (pipelineSettingsView, error) {
	set, err := s.stopExport(r.Context(), e.orgID)
	return s.view(r, set, err)
}
