package blob

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// A Location is the location of a store: a folder or a bucket.
type Location struct {
	folder string // absolute; empty for a bucket
	bucket place
}

// String names the location, without credentials.
func (l Location) String() string {
	if l.folder != "" {
		return folderName(l.folder)
	}
	return l.bucket.String()
}

// Folder returns the absolute path of a folder; "" for a bucket.
func (l Location) Folder() string { return l.folder }

// ParseURL parses the location of a store: a path or file:///path for a folder, or
// s3://bucket/prefix?endpoint=https://…&region=…&direct=true for a bucket, where all but the bucket is optional. The rest
// comes from the standard AWS_… variables. It opens nothing; the error lists everything that is wrong, one
// problem per line.
func ParseURL(rawURL string) (Location, error) {
	if strings.TrimSpace(rawURL) == "" {
		return Location{}, errors.New("the place for blobs is blank; " + placesForBlobs)
	}
	scheme, _, found := strings.Cut(rawURL, ":")
	if !found || strings.ContainsAny(scheme, "/.") {
		return folderLocation(rawURL)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error quotes the URL, which may contain a password.
		return Location{}, errors.New("the place for blobs cannot be read as a URL; " + placesForBlobs)
	}
	switch {
	case u.Scheme == "file" && u.Opaque == "" && u.Host == "" && u.Path != "" && u.RawQuery == "":
		return folderLocation(u.Path)
	case u.Scheme == "file":
		return Location{}, errors.New("a file URL needs an absolute path and nothing else: file:///var/lib/stackyard/blobs")
	case u.Scheme == "s3" && u.Opaque == "":
		return bucketLocation(u)
	}
	return Location{}, fmt.Errorf("%q is not a place for blobs; %s", u.Scheme+":", placesForBlobs)
}

const placesForBlobs = "give a folder, file:///folder, or s3://bucket?endpoint=https://s3.example.com&region=eu-west-1"

func folderLocation(path string) (Location, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Location{}, fmt.Errorf("the folder for blobs: %w", err)
	}
	if strings.ContainsRune(path, 0) {
		return Location{}, errors.New("the folder for blobs has a NUL character in its name")
	}
	return Location{folder: path}, nil
}

func bucketLocation(u *url.URL) (Location, error) {
	var problems []error
	if u.User != nil {
		problems = append(problems, fmt.Errorf("credentials do not belong in the URL; set %s and %s", s3.keyID, s3.secret))
	}
	bucket, prefix, err := s3.splitBucket(u.Host + u.Path)
	if err != nil {
		problems = append(problems, err)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		problems = append(problems, errors.New("what follows the ? cannot be read: write endpoint=https://s3.example.com&region=eu-west-1"))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "endpoint" && name != "region" && name != "direct" {
			problems = append(problems, fmt.Errorf("%q is not a parameter of an s3 URL; there are endpoint, region and direct", name))
		}
	}
	direct := query.Get("direct")
	if query.Has("direct") && direct != "true" && direct != "false" {
		problems = append(problems, errors.New("direct must be true, if agents can reach the bucket, or false"))
	}
	place, err := s3.place(bucket, prefix, query.Get("endpoint"), query.Get("region"))
	if err != nil {
		problems = append(problems, err)
	}
	place.direct = direct == "true"
	return Location{bucket: place}, errors.Join(problems...)
}
