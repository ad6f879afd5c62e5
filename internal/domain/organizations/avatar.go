package organizations

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// avatarRoutes draws avatars of users. A picture depends on the id alone: it needs no database, can be cached
// forever, and does not reveal which users exist.
func avatarRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/avatars/{file}", Auth: route.Open, Hidden: true, Handler: route.Raw(serveAvatar)},
	}
}

func serveAvatar(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	name, isSVG := strings.CutSuffix(r.PathValue("file"), ".svg")
	id, isID := core.ParseID(name)
	if !isSVG || !isID {
		h.Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, `{"message":"No avatar found"}`)
		return
	}
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	fmt.Fprint(w, avatar(id))
}

// avatar draws an id as a mirrored grid of five by five squares in one of 360 colors.
func avatar(id string) string {
	sum := sha256.Sum256([]byte(id))
	hue := (int(sum[0])<<8 | int(sum[1])) % 360
	var squares strings.Builder
	for cell := range 15 {
		if sum[2+cell]&1 == 0 {
			continue
		}
		x, y := cell/5, cell%5
		fmt.Fprintf(&squares, "M%d %dh1v1h-1z", x, y)
		if x < 2 {
			fmt.Fprintf(&squares, "M%d %dh1v1h-1z", 4-x, y)
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="160" height="160" viewBox="-1 -1 7 7" shape-rendering="crispEdges">`+
		`<path fill="hsl(%d,45%%,92%%)" d="M-1-1h7v7h-7z"/><path fill="hsl(%d,55%%,45%%)" d="%s"/></svg>`+"\n", hue, hue, &squares)
}
