package blob

import (
	"slices"
	"strings"
	"testing"
)

func TestBucketName_StripsThePrefix(t *testing.T) {
	unset(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://minio.example.test:9000")
	for _, c := range []struct{ strategy, location, want string }{
		{"s3", "my-bucket", "my-bucket"},
		{"s3", " my-bucket/ ", "my-bucket"},
		{"s3", "my-bucket/path/to", "my-bucket/path/to"},
		{"s3", "my.bucket", "my.bucket"},
		{"s3", "s3://my-bucket", "my-bucket"},
		{"s3", "S3://my-bucket", "my-bucket"},
		{"s3", "s3://my-bucket/path//to/", "my-bucket/path/to"},
		{"s3", "arn:aws:s3:::my-bucket", "my-bucket"},
		{"s3", "arn:aws-cn:s3:::my-bucket/path", "my-bucket/path"},
		{"s3", "https://s3.amazonaws.com/my-bucket", "my-bucket"},
		{"s3", "https://s3.eu-west-1.amazonaws.com/my-bucket/path/", "my-bucket/path"},
		{"s3", "https://s3-eu-west-1.amazonaws.com/my-bucket", "my-bucket"},
		{"s3", "https://my-bucket.s3.amazonaws.com", "my-bucket"},
		{"s3", "https://my-bucket.s3.eu-west-1.amazonaws.com/path", "my-bucket/path"},
		{"s3", "https://my.bucket.s3.dualstack.eu-west-1.amazonaws.com/", "my.bucket"},
		{"s3", "https://my-bucket.s3.cn-north-1.amazonaws.com.cn", "my-bucket"},
		{"s3", "http://minio.example.test:9000/my-bucket/path", "my-bucket/path"},
		{"gcs", "my_bucket", "my_bucket"},
		{"gcs", "gs://my-bucket", "my-bucket"},
		{"gcs", "gs://my-bucket/path/", "my-bucket/path"},
		{"gcs", "https://storage.googleapis.com/my-bucket", "my-bucket"},
		{"gcs", "https://my-bucket.storage.googleapis.com/path", "my-bucket/path"},
		{"gcs", "https://storage.cloud.google.com/my-bucket/path", "my-bucket/path"},
	} {
		got, err := BucketName(c.strategy, c.location)
		if err != nil || got != c.want {
			t.Errorf("%s %q: %q, %v; want %q", c.strategy, c.location, got, err, c.want)
			continue
		}
		if again, err := BucketName(c.strategy, got); err != nil || again != got {
			t.Errorf("%s %q is not stable: %q, %v", c.strategy, got, again, err)
		}
	}
}

func TestBucketName_RefusesWithAHint(t *testing.T) {
	unset(t)
	for _, c := range []struct{ strategy, location, want string }{
		{"azure", "my-bucket", `"azure" is not a strategy; there are s3 and gcs`},
		{"", "my-bucket", "is not a strategy"},
		{"s3", "", "the location is blank"},
		{"s3", " \t", "the location is blank"},
		{"s3", "gs://my-bucket", "gs:// is a location of Google Cloud Storage; give it with the strategy gcs"},
		{"gcs", "s3://my-bucket", "s3:// is a location of Amazon S3; give it with the strategy s3"},
		{"gcs", "arn:aws:s3:::my-bucket", "is not the ARN of a bucket of Google Cloud Storage"},
		{"s3", "arn:aws:s3:eu-west-1:123456789012:accesspoint/x", "is not the ARN of a bucket"},
		{"s3", "ftp://my-bucket", "ftp:// is not a location of Amazon S3; write s3://my-bucket"},
		{"s3", "https://storage.googleapis.com/my-bucket", "storage.googleapis.com is not an address of Amazon S3"},
		{"s3", "https://169.254.169.254/my-bucket", "169.254.169.254 is not an address of Amazon S3"},
		{"s3", "https://s3.amazonaws.com.example.test/my-bucket", "is not an address of Amazon S3"},
		{"s3", "https://s3.amazonaws.com", `"" is not a bucket name`},
		{"s3", "https://key:secret@s3.amazonaws.com/my-bucket", "must not have credentials"},
		{"s3", "s3://my-bucket?region=x", "must not have credentials, a query"},
		{"s3", "s3://my-bucket%zz", "cannot be read"},
		{"s3", "ab", `"ab" is not a bucket name of Amazon S3: those are 3 to 63`},
		{"s3", strings.Repeat("a", 64), "3 to 63"},
		{"s3", "My-Bucket", "lower-case"},
		{"s3", "my_bucket", "dots and hyphens"},
		{"s3", "my bucket", "is not a bucket name"},
		{"s3", "-my-bucket", "begin and end"},
		{"s3", "my..bucket", "is not a bucket name"},
		{"s3", "10.0.0.1", "not an IP address"},
		{"gcs", "My-Bucket", "dots, hyphens and underscores"},
		{"s3", "my-bucket/../other", `".." cannot be a folder`},
		{"s3", "my-bucket/a\nb", "cannot be a folder"},
		{"s3", "my-bucket/a\xffb", "cannot be a folder"},
		{"s3", "my-bucket/" + strings.Repeat("a", 513), "longer than 512 bytes"},
	} {
		got, err := BucketName(c.strategy, c.location)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %q, %v; want it to say %q", c.strategy, c.location, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("the error contains the secret: %v", err)
		}
	}
}

func TestCheckBucket_ProvesAccessWithEachStrategy(t *testing.T) {
	withCredentials(t)
	if !slices.Equal(Strategies, []string{"s3", "gcs"}) {
		t.Fatalf("the strategies are %q", Strategies)
	}
	for strategy, variable := range map[string]string{"s3": "AWS_ENDPOINT_URL_S3", "gcs": "GCS_ENDPOINT_URL"} {
		server := startObjectStore(t, "acme-exports")
		t.Setenv(variable, server.URL)
		if err := CheckBucket(t.Context(), strategy, "acme-exports/builds"); err != nil {
			t.Errorf("%s: %v", strategy, err)
		}
		if len(server.requests) == 0 || !strings.HasPrefix(server.requests[0], "PUT /acme-exports/builds/stackyard-check-") {
			t.Errorf("%s: the requests were %q", strategy, server.requests)
		}
		if left := server.objects(t, "acme-exports"); left != 0 {
			t.Errorf("%s: %d objects left behind", strategy, left)
		}
	}
}

func TestCheckBucket_ReportsWhyNot(t *testing.T) {
	withCredentials(t)
	server := startObjectStore(t, "acme-exports")
	t.Setenv("GCS_ENDPOINT_URL", server.URL)
	wantError(t, CheckBucket(t.Context(), "gcs", "gs://other-exports"), `cannot write to gs://other-exports`, `has no bucket "other-exports"`)

	t.Setenv("GCS_ACCESS_KEY_ID", "another-key")
	wantError(t, CheckBucket(t.Context(), "gcs", "acme-exports"), "check GCS_ACCESS_KEY_ID")

	t.Setenv("GCS_SECRET_ACCESS_KEY", "")
	wantError(t, CheckBucket(t.Context(), "gcs", "acme-exports"), "there are no credentials for Google Cloud Storage: set GCS_ACCESS_KEY_ID and GCS_SECRET_ACCESS_KEY")

	wantError(t, CheckBucket(t.Context(), "azure", "acme-exports"), "is not a strategy")
	wantError(t, CheckBucket(t.Context(), "s3", "Acme"), "is not a bucket name")
}

func FuzzBucketName(f *testing.F) {
	for _, seed := range []string{"my-bucket/path", "s3://my-bucket", "arn:aws:s3:::b", "https://b.s3.amazonaws.com/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, location string) {
		for _, strategy := range Strategies {
			name, err := BucketName(strategy, location)
			if err != nil {
				continue
			}
			if again, err := BucketName(strategy, name); err != nil || again != name {
				t.Fatalf("%q gives %q, which gives %q, %v", location, name, again, err)
			}
		}
	})
}
