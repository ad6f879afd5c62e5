package web

import (
	"cmp"
	"fmt"
	"strings"

	"stackyard/internal/builds"
	"stackyard/internal/core"
	"stackyard/internal/flow"
)

// MayCancel reports whether the visitor may cancel the build.
func (b *board) MayCancel() bool {
	return b.MayBuild && !b.State.Ended() && b.State != flow.BuildCanceling && b.State != flow.BuildCreating
}

// MayRetryFailed reports whether the visitor may retry several jobs at once.
func (b *board) MayRetryFailed() bool {
	retryable := 0
	for r := range b.rows() {
		if r.MayRetry && !r.Passed() {
			retryable++
		}
	}
	return retryable > 1
}

// MayRebuild reports whether the visitor may build the same again.
func (b *board) MayRebuild() bool {
	return b.MayBuild && b.Pipeline.AllowRebuilds && !b.Pipeline.Archived()
}

// Heading is the first line of the build's message.
func (b *board) Heading() string {
	first, _, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return cmp.Or(strings.TrimSpace(first), fmt.Sprintf("Build #%d", b.Number))
}

// Rest is what the message says after its first line.
func (b *board) Rest() string {
	_, rest, _ := strings.Cut(strings.TrimSpace(b.Message), "\n")
	return strings.TrimSpace(rest)
}

// Title is that of the page.
func (b *board) Title() string {
	return fmt.Sprintf("%s: %s #%d", b.Look.Word, b.Pipeline.Name, b.Number)
}

// ShortCommit is as much of the commit as people need to know it.
func (b *board) ShortCommit() string {
	if len(b.Commit) == 40 {
		return b.Commit[:10]
	}
	return b.Commit
}

// AuthorName is who wrote the commit, if that was told.
func (b *board) AuthorName() string {
	if b.Author == nil {
		return ""
	}
	return cmp.Or(b.Author.Name, b.Author.Username, b.Author.Email)
}

var sourceWords = map[builds.Source]string{
	builds.FromWebhook:  "from a webhook",
	builds.FromAPI:      "over the API",
	builds.FromUI:       "on this site",
	builds.FromTrigger:  "by another build",
	builds.FromSchedule: "on a schedule",
}

// SourceWords say how the build came about.
func (b *board) SourceWords() string { return sourceWords[b.Source] }

// A from is a build that another one came from.
type from struct{ Words, Path string }

// From returns the builds that this one came from, as far as the visitor may know.
func (b *board) From() []from {
	var list []from
	if l := b.RebuiltBuild(); l.ID != "" {
		list = append(list, from{fmt.Sprintf("Rebuilt from #%d", l.Number), pathOf(b.Org, l.Slug, l.Number)})
	}
	if l := b.TriggeringBuild(); l.ID != "" && !b.Stranger {
		list = append(list, from{fmt.Sprintf("Triggered from %s #%d", l.Slug, l.Number), pathOf(b.Org, l.Slug, l.Number)})
	}
	return list
}

// PipelinePath is the path of the pipeline's page.
func (b *board) PipelinePath() string { return core.PublicURL("").To(b.Org.Slug, b.Pipeline.Slug) }

// OrgPath is the path of the organization's page.
func (b *board) OrgPath() string { return core.PublicURL("").To(b.Org.Slug) }
