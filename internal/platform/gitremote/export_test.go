package gitremote

import "io"

// FirstCommit reads the commit in the response to a fetch.
func FirstCommit(response io.Reader, sha string) (string, error) {
	return firstCommit(newPack(newLines(response, maxPack)), sha)
}
