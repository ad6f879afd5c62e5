package buildpages

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/rules/logline"
)

// artifactLinks matches links to artifacts in rendered lines of a log, and outsideImages images of other servers. All
// quotes in the text of a log are escaped.
var (
	artifactLinks = regexp.MustCompile(` (href|src)="artifact://([^"]*)"`)
	outsideImages = regexp.MustCompile(`<img alt="([^"]*)" src="(https?://[^"]*)"[^>]*>`)
)

// linkArtifacts replaces the addresses of artifacts in a rendered part of a log by those of this server, and images of
// other servers, which pages do not load, by links to them. job is the path of the page of the job.
func linkArtifacts(rendered, job string) string {
	if !strings.Contains(rendered, logline.ArtifactScheme) && !strings.Contains(rendered, "<img ") {
		return rendered
	}
	rendered = outsideImages.ReplaceAllString(rendered, `<a href="$2" rel="noopener noreferrer nofollow">$1</a>`)
	return artifactLinks.ReplaceAllStringFunc(rendered, func(attribute string) string {
		parts := artifactLinks.FindStringSubmatch(attribute)
		query := url.Values{"path": {html.UnescapeString(parts[2])}}
		return ` ` + parts[1] + `="` + html.EscapeString(job+"/artifact?"+query.Encode()) + `"`
	})
}

// namedArtifact redirects to the artifact that a log names by its path: the job's own, or else the newest of its build.
func (s *Site) namedArtifact(v *pages.Visit) error {
	o, err := s.Builds.LoadOnJob(v.Request)
	if err != nil {
		return err
	}
	a, err := s.Artifacts.Named(v.Context(), o.Build.ID, o.ID, v.FormQuery("path"))
	if err != nil {
		return err
	}
	to, err := s.Download(a)
	if err != nil {
		return err
	}
	http.Redirect(v.W, v.Request.Request, to, http.StatusFound)
	return nil
}
