package blob

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Strategies are the ids of the kinds of buckets that build exports can go to.
var Strategies = []string{s3.id, gcs.id}

func serviceOf(strategy string) (service, error) {
	for _, s := range []service{s3, gcs} {
		if s.id == strategy {
			return s, nil
		}
	}
	return service{}, fmt.Errorf("%q is not a strategy; there are %s", strategy, strings.Join(Strategies, " and "))
}

// BucketName returns what remains of a location without the prefix of a fully qualified URI: "bucket", or
// "bucket/folder". It accepts a bare name, the strategy's own URIs (s3://, gs://), bucket ARNs, and the
// service's web addresses with the bucket in the host or in the path. The error is a message for the person who
// entered the location.
func BucketName(strategy, location string) (string, error) {
	s, err := serviceOf(strategy)
	if err != nil {
		return "", err
	}
	bucket, prefix, err := s.parseLocation(location)
	if err != nil {
		return "", err
	}
	if prefix == "" {
		return bucket, nil
	}
	return bucket + "/" + prefix, nil
}

// CheckBucket reports whether build exports can go to a location that BucketName accepts, by writing, reading
// and deleting a small object there with the installation's credentials: AWS_… for s3, GCS_… for gcs. It
// returns within ten seconds; its error says what to do.
func CheckBucket(ctx context.Context, strategy, location string) error {
	store, err := OpenBucket(strategy, location)
	if err != nil {
		return err
	}
	defer store.CloseIdle()
	return check(ctx, store.objects)
}

// OpenBucket returns the store at a location that BucketName accepts, with the installation's credentials. The bucket
// is not contacted.
func OpenBucket(strategy, location string) (*Store, error) {
	s, err := serviceOf(strategy)
	if err != nil {
		return nil, err
	}
	name, prefix, err := s.parseLocation(location)
	if err != nil {
		return nil, err
	}
	place, err := s.place(name, prefix, "", "")
	if err != nil {
		return nil, err
	}
	bucket, err := openBucket(place)
	if err != nil {
		return nil, err
	}
	return &Store{bucket}, nil
}

// CloseIdle closes connections to the object store that no request uses.
func (s *Store) CloseIdle() {
	if b, ok := s.objects.(*bucket); ok {
		b.transport.CloseIdleConnections()
	}
}

func (s service) parseLocation(location string) (bucket, prefix string, err error) {
	location = strings.TrimSpace(location)
	switch {
	case location == "":
		return "", "", errors.New("the location is blank; give a bucket name such as my-bucket")
	case strings.HasPrefix(location, "arn:"):
		return s.parseARN(location)
	case strings.Contains(location, "://"):
		return s.parseURI(location)
	}
	return s.splitBucket(location)
}

// arnOfBucket excludes access points and the like, which have a region and an account.
var arnOfBucket = regexp.MustCompile(`^arn:aws[a-z-]*:s3:::(.+)$`)

func (s service) parseARN(location string) (bucket, prefix string, err error) {
	match := arnOfBucket.FindStringSubmatch(location)
	if match == nil || s.id != s3.id {
		return "", "", fmt.Errorf("%q is not the ARN of a bucket of %s", location, s.name)
	}
	return s.splitBucket(match[1])
}

func (s service) parseURI(location string) (bucket, prefix string, err error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", "", errors.New("the location cannot be read as a URI; give a bucket name such as my-bucket")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", errors.New("the location must not have credentials, a query or a fragment")
	}
	switch u.Scheme {
	case s.scheme:
		return s.splitBucket(u.Host + u.Path)
	case "http", "https":
		return s.parseWebAddress(u)
	}
	for _, other := range []service{s3, gcs} {
		if u.Scheme == other.scheme {
			return "", "", fmt.Errorf("%s:// is a location of %s; give it with the strategy %s", u.Scheme, other.name, other.id)
		}
	}
	return "", "", fmt.Errorf("%s:// is not a location of %s; write %s://my-bucket", u.Scheme, s.name, s.scheme)
}

// The hosts of the services' web addresses; the part before them, if any, is the bucket.
var hostsOf = map[string]*regexp.Regexp{
	s3.id:  regexp.MustCompile(`^(?:(.+)\.)?s3(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?$`),
	gcs.id: regexp.MustCompile(`^(?:(.+)\.)?storage\.(?:googleapis|cloud\.google)\.com$`),
}

func (s service) parseWebAddress(u *url.URL) (bucket, prefix string, err error) {
	if match := hostsOf[s.id].FindStringSubmatch(strings.ToLower(u.Host)); match != nil {
		return s.splitBucket(match[1] + u.Path)
	}
	if _, endpoint := firstSet(s.endpoints); endpoint != "" {
		own, err := parseEndpoint("the endpoint", endpoint)
		if err == nil && strings.EqualFold(own.Host, u.Host) {
			return s.splitBucket(u.Path)
		}
	}
	return "", "", fmt.Errorf("%s is not an address of %s; write %s://my-bucket", u.Host, s.name, s.scheme)
}

// splitBucket parses "bucket/folder", with any number of slashes, by the rules of the service.
func (s service) splitBucket(text string) (bucket, prefix string, err error) {
	bucket, rest, _ := strings.Cut(strings.TrimLeft(text, "/"), "/")
	if err := s.checkBucketName(bucket); err != nil {
		return "", "", err
	}
	var folders []string
	for folder := range strings.SplitSeq(rest, "/") {
		if folder == "." || folder == ".." || !utf8.ValidString(folder) || strings.ContainsFunc(folder, unicode.IsControl) {
			return "", "", fmt.Errorf("%q cannot be a folder in a bucket", folder)
		}
		if folder != "" {
			folders = append(folders, folder)
		}
	}
	prefix = strings.Join(folders, "/")
	if len(prefix) > maxPrefix {
		return "", "", fmt.Errorf("the folder in the bucket is longer than %d bytes", maxPrefix)
	}
	return bucket, prefix, nil
}

// maxPrefix leaves space for the objects' own names in the 1,024 bytes of a key.
const maxPrefix = 512

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)

func (s service) checkBucketName(name string) error {
	_, notAddress := netip.ParseAddr(name)
	if bucketForm.MatchString(name) && notAddress != nil && !strings.Contains(name, "..") && (s.underscoreInBuckets || !strings.Contains(name, "_")) {
		return nil
	}
	marks := "dots and hyphens"
	if s.underscoreInBuckets {
		marks = "dots, hyphens and underscores"
	}
	return fmt.Errorf("%q is not a bucket name of %s: those are 3 to 63 lower-case letters, digits, %s, begin and end with a letter or digit, and are not an IP address", name, s.name, marks)
}
