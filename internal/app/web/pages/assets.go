package pages

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file that pages load. Its name contains a hash of its content, so that browsers can cache it
// forever and still get new versions.
type asset struct {
	name    string
	content []byte
}

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// assets are the files by their own name, hashed by the name with the hash.
var assets, hashed = loadAssets()

func loadAssets() (byName, byHashed map[string]asset) {
	byName, byHashed = make(map[string]asset), make(map[string]asset)
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // embedded
	}
	for _, f := range files {
		content, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		if f.Name() == "build.css" {
			content = append(content, palette()...)
		}
		extension := path.Ext(f.Name())
		a := asset{name: fmt.Sprintf("%s-%.8x%s", strings.TrimSuffix(f.Name(), extension), sha256.Sum256(content), extension), content: content}
		byName[f.Name()], byHashed[a.name] = a, a
	}
	return byName, byHashed
}

// AssetPath returns the path of an asset, by its own name.
func AssetPath(name string) string {
	a, ok := assets[name]
	if !ok {
		panic("pages: no asset " + name)
	}
	return "/assets/" + a.name
}

func (s *Site) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := hashed[r.PathValue("file")]
	if !ok {
		s.ErrorPage(w, http.StatusNotFound, "File not found.")
		return
	}
	serveForever(w, r, a.name, assetTypes[path.Ext(a.name)], a.content)
}
