package settings

import (
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// maxMinutes is the longest time that can be set: a year.
const maxMinutes = 365 * 24 * 60

// pipelineSettingsUpdate is the request body of an update. Fields that are not sent keep their value.
type pipelineSettingsUpdate struct {
	DefaultBranch      route.Opt[string] `json:"default_branch" doc:"Blank or null resets it to main."`
	DefaultClusterID   route.Opt[string] `json:"default_cluster_id" doc:"The id of a cluster of this organization; null clears it."`
	DefaultTimeout     route.Opt[int]    `json:"default_timeout_in_minutes" doc:"At most the maximum timeout; null clears it. Only pipelines that are created from now on begin with it."`
	MaximumTimeout     route.Opt[int]    `json:"maximum_timeout_in_minutes" doc:"At least the default timeout; null clears it."`
	ScheduledJobExpiry route.Opt[int]    `json:"scheduled_job_expiry_in_minutes" doc:"Null brings back the default of 30 days."`
}

// applyTo makes the changes, or returns an error with all problems.
func (u pipelineSettingsUpdate) applyTo(q *db.Q, orgID string, set *Settings) error {
	var problems core.Problems
	u.branch(set, &problems)
	if err := u.cluster(q, orgID, set, &problems); err != nil {
		return err
	}
	u.timeouts(set, &problems)
	setMinutes("scheduled_job_expiry_in_minutes", u.ScheduledJobExpiry, &set.ScheduledJobExpiry, &problems)
	return problems.Err()
}

func (u pipelineSettingsUpdate) branch(set *Settings, problems *core.Problems) {
	if !u.DefaultBranch.Set {
		return
	}
	name := strings.TrimSpace(u.DefaultBranch.Value)
	switch {
	case name == "":
		set.DefaultBranch = DefaultBranch
	case !core.ValidBranch(name):
		problems.Add("default_branch", "must be the name of a git branch, of at most %d bytes", core.MaxBranch)
	default:
		set.DefaultBranch = name
	}
}

func (u pipelineSettingsUpdate) cluster(q *db.Q, orgID string, set *Settings, problems *core.Problems) error {
	const field = "default_cluster_id"
	if !u.DefaultClusterID.Set || u.DefaultClusterID.Null {
		u.DefaultClusterID.To(&set.DefaultClusterID)
		return nil
	}
	id, ok := core.ParseID(u.DefaultClusterID.Value)
	if !ok {
		problems.Add(field, "must be a UUID, or null for none")
		return nil
	}
	_, err := clusters.Lock(q, orgID, id)
	if core.KindOf(err) == core.NotFound {
		problems.Add(field, "must be the id of a cluster of this organization")
		return nil
	}
	set.DefaultClusterID = id
	return err
}

// timeouts checks both timeouts together, sent or stored, and reports a conflict for a field that was sent.
func (u pipelineSettingsUpdate) timeouts(set *Settings, problems *core.Problems) {
	const byDefault, atMost = "default_timeout_in_minutes", "maximum_timeout_in_minutes"
	before := len(*problems)
	setMinutes(byDefault, u.DefaultTimeout, &set.DefaultTimeout, problems)
	setMinutes(atMost, u.MaximumTimeout, &set.MaximumTimeout, problems)
	fits := set.MaximumTimeout == 0 || set.DefaultTimeout <= set.MaximumTimeout
	switch {
	case fits || len(*problems) > before:
	case u.DefaultTimeout.Set:
		problems.Add(byDefault, "must not exceed %s, which is %d", atMost, set.MaximumTimeout)
	default:
		problems.Add(atMost, "must not be less than %s, which is %d", byDefault, set.DefaultTimeout)
	}
}

// setMinutes sets dst if a time was sent; null is 0.
func setMinutes(field string, sent route.Opt[int], dst *int, problems *core.Problems) {
	if sent.Set && !sent.Null && (sent.Value < 1 || sent.Value > maxMinutes) {
		problems.Add(field, "must be an integer from 1 to %d, or null for none", maxMinutes)
		return
	}
	sent.To(dst)
}
