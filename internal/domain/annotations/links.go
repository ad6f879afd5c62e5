package annotations

import (
	"context"
	"html"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/markdown"
)

// maxLinked bounds the artifacts that the annotations on a page can link to.
const maxLinked = 1000

// linkArtifacts replaces the links to artifacts of a build in rendered annotations by their URLs.
func (s *Service) linkArtifacts(ctx context.Context, buildID string, texts []string, address func(artifacts.Artifact) string) ([]string, error) {
	urls := make(map[string]string) // by path
	for _, text := range texts {
		eachArtifactLink(text, func(path string) string {
			if len(urls) < maxLinked {
				urls[path] = "#"
			}
			return ""
		})
	}
	if len(urls) == 0 {
		return texts, nil
	}
	err := s.db.Read(ctx, func(q *db.Q) error {
		found, err := artifacts.ByPath(q, buildID, slices.Collect(maps.Keys(urls)))
		for path, a := range found {
			urls[path] = address(a)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	linked := make([]string, len(texts))
	for i, text := range texts {
		linked[i] = eachArtifactLink(text, func(path string) string {
			if url, ok := urls[path]; ok {
				return url
			}
			return "#"
		})
	}
	return linked, nil
}

// eachArtifactLink returns rendered HTML with all links to and images of artifacts replaced. In HTML from package
// markdown, quotes appear only around attribute values.
func eachArtifactLink(text string, replace func(path string) string) string {
	const scheme = `="` + markdown.ArtifactScheme + "://"
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, scheme)
		path, after, ends := strings.Cut(rest, `"`)
		if !found || !ends {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before)
		if strings.HasSuffix(before, " href") || strings.HasSuffix(before, " src") {
			b.WriteString(`="` + html.EscapeString(replace(html.UnescapeString(path))) + `"`)
		} else {
			b.WriteString(scheme + path + `"`)
		}
		text = after
	}
}
