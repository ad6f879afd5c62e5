package buildpages

import (
	"cmp"
	"fmt"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// A Head is the summary of a build at the top of its page and in lists.
type Head struct {
	builds.OnBuild
	Org   *identity.Organization
	Path  string // path of the build's page in the site
	Badge badge
}

// HeadOf returns the summary of a build for a visitor.
func HeadOf(v *pages.Visit, o builds.OnBuild) Head {
	o.Build = o.Build.Shown(o.Pipeline)
	return Head{OnBuild: o, Org: v.Org, Path: PathOf(v.Org, o.Pipeline.Slug, o.Number), Badge: badgeOfBuild(o.State)}
}

// Heading returns the first line of the build's message.
func (b Head) Heading() string {
	first, _, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return cmp.Or(strings.TrimSpace(first), fmt.Sprintf("Build #%d", b.Number))
}

// Rest returns the message after its first line.
func (b Head) Rest() string {
	_, rest, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return strings.TrimSpace(rest)
}

// Title returns the title of the page.
func (b Head) Title() string {
	return fmt.Sprintf("%s: %s #%d", b.Badge.Label, b.Pipeline.Name, b.Number)
}

// Favicon returns the asset of the icon that shows the state of the build.
func (b Head) Favicon() string { return faviconOf(b.Badge) }

// faviconOf returns the asset of the icon of a state.
func faviconOf(b badge) string {
	if b.Class == "" {
		return "icon.svg"
	}
	return "icon-" + b.Class + ".svg"
}

// ShortCommit returns the abbreviated commit.
func (b Head) ShortCommit() string {
	if len(b.Commit) == 40 {
		return b.Commit[:10]
	}
	return b.Commit
}

// AuthorName returns the author of the commit, if known.
func (b Head) AuthorName() string {
	if b.Author == nil {
		return ""
	}
	return cmp.Or(b.Author.Name, b.Author.Username, b.Author.Email)
}

var sourceTexts = map[builds.Source]string{
	builds.FromWebhook:  "via webhook",
	builds.FromAPI:      "via API",
	builds.FromUI:       "via web",
	builds.FromTrigger:  "by another build",
	builds.FromSchedule: "on schedule",
}

// SourceText describes how the build was created.
func (b Head) SourceText() string { return sourceTexts[b.Source] }

// An origin links to a build that this one was created from.
type origin struct{ Text, Path string }

// From returns the builds that this one was created from.
func (b Head) From() []origin {
	var list []origin
	if l := b.RebuiltBuild; l.ID != "" {
		list = append(list, origin{fmt.Sprintf("Rebuilt from #%d", l.Number), PathOf(b.Org, l.Slug, l.Number)})
	}
	if l := b.TriggeringBuild; l.ID != "" {
		list = append(list, origin{fmt.Sprintf("Triggered from %s #%d", l.Slug, l.Number), PathOf(b.Org, l.Slug, l.Number)})
	}
	return list
}

// PipelinePath returns the path of the pipeline's page.
func (b Head) PipelinePath() string { return core.PublicURL("").To(b.Org.Slug, b.Pipeline.Slug) }

// OrgPath returns the path of the organization's page.
func (b Head) OrgPath() string { return core.PublicURL("").To(b.Org.Slug) }
