// Package pipelines keeps pipelines: what is built, from which repository, with which steps, and who
// may see, build and change it. Pipeline templates, the connections to source hosts and the webhooks
// that they call belong to it too.
//
// Three ideas carry it. A pipeline's steps come in one of three forms: YAML, the visual steps of the
// REST API, or a template's; configuration.go knows how a request moves a pipeline between them, and
// all three are shown alike. Whoever looks at pipelines is a [Viewer], and a pipeline is loaded
// together with what its viewer may do to it (access.go), so that one a viewer may not see is never
// found. And a change is made in one way only: lock, read, merge what was sent, check the whole, write
// (service.go), so that creating, updating and the organization file share every rule.
//
// Building is not here: pipelines only keep the counts of unfinished builds, which package builds
// changes (counts.go).
package pipelines

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
)

// A Pipeline is what is built, and how.
type Pipeline struct {
	ID             string
	OrganizationID string
	Slug           string // unique in the organization
	Name           string // unique in the organization, in any case
	Description    string
	Repository     string // without credentials, which are in sealedURL
	ClusterID      string // empty: none
	DefaultBranch  string
	Visibility     Visibility
	Tags           []string
	Emoji          string // empty: none
	Color          string // empty: none

	// TemplateID is the template that the steps come from; empty: the pipeline has its own.
	TemplateID string
	// Configuration is the YAML of the steps, the template's if there is one; empty for a visual
	// pipeline.
	Configuration string
	// Steps are the steps as responses show them. A visual pipeline has no other form of them.
	Steps []definition.VisualResponse
	// Env is the environment of a visual pipeline; others have theirs in the YAML.
	Env map[string]string

	BranchConfiguration string // the branches that are built; empty: all
	SkipQueued          BranchRule
	CancelRunning       BranchRule
	AllowRebuilds       bool
	CloneMirrorURL      string // empty: none
	DefaultTimeout      *int   // of command steps, in minutes; nil: none
	MaximumTimeout      *int   // of command steps, in minutes; nil: no cap

	// Provider is the kind of source host that the repository is on.
	Provider         string
	ProviderSettings ProviderSettings // what was set; see [ProviderSettings.On] for what holds
	SourceWebhooks   SourceWebhooks

	Counts     Counts
	CreatedBy  *identity.User
	CreatedAt  time.Time
	ArchivedAt time.Time // zero: not archived

	// sealedURL is the repository's URL with credentials, sealed; empty: Repository has none. It belongs to
	// sealedFor, which is Repository as it was read.
	sealedURL, sealedFor string

	webhookKey string // the unguessable part of the URL that source hosts call
	badgeKey   string // the unguessable part of the badge's URL
	level      identity.AccessLevel
	visited    bool // see forVisitor
	size       int  // of the configuration and the steps, in bytes
}

// A BranchRule says what happens to older builds of a branch when a newer one comes.
type BranchRule struct {
	On     bool
	Filter string // the branches it holds for; empty: all
}

// SourceWebhooks says whether what the source host sends is processed.
type SourceWebhooks struct {
	DisabledAt time.Time // zero: it is processed
	DisabledBy string    // the name, at that time, of who disabled it
}

// Enabled reports whether what the source host sends is processed.
func (w SourceWebhooks) Enabled() bool { return w.DisabledAt.IsZero() }

// Visibility says who may see a pipeline.
type Visibility string

// The visibilities.
const (
	Private Visibility = "private" // those with access to it
	Public  Visibility = "public"  // everybody
)

// Values lists every visibility.
func (Visibility) Values() []string { return []string{string(Private), string(Public)} }

// Size is about how many bytes it takes to show the pipeline.
func (p *Pipeline) Size() int { return p.size }

// Visual reports whether the pipeline's steps were given in the visual form.
func (p *Pipeline) Visual() bool { return p.TemplateID == "" && p.Configuration == "" }

// Archived reports whether the pipeline is archived: it can be read and deleted, and nothing else
// happens to it until it is unarchived.
func (p *Pipeline) Archived() bool { return !p.ArchivedAt.IsZero() }

// Mutable returns an error when the pipeline is archived.
func (p *Pipeline) Mutable() error {
	if p.Archived() {
		return errArchived
	}
	return nil
}

var errArchived = core.Errorf(core.Unprocessable, "This pipeline is archived, so it cannot be changed; unarchive it first")
