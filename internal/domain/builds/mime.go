package builds

import (
	"cmp"
	"mime"
	"path"
	"strings"
)

// unknownKind is the media type of a file that nothing is known of.
const unknownKind = "application/octet-stream"

// kinds are the media types of files that jobs often leave behind, by the ends of their names. What the
// system has on that differs from one to the next.
var kinds = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".out": "text/plain", ".diff": "text/x-diff", ".patch": "text/x-diff",
	".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".htm": "text/html", ".css": "text/css", ".js": "text/javascript",
	".json": "application/json", ".yml": "application/yaml", ".yaml": "application/yaml", ".xml": "application/xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml", ".webp": "image/webp",
	".mp4": "video/mp4", ".webm": "video/webm", ".pdf": "application/pdf", ".wasm": "application/wasm",
	".zip": "application/zip", ".gz": "application/gzip", ".tgz": "application/gzip", ".zst": "application/zstd", ".tar": "application/x-tar",
	".jar": "application/java-archive",
}

// kindOf returns the media type of a file: the one that is told, if it is one, or what its name suggests.
func kindOf(told, name string) string {
	if _, _, err := mime.ParseMediaType(told); err == nil && len(told) <= maxName {
		return told
	}
	return cmp.Or(kinds[strings.ToLower(path.Ext(name))], unknownKind)
}
