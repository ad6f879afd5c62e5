package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket keeps each object in an object store.
type bucket struct {
	place
	client    *minio.Client
	transport *http.Transport
}

func openBucket(p place) (*bucket, error) {
	secure := p.endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("cannot use the system's certificates: %w", err)
	}
	lookup := minio.BucketLookupAuto
	if p.ownEndpoint {
		lookup = minio.BucketLookupPath // few of them have a name for every bucket
	}
	client, err := minio.New(p.endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(p.keyID, p.secret, p.sessionToken),
		Secure:       secure,
		Region:       p.region,
		BucketLookup: lookup,
		Transport:    transport,
		MaxRetries:   2,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use the endpoint %s: %w", p.endpoint, err)
	}
	return &bucket{place: p, client: client, transport: transport}, nil
}

// String names the bucket as its own service does.
func (p place) String() string {
	return fmt.Sprintf("%s://%s", p.service.scheme, path.Join(p.bucket, p.prefix))
}

// put sends an MD5 along because buckets with object lock insist on it.
func (b *bucket) put(ctx context.Context, key string, content []byte) error {
	_, err := b.client.PutObject(ctx, b.bucket, path.Join(b.prefix, key), bytes.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{SendContentMd5: true})
	return b.explain(err)
}

func (b *bucket) get(ctx context.Context, key string) ([]byte, error) {
	object, err := b.client.GetObject(ctx, b.bucket, path.Join(b.prefix, key), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err)
	}
	defer object.Close()
	content, err := io.ReadAll(object)
	return content, b.explain(err)
}

func (b *bucket) remove(ctx context.Context, key string) error {
	err := b.client.RemoveObject(ctx, b.bucket, path.Join(b.prefix, key), minio.RemoveObjectOptions{})
	return b.explain(err)
}

// explain turns what the object store or the network said into what a person can do about it.
func (p place) explain(err error) error {
	if err == nil {
		return nil
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return p.explainResponse(response)
	}
	if requestErr, ok := errors.AsType[*url.Error](err); ok {
		err = requestErr.Err // without the URL of the request, which tells a person nothing
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer in time; check the endpoint and the network: %w", p.endpoint, err)
	}
	return fmt.Errorf("cannot reach %s: %w", p.endpoint, err)
}

func (p place) explainResponse(r minio.ErrorResponse) error {
	switch r.Code {
	case minio.NoSuchBucket:
		return fmt.Errorf("%s has no bucket %q; create it, or correct its name", p.endpoint, p.bucket)
	case "InvalidAccessKeyId":
		return fmt.Errorf("%s does not know the access key; check %s", p.endpoint, p.service.keyID)
	case "SignatureDoesNotMatch":
		return fmt.Errorf("%s says that the secret does not belong to the access key; check %s", p.endpoint, p.service.secret)
	case "ExpiredToken", "InvalidToken":
		return fmt.Errorf("%s says that the session has expired; renew %s, %s and %s", p.endpoint, p.service.keyID, p.service.secret, p.service.sessionToken)
	case "RequestTimeTooSkewed":
		return fmt.Errorf("%s says that this machine's clock is wrong; set it", p.endpoint)
	case "PermanentRedirect", "AuthorizationHeaderMalformed", minio.InvalidRegion:
		return fmt.Errorf("the bucket is not in the region %q; correct the region", p.region)
	}
	if r.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%s denies access (%s); allow these credentials to put, get and delete objects in the bucket", p.endpoint, r.Code)
	}
	return fmt.Errorf("%s answered %d %s: %s", p.endpoint, r.StatusCode, r.Code, r.Message)
}
