package builds

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// badgeRoutes serve the image at a pipeline's badge_url. Who knows the URL may see it.
func (s *Service) badgeRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: "/badge/{file}", Tag: "Pipelines", Summary: "Get the badge of a pipeline",
		Auth: route.Open, Hidden: true, Handler: route.Raw(s.getBadge),
	}}
}

// badgeWords say for each state of a build what its badge reads, and in which color.
var badgeWords = map[flow.BuildState]struct{ word, color string }{
	flow.BuildPassed:   {"passing", "#1f883d"},
	flow.BuildFailed:   {"failing", "#cf222e"},
	flow.BuildCanceled: {"canceled", "#6e7781"},
	"":                 {"unknown", "#6e7781"},
}

// badge is drawn with about seven pixels to a character.
var badge = template.Must(template.New("badge").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" role="img" aria-label="build: {{.Word}}">
<title>build: {{.Word}}</title>
<rect width="{{.Width}}" height="20" rx="3" fill="#24292f"/>
<rect x="40" width="{{.Right}}" height="20" rx="3" fill="{{.Color}}"/>
<rect x="40" width="4" height="20" fill="{{.Color}}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">
<text x="20" y="14">build</text>
<text x="{{.Center}}" y="14">{{.Word}}</text>
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
		if asked := r.URL.Query().Get("branch"); asked != "" {
			branch = asked
		}
		state, err = lastState(q, id, branch)
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
	drawn := badgeWords[state]
	right := 7*len(drawn.word) + 14
	var image bytes.Buffer
	if err := badge.Execute(&image, map[string]any{"Word": drawn.word, "Color": drawn.color, "Right": right, "Width": 40 + right, "Center": 40 + right/2}); err != nil {
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

// lastState returns the state of the last finished build of a branch; "" when there is none.
func lastState(q *db.Q, pipelineID, branch string) (flow.BuildState, error) {
	var state flow.BuildState
	err := q.QueryRow(`
		SELECT state FROM builds
		WHERE pipeline_id = $1 AND branch = $2 AND state IN ($3, $4, $5)
		ORDER BY number DESC
		LIMIT 1`, pipelineID, branch, flow.BuildPassed, flow.BuildFailed, flow.BuildCanceled).Scan(&state)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return state, err
}
