package blob

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseURL_ReadsFolders(t *testing.T) {
	unset(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for rawURL, want := range map[string]string{
		"/var/lib/blobs":           "/var/lib/blobs",
		"/odd/a:b":                 "/odd/a:b",
		"./data/blobs":             filepath.Join(here, "data/blobs"),
		"data":                     filepath.Join(here, "data"),
		"file:///var/lib/blobs/":   "/var/lib/blobs",
		"file:/var/lib/blobs":      "/var/lib/blobs",
		"file:///with%20space/dir": "/with space/dir",
	} {
		location, err := ParseURL(rawURL)
		if err != nil || location.folder != want || location.String() != "the folder "+want {
			t.Errorf("%s: %s, %v; want %s", rawURL, location, err, want)
		}
	}
}

func TestParseURL_ReadsBuckets(t *testing.T) {
	for rawURL, c := range map[string]struct {
		env                    map[string]string
		name, endpoint, region string
		ownEndpoint            bool
	}{
		"s3://acme-blobs": {nil,
			"s3://acme-blobs", "https://s3.amazonaws.com", "", false},
		"s3://acme-blobs?region=eu-west-1": {nil,
			"s3://acme-blobs", "https://s3.amazonaws.com", "eu-west-1", false},
		"s3://acme-blobs/": {map[string]string{"AWS_DEFAULT_REGION": "eu-west-2"},
			"s3://acme-blobs", "https://s3.amazonaws.com", "eu-west-2", false},
		"s3://acme-blobs/a/b/": {map[string]string{"AWS_REGION": "eu-west-3", "AWS_DEFAULT_REGION": "eu-west-2"},
			"s3://acme-blobs/a/b", "https://s3.amazonaws.com", "eu-west-3", false},
		"s3://acme-blobs?endpoint=http://minio:9000": {map[string]string{"AWS_ENDPOINT_URL": "https://other.test"},
			"s3://acme-blobs", "http://minio:9000", "us-east-1", true},
		"s3://acme-blobs?endpoint=https%3A%2F%2Fs3.example.com%2F&region=x": {map[string]string{"AWS_REGION": "y"},
			"s3://acme-blobs", "https://s3.example.com", "x", true},
		"s3://acme.blobs": {map[string]string{"AWS_ENDPOINT_URL": "https://other.test"},
			"s3://acme.blobs", "https://other.test", "us-east-1", true},
	} {
		withCredentials(t)
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		location, err := ParseURL(rawURL)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		got := location.bucket
		if location.String() != c.name || got.endpoint.String() != c.endpoint || got.region != c.region || got.ownEndpoint != c.ownEndpoint {
			t.Errorf("%s: %s at %s in %q, own endpoint %v", rawURL, location, got.endpoint, got.region, got.ownEndpoint)
		}
	}
}

func TestParseURL_RefusesWithAHint(t *testing.T) {
	withCredentials(t)
	for rawURL, want := range map[string]string{
		"":                                       "is blank; give a folder",
		"  ":                                     "is blank; give a folder",
		"/a\x00b":                                "NUL",
		"file://relative/path":                   "file:///var/lib",
		"file:relative":                          "file:///var/lib",
		"file://":                                "file:///var/lib",
		"file:///x?y=1":                          "file:///var/lib",
		"gs://bucket":                            `"gs:" is not a place for blobs; give a folder`,
		"https://bucket.test/":                   `"https:" is not a place for blobs`,
		"s3:acme-blobs":                          `"s3:" is not a place for blobs`,
		"s3://acme-blobs%zz":                     "cannot be read as a URL",
		"s3://":                                  `"" is not a bucket name`,
		"s3://Acme":                              `"Acme" is not a bucket name`,
		"s3://acme-blobs/../x":                   `".." cannot be a folder`,
		"s3://acme-blobs?endpoint=minio:9000":    "the endpoint is not an http or https URL",
		"s3://acme-blobs?endpoint=ftp://minio":   "the endpoint is not an http or https URL",
		"s3://acme-blobs?endpoint=http://m/path": "scheme, host and port only, such as http://m",
		"s3://acme-blobs?endpoint=http://u:p@m:90": "scheme, host and port only, such as http://m:90",
		"s3://acme-blobs?regoin=x":                 `"regoin" is not a parameter`,
		"s3://acme-blobs?direct=yes":               "direct must be true",
		"s3://acme-blobs?a;b":                      "what follows the ? cannot be read",
	} {
		_, err := ParseURL(rawURL)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", rawURL, err, want)
		}
	}
}

func TestParseURL_ReportsAllProblemsAndNoSecret(t *testing.T) {
	unset(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "minio")
	_, err := ParseURL("s3://key:hunter2@B?x=1")
	wantError(t, err,
		"credentials do not belong in the URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
		`"B" is not a bucket name of Amazon S3`,
		`"x" is not a parameter`,
		"there are no credentials for Amazon S3",
		"AWS_ENDPOINT_URL_S3 is not an http or https URL",
	)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error contains the secret: %v", err)
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("s3://bucket/x?endpoint=http://h&region=r")
	f.Add("file:///x")
	f.Fuzz(func(t *testing.T, rawURL string) {
		withCredentials(t)
		location, err := ParseURL(rawURL)
		if err == nil && !filepath.IsAbs(location.folder) && location.bucket.bucket == "" {
			t.Fatalf("%q is neither a folder nor a bucket", rawURL)
		}
	})
}
