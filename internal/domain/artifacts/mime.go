package artifacts

import (
	"cmp"
	"mime"
	"path"
	"strings"
)

// unknownType is the media type of files with an unknown extension.
const unknownType = "application/octet-stream"

// mediaTypes are the media types of common artifacts by extension. The tables of the operating system differ
// from host to host, so they are not used.
var mediaTypes = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".out": "text/plain", ".diff": "text/x-diff", ".patch": "text/x-diff",
	".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".htm": "text/html", ".css": "text/css", ".js": "text/javascript",
	".json": "application/json", ".yml": "application/yaml", ".yaml": "application/yaml", ".xml": "application/xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml", ".webp": "image/webp",
	".mp4": "video/mp4", ".webm": "video/webm", ".pdf": "application/pdf", ".wasm": "application/wasm",
	".zip": "application/zip", ".gz": "application/gzip", ".tgz": "application/gzip", ".zst": "application/zstd", ".tar": "application/x-tar",
	".jar": "application/java-archive",
}

// maxMediaType bounds a media type, in characters.
const maxMediaType = 255

// mediaType returns the given media type if it is valid, or else the one for the extension of the file.
func mediaType(given, name string) string {
	if _, _, err := mime.ParseMediaType(given); err == nil && len(given) <= maxMediaType {
		return given
	}
	return cmp.Or(mediaTypes[strings.ToLower(path.Ext(name))], unknownType)
}
