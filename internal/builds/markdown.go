package builds

import (
	"bytes"
	"html"
	"regexp"
	"sync"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	render "github.com/yuin/goldmark/renderer/html"
)

// markdown reads Markdown with tables and HTML in it.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(render.WithUnsafe()))

// allowed is what of HTML may be shown: nothing that runs, and nothing that pretends to be part of a page.
var allowed = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.UGCPolicy()
	p.AllowAttrs("class").Matching(bluemonday.SpaceSeparatedTokens).Globally()
	p.AllowAttrs("open").OnElements("details")
	p.AllowURLSchemes("http", "https", "mailto", artifactScheme)
	return p
})

const artifactScheme = "artifact"

// toHTML returns Markdown as HTML that is safe to show.
func toHTML(text string) string {
	var out bytes.Buffer
	if err := markdown.Convert([]byte(text), &out); err != nil {
		return "<p>" + html.EscapeString(text) + "</p>"
	}
	return allowed().Sanitize(out.String())
}

// artifactLink matches a link to, or an image of, an artifact of the build.
var artifactLink = regexp.MustCompile(`(href|src)="artifact://([^"]*)"`)

// linkedArtifacts returns the paths of the artifacts that HTML refers to.
func linkedArtifacts(text string) []string {
	var paths []string
	for _, match := range artifactLink.FindAllStringSubmatch(text, -1) {
		paths = append(paths, html.UnescapeString(match[2]))
	}
	return paths
}

// linkArtifacts leads the links of HTML to artifacts, by their paths, to where these can be fetched.
func linkArtifacts(text string, urls map[string]string) string {
	return artifactLink.ReplaceAllStringFunc(text, func(link string) string {
		match := artifactLink.FindStringSubmatch(link)
		url, ok := urls[html.UnescapeString(match[2])]
		if !ok {
			url = "#"
		}
		return match[1] + `="` + html.EscapeString(url) + `"`
	})
}
