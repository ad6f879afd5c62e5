package artifact

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

// A bucket is an object store of the agent's own, which artifacts are uploaded to instead of the server.
type bucket struct {
	client       *minio.Client
	name, prefix string
	address      string // URL of the prefix
}

// openBucket opens the bucket of a destination such as s3://bucket/folder. Variables have the region, the endpoint and
// the credentials, with the names that AWS and the published agent use; without credentials the machine's role is used.
func openBucket(destination string, env environ.Environment) (*bucket, error) {
	to, err := url.Parse(destination)
	if err != nil || to.Scheme != "s3" || to.Host == "" || to.RawQuery != "" || to.User != nil {
		return nil, fmt.Errorf("the upload destination %q is not a bucket such as s3://bucket/folder", destination)
	}
	region := cmp.Or(env.Service("S3_DEFAULT_REGION"), env["AWS_REGION"], env["AWS_DEFAULT_REGION"], "us-east-1")
	endpoint, err := url.Parse(cmp.Or(env.Service("S3_ENDPOINT"), env["AWS_ENDPOINT_URL_S3"], env["AWS_ENDPOINT_URL"], "https://s3."+region+".amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, fmt.Errorf("the endpoint of the bucket %s is not a URL", to.Host)
	}
	var chain []credentials.Provider
	for _, prefix := range []string{"SERVICE_S3_", "BUILDKITE_S3_", "AWS_"} {
		if id, secret := env[prefix+"ACCESS_KEY_ID"], env[prefix+"SECRET_ACCESS_KEY"]; id != "" && secret != "" {
			chain = append(chain, &credentials.Static{Value: credentials.Value{AccessKeyID: id, SecretAccessKey: secret, SessionToken: env[prefix+"SESSION_TOKEN"], SignerType: credentials.SignatureV4}})
		}
	}
	chain = append(chain, &credentials.FileAWSCredentials{}, &credentials.IAM{})
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewChainCredentials(chain), Secure: endpoint.Scheme == "https", Region: region})
	if err != nil {
		return nil, err
	}
	b := &bucket{client: client, name: to.Host, prefix: strings.Trim(to.Path, "/")}
	base := cmp.Or(env.Service("S3_ACCESS_URL"), endpoint.Scheme+"://"+endpoint.Host+"/"+b.name)
	b.address = strings.TrimRight(base, "/")
	return b, nil
}

// key returns the name of the object of a file.
func (b *bucket) key(file string) string { return path.Join(b.prefix, path.Clean("/" + file)[1:]) }

// url returns the URL of a file, which the server shows.
func (b *bucket) url(file string) string {
	return b.address + "/" + (&url.URL{Path: b.key(file)}).EscapedPath()
}

// put uploads a file.
func (b *bucket) put(ctx context.Context, file api.Artifact) error {
	_, err := b.client.FPutObject(ctx, b.name, b.key(file.Path), file.AbsolutePath, minio.PutObjectOptions{ContentType: file.ContentType})
	if err != nil {
		return fmt.Errorf("upload %s to the bucket %s: %w", file.Path, b.name, err)
	}
	return nil
}

// get downloads a file.
func (b *bucket) get(ctx context.Context, file string, receive func(io.Reader) error) error {
	object, err := b.client.GetObject(ctx, b.name, b.key(file), minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	if err := receive(object); err != nil {
		return fmt.Errorf("download %s from the bucket %s: %w", file, b.name, err)
	}
	return nil
}
