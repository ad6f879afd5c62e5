package web

import (
	"cmp"
	"fmt"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// A buildHead is a build as the head of its page, and lists, tell of it.
type buildHead struct {
	builds.OnBuild
	Org  *identity.Organization
	Path string // of the build's page, within the site
	Look look
}

func headOf(v *visit, o builds.OnBuild) buildHead {
	o.Build = o.Build.Shown(o.Pipeline)
	return buildHead{OnBuild: o, Org: v.Org, Path: pathOf(v.Org, o.Pipeline.Slug, o.Number), Look: lookOfBuild(o.State)}
}

// Heading is the first line of the build's message.
func (b buildHead) Heading() string {
	first, _, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return cmp.Or(strings.TrimSpace(first), fmt.Sprintf("Build #%d", b.Number))
}

// Rest is what the message says after its first line.
func (b buildHead) Rest() string {
	_, rest, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return strings.TrimSpace(rest)
}

// Title is that of the page.
func (b buildHead) Title() string {
	return fmt.Sprintf("%s: %s #%d", b.Look.Word, b.Pipeline.Name, b.Number)
}

// ShortCommit is as much of the commit as people need to know it.
func (b buildHead) ShortCommit() string {
	if len(b.Commit) == 40 {
		return b.Commit[:10]
	}
	return b.Commit
}

// AuthorName is who wrote the commit, if that was told.
func (b buildHead) AuthorName() string {
	if b.Author == nil {
		return ""
	}
	return cmp.Or(b.Author.Name, b.Author.Username, b.Author.Email)
}

var sourceWords = map[builds.Source]string{
	builds.FromWebhook:  "via webhook",
	builds.FromAPI:      "via API",
	builds.FromUI:       "via web",
	builds.FromTrigger:  "by another build",
	builds.FromSchedule: "on schedule",
}

// SourceWords say how the build came about.
func (b buildHead) SourceWords() string { return sourceWords[b.Source] }

// A from is a build that another one came from.
type from struct{ Words, Path string }

// From returns the builds that this one came from.
func (b buildHead) From() []from {
	var list []from
	if l := b.RebuiltBuild(); l.ID != "" {
		list = append(list, from{fmt.Sprintf("Rebuilt from #%d", l.Number), pathOf(b.Org, l.Slug, l.Number)})
	}
	if l := b.TriggeringBuild(); l.ID != "" {
		list = append(list, from{fmt.Sprintf("Triggered from %s #%d", l.Slug, l.Number), pathOf(b.Org, l.Slug, l.Number)})
	}
	return list
}

// PipelinePath is the path of the pipeline's page.
func (b buildHead) PipelinePath() string { return core.PublicURL("").To(b.Org.Slug, b.Pipeline.Slug) }

// OrgPath is the path of the organization's page.
func (b buildHead) OrgPath() string { return core.PublicURL("").To(b.Org.Slug) }
