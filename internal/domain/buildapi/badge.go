package buildapi

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// badgeRoutes returns the route of the image at a pipeline's badge_url. Everyone who has the URL can see it.
func (s *Service) badgeRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: "/badge/{file}", Tag: "Pipelines", Summary: "Get the badge of a pipeline",
		Auth: route.Open, Hidden: true, Handler: route.Raw(s.getBadge),
	}}
}

// badgeLabels are the text and the color of a badge by the state of the build.
var badgeLabels = map[flow.BuildState]struct{ text, color string }{
	flow.BuildPassed:   {"passing", "#1f883d"},
	flow.BuildFailed:   {"failing", "#cf222e"},
	flow.BuildCanceled: {"canceled", "#6e7781"},
	"":                 {"unknown", "#6e7781"},
}

// badge assumes a width of seven pixels per character.
var badge = template.Must(template.New("badge").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" role="img" aria-label="build: {{.Text}}">
<title>build: {{.Text}}</title>
<rect width="{{.Width}}" height="20" rx="3" fill="#24292f"/>
<rect x="40" width="{{.Right}}" height="20" rx="3" fill="{{.Color}}"/>
<rect x="40" width="4" height="20" fill="{{.Color}}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">
<text x="20" y="14">build</text>
<text x="{{.Center}}" y="14">{{.Text}}</text>
</g>
</svg>
`))

func (s *Service) getBadge(w http.ResponseWriter, r *http.Request) {
	var state flow.BuildState
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		key, ok := strings.CutSuffix(r.PathValue("file"), ".svg")
		if !ok {
			return core.Errorf(core.NotFound, "No badge found")
		}
		id, branch, err := pipelines.ByBadgeKey(q, key)
		if err != nil {
			return err
		}
		if requested := r.URL.Query().Get("branch"); requested != "" {
			branch = requested
		}
		state, err = builds.LastState(q, id, branch)
		return err
	})
	if err != nil {
		status := http.StatusInternalServerError
		switch core.KindOf(err) {
		case core.NotFound:
			status = http.StatusNotFound
		case core.Unavailable:
			status = http.StatusServiceUnavailable
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	label := badgeLabels[state]
	right := 7*len(label.text) + 14
	var image bytes.Buffer
	if err := badge.Execute(&image, map[string]any{"Text": label.text, "Color": label.color, "Right": right, "Width": 40 + right, "Center": 40 + right/2}); err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml; charset=utf-8")
	h.Set("Cache-Control", "no-cache, max-age=0")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(image.Bytes())
}
