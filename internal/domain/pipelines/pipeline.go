// Package pipelines stores pipelines: what is built, from which repository, with which steps, and who can see,
// build and change it. Pipeline templates, connections to source hosts and their webhooks belong to it too. It
// does not run builds; it only stores the counts of unfinished builds, which package builds changes
// (counts.go).
//
// A pipeline's steps are YAML, visual steps of the REST API, or those of a template; configuration.go moves a
// pipeline between these forms, and responses show all of them alike. A pipeline is loaded for a [Viewer], with
// the viewer's access level (access.go), so that invisible pipelines are not found. Every change follows the
// same steps: lock, read, merge, validate, save (service.go). Creating, updating and the organization file
// therefore share all validation.
package pipelines

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
)

// A Pipeline defines what is built and how.
type Pipeline struct {
	ID             string
	OrganizationID string
	Slug           string // unique in the organization
	Name           string // unique in the organization, case-insensitively
	Description    string
	Repository     string // without credentials, which sealedURL contains
	ClusterID      string // empty: none
	DefaultBranch  string
	Visibility     Visibility
	Tags           []string
	Emoji          string // empty: none
	Color          string // empty: none

	// TemplateID is the template of the steps; empty: the pipeline has its own steps.
	TemplateID string
	// Configuration is the YAML of the steps, of the template if there is one; empty for a visual pipeline.
	Configuration string
	// Steps are the steps in the form of responses. A visual pipeline has no other form.
	Steps []definition.VisualResponse
	// Env is the environment of a visual pipeline. Other pipelines define it in the YAML.
	Env map[string]string

	BranchConfiguration string // filter of branches to build; empty: all
	SkipQueued          BranchRule
	CancelRunning       BranchRule
	AllowRebuilds       bool
	CloneMirrorURL      string // empty: none
	DefaultTimeout      *int   // of command steps, in minutes; nil: none
	MaximumTimeout      *int   // of command steps, in minutes; nil: no limit

	// Provider is the kind of source host that the repository is on.
	Provider         string
	ProviderSettings ProviderSettings // values that were set; see [ProviderSettings.On] for the effective ones
	SourceWebhooks   SourceWebhooks

	Counts     Counts
	CreatedBy  *identity.User
	CreatedAt  time.Time
	ArchivedAt time.Time // zero: not archived

	// sealedURL is the repository URL with credentials, encrypted; empty: no credentials. It belongs to
	// sealedFor, the value of Repository when the row was read.
	sealedURL, sealedFor string

	webhookKey string // random part of the URL that source hosts call
	badgeKey   string // random part of the badge URL
	level      identity.AccessLevel
	visited    bool // see forVisitor
	size       int  // of the configuration and the steps, in bytes
}

// A BranchRule decides what happens to older builds of a branch when a newer one is created.
type BranchRule struct {
	On     bool
	Filter string // branches to which it applies; empty: all
}

// SourceWebhooks is whether webhooks of the source host are processed.
type SourceWebhooks struct {
	DisabledAt time.Time // zero: enabled
	DisabledBy string    // name of the user at that time
}

// Enabled reports whether webhooks of the source host are processed.
func (w SourceWebhooks) Enabled() bool { return w.DisabledAt.IsZero() }

// Visibility decides who can see a pipeline.
type Visibility string

const (
	Private Visibility = "private" // users with access
	Public  Visibility = "public"  // allProviders
)

// Values lists all values.
func (Visibility) Values() []string { return []string{string(Private), string(Public)} }

// Size is the approximate size of the pipeline in a response, in bytes.
func (p *Pipeline) Size() int { return p.size }

// Visual reports whether the pipeline's steps were given in the visual form.
func (p *Pipeline) Visual() bool { return p.TemplateID == "" && p.Configuration == "" }

// Archived reports whether the pipeline is archived: until it is unarchived, it can only be read and deleted.
func (p *Pipeline) Archived() bool { return !p.ArchivedAt.IsZero() }

// Mutable returns an error if the pipeline is archived.
func (p *Pipeline) Mutable() error {
	if p.Archived() {
		return errArchived
	}
	return nil
}

var errArchived = core.Errorf(core.Unprocessable, "This pipeline is archived, so it cannot be changed; unarchive it first")
