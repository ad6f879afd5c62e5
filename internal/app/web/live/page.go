package live

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	// pagePace is the minimum time between two reads of a page, and pagePoll the maximum: a notification of another
	// replica can be lost.
	pagePace = time.Second
	pagePoll = 30 * time.Second
)

// A Watch says when a page can have changed, and who shares it.
type Watch struct {
	// Topics are the topics of the bus whose changes the page shows.
	Topics []string
	// Own is set for pages that show something to this user only.
	Own bool
	// Sees is a text that is the same for visitors who see the same, besides their role and teams in the organization
	// of the page.
	Sees string
}

// Page returns the routes of a page that stays up to date: the page itself, and at /live below it the stream of its
// parts. The stream renders the page again when a topic of its Watch has changed. watch returns an error if the visitor
// cannot see the page. within, such as [pages.Within], is applied to both.
//
// Visitors with the same role and teams share what is rendered, so parts must not contain anything about one visitor.
func (h *Hub) Page(path string, within func(pages.Handler) pages.Handler, page pages.Handler, watch func(v *pages.Visit) (Watch, error)) []route.Route {
	choose := func(v *pages.Visit) (string, func() *Source, error) {
		w, err := watch(v)
		if err != nil {
			return "", nil, err
		}
		shown := fill(path, v)
		query := v.URL.Query()
		query.Del("seen")
		key := strings.Join([]string{"page", shown, query.Encode(), permissions(v), w.Sees}, "\n")
		if w.Own {
			key += "\n" + limiterKey(v)
		}
		return key, func() *Source { return h.pageSource(v, page, shown, query.Encode(), w) }, nil
	}
	stream := path + "/live"
	switch path {
	case "/{org}":
		stream = "/organizations/{org}/pipelines/live" // a pipeline can be named live
	case "/{$}":
		stream = "/organizations/live" // so can an organization
	}
	return []route.Route{
		h.Get(path, within(func(v *pages.Visit) error {
			v.Live = fill(stream, v) + "?" + v.URL.RawQuery
			return page(v)
		})),
		h.Get(stream, within(func(v *pages.Visit) error { return h.Follow(v, choose) })),
	}
}

// fill returns the path of a pattern with the values of a visit's path.
func fill(pattern string, v *pages.Visit) string {
	if pattern == "/{$}" {
		return "/"
	}
	segments := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			segments[i] = v.PathValue(strings.TrimSuffix(name, "}"))
		}
	}
	return core.PublicURL("").To(segments...)
}

// pageSource returns the source of a page.
func (h *Hub) pageSource(v *pages.Visit, page pages.Handler, path, query string, w Watch) *Source {
	reader := Detached(v)
	hr := v.Request.Request.Clone(context.Background())
	hr.URL.Path, hr.URL.RawPath, hr.URL.RawQuery = v.URL.Path, "", query
	if unescaped, err := url.PathUnescape(path); err == nil {
		hr.URL.Path = unescaped
	}
	hr.Header.Del("Last-Event-ID")
	hr.Header.Set("Accept", "text/html")
	return &Source{
		Subscribe: func() (<-chan struct{}, func()) { return h.Bus.Subscribe(w.Topics...) },
		Read: func(ctx context.Context) (pages.Snapshot, error) {
			request := *reader.Request
			request.Request = hr.WithContext(ctx)
			to := &recorder{header: http.Header{}, status: http.StatusOK}
			if err := page(&pages.Visit{Request: &request, Site: reader.Site, W: to, Session: reader.Session}); err != nil {
				return nil, err
			}
			if to.status != http.StatusOK {
				return nil, core.Errorf(core.NotFound, "The page is gone")
			}
			return pages.PartsOf(to.body.Bytes()), nil
		},
		Pace: pagePace,
		Poll: pagePoll,
	}
}

// permissions returns a text that is the same for visitors who see the same page.
func permissions(v *pages.Visit) string {
	if v.Session == nil || v.Member == nil {
		return fmt.Sprint("visitor ", v.Session != nil)
	}
	return PermissionsOf(v.Member)
}

// PermissionsOf returns a text that is the same for members with the same permissions and teams.
func PermissionsOf(m *identity.Membership) string {
	var teams []string
	for _, t := range m.Teams {
		teams = append(teams, fmt.Sprintf("%+v", t))
	}
	slices.Sort(teams)
	return fmt.Sprint("member ", m.Role, slices.Sorted(slices.Values(m.Permissions)), teams)
}

// recorder is a response writer that keeps a page.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }
