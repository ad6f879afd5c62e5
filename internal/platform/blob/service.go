package blob

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// A service is a kind of object store with an S3 API, and the environment variables with the installation's
// settings for it.
type service struct {
	id, name, scheme    string
	keyID, secret       string   // variables with the credentials
	sessionToken        string   // optional variable; none when empty
	endpoints           []string // variables; the first that is set counts
	regions             []string // likewise
	defaultEndpoint     string
	defaultRegion       string
	underscoreInBuckets bool
}

var s3 = service{
	id: "s3", name: "Amazon S3", scheme: "s3",
	keyID: "AWS_ACCESS_KEY_ID", secret: "AWS_SECRET_ACCESS_KEY", sessionToken: "AWS_SESSION_TOKEN",
	endpoints:       []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
	regions:         []string{"AWS_REGION", "AWS_DEFAULT_REGION"},
	defaultEndpoint: "https://s3.amazonaws.com",
}

// gcs is Google Cloud Storage through its S3-compatible interface, with HMAC keys.
var gcs = service{
	id: "gcs", name: "Google Cloud Storage", scheme: "gs",
	keyID: "GCS_ACCESS_KEY_ID", secret: "GCS_SECRET_ACCESS_KEY",
	endpoints:           []string{"GCS_ENDPOINT_URL"},
	defaultEndpoint:     "https://storage.googleapis.com",
	defaultRegion:       "auto",
	underscoreInBuckets: true,
}

// A place has all settings of a bucket.
type place struct {
	service        service
	bucket, prefix string
	endpoint       *url.URL
	ownEndpoint    bool   // not the service's default
	region         string // empty: query the service
	keyID, secret  string
	sessionToken   string
	direct         bool // agents reach it: see Store.SignPut
}

// place adds the installation's settings to a bucket. A given endpoint and region take precedence over the
// environment. The error lists everything that is wrong or missing.
func (s service) place(bucket, prefix, endpoint, region string) (place, error) {
	p := place{
		service: s, bucket: bucket, prefix: prefix,
		keyID: os.Getenv(s.keyID), secret: os.Getenv(s.secret), sessionToken: os.Getenv(s.sessionToken),
	}
	var problems []error
	if p.keyID == "" || p.secret == "" {
		problems = append(problems, fmt.Errorf("there are no credentials for %s: set %s and %s", s.name, s.keyID, s.secret))
	}
	where := "the endpoint"
	if endpoint == "" {
		where, endpoint = firstSet(s.endpoints)
	}
	p.ownEndpoint = endpoint != ""
	endpoint = cmp.Or(endpoint, s.defaultEndpoint)
	var err error
	if p.endpoint, err = parseEndpoint(where, endpoint); err != nil {
		problems = append(problems, err)
	}
	_, ambientRegion := firstSet(s.regions)
	p.region = cmp.Or(region, ambientRegion, s.defaultRegion)
	if p.region == "" && p.ownEndpoint {
		p.region = "us-east-1" // S3-compatible servers expect this of clients that name none
	}
	return p, errors.Join(problems...)
}

// firstSet returns the first of the environment variables that is not empty.
func firstSet(variables []string) (name, value string) {
	for _, name := range variables {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// parseEndpoint parses the address of an object store; where names the setting.
func parseEndpoint(where, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s is not an http or https URL such as https://s3.example.com:9000", where)
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s must be scheme, host and port only, such as %s://%s", where, u.Scheme, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
