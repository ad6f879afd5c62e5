package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket stores objects in an object store.
type bucket struct {
	place
	client    *minio.Client
	transport *http.Transport
	uploads   chan struct{} // holds a token for each multipart upload that runs
}

func openBucket(p place) (*bucket, error) {
	secure := p.endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("cannot use the system's certificates: %w", err)
	}
	lookup := minio.BucketLookupAuto
	if p.ownEndpoint {
		lookup = minio.BucketLookupPath // few of them have a host name for every bucket
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
	return &bucket{place: p, client: client, transport: transport, uploads: make(chan struct{}, uploadsAtOnce)}, nil
}

// String names the bucket as its service does.
func (p place) String() string {
	return fmt.Sprintf("%s://%s", p.service.scheme, path.Join(p.bucket, p.prefix))
}

func (b *bucket) name(key string) string { return path.Join(b.prefix, key) }

func (b *bucket) core() minio.Core { return minio.Core{Client: b.client} }

func (b *bucket) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if offset > 0 || length > 0 {
		last := int64(0) // the end of the object
		if length > 0 {
			last = offset + length - 1
		}
		if err := options.SetRange(offset, last); err != nil {
			return nil, err
		}
	}
	content, _, _, err := b.core().GetObject(ctx, b.bucket, b.name(key), options)
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok && r.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return http.NoBody, nil
	}
	if err != nil {
		return nil, b.explain(err)
	}
	return explained{content, b.place}, nil
}

// explained is a content whose errors say what to do.
type explained struct {
	io.ReadCloser
	place place
}

func (e explained) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = e.place.explain(err)
	}
	return n, err
}

func (b *bucket) size(ctx context.Context, key string) (int64, error) {
	object, err := b.client.StatObject(ctx, b.bucket, b.name(key), minio.StatObjectOptions{})
	return object.Size, b.explain(err)
}

func (b *bucket) remove(ctx context.Context, key string) error {
	err := b.client.RemoveObject(ctx, b.bucket, b.name(key), minio.RemoveObjectOptions{})
	return b.explain(err)
}

func (b *bucket) removeAll(ctx context.Context, prefix string) error {
	var listing error
	names := func(yield func(string) bool) {
		listing = b.each(ctx, prefix, func(object minio.ObjectInfo) bool { return yield(object.Key) })
	}
	return errors.Join(b.removeNames(ctx, names), listing)
}

// removeNames deletes objects, as many per request as the store allows.
func (b *bucket) removeNames(ctx context.Context, names iter.Seq[string]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan minio.ObjectInfo)
	var feeding sync.WaitGroup
	feeding.Go(func() {
		defer close(queue)
		for name := range names {
			select {
			case queue <- minio.ObjectInfo{Key: name}:
			case <-ctx.Done():
				return
			}
		}
	})
	var first error
	for failed := range b.client.RemoveObjects(ctx, b.bucket, queue, minio.RemoveObjectsOptions{}) {
		if first == nil {
			first = b.explain(failed.Err)
			cancel()
		}
	}
	feeding.Wait()
	return cmp.Or(first, ctx.Err())
}

func (b *bucket) list(ctx context.Context, prefix string, yield func(Object) bool) error {
	return b.each(ctx, prefix, func(object minio.ObjectInfo) bool {
		key := object.Key
		if b.prefix != "" {
			key = strings.TrimPrefix(key, b.prefix+"/")
		}
		return yield(Object{Key: key, Size: object.Size, Modified: object.LastModified.UTC()})
	})
}

// each yields the objects below a prefix, in the order of their names.
func (b *bucket) each(ctx context.Context, prefix string, yield func(minio.ObjectInfo) bool) error {
	options := minio.ListObjectsOptions{Recursive: true}
	if below := b.name(prefix); below != "" {
		options.Prefix = below + "/"
	}
	for object := range b.client.ListObjectsIter(ctx, b.bucket, options) {
		if object.Err != nil {
			return b.explain(object.Err)
		}
		if !yield(object) {
			return nil
		}
	}
	return ctx.Err()
}

// explain converts an error of the object store or the network into one that says what to do.
func (p place) explain(err error) error {
	if err == nil {
		return nil
	}
	if given, ok := errors.AsType[*contentError](err); ok {
		return given
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return p.explainResponse(response)
	}
	if requestErr, ok := errors.AsType[*url.Error](err); ok {
		err = requestErr.Err // without the URL of the request, which does not help a person
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer in time; check the endpoint and the network: %w", p.endpoint, err)
	}
	return fmt.Errorf("cannot reach %s: %w", p.endpoint, err)
}

func (p place) explainResponse(r minio.ErrorResponse) error {
	switch r.Code {
	case minio.NoSuchKey:
		return ErrNotFound
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
