// Package eventbus puts events on Amazon EventBridge, through the AWS SDK.
//
// Credentials and endpoint belong to the installation. Region and account are those of a notification service: events
// go to the default event bus of that account, whose policy must let the installation put events there.
package eventbus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config is how an installation reaches EventBridge.
type Config struct {
	// Endpoint replaces the public endpoint of every region; empty: it does not.
	Endpoint string
	// AccessKeyID and SecretAccessKey are the credentials. When they are empty, those of the environment are used: the
	// AWS_… variables, the shared credentials file, or the role of the machine or container.
	AccessKeyID, SecretAccessKey string
}

// A Client puts events on event buses.
type Client struct {
	endpoint    *string
	credentials aws.CredentialsProvider
}

// New returns a client.
func New(c Config) *Client {
	client := &Client{credentials: aws.NewCredentialsCache(fromEnvironment())}
	if c.Endpoint != "" {
		client.endpoint = aws.String(c.Endpoint)
	}
	if c.AccessKeyID != "" {
		client.credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey}, nil
		})
	}
	return client
}

// fromEnvironment finds credentials where AWS clients look for them.
func fromEnvironment() aws.CredentialsProvider {
	found := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{},
	})
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		v, err := found.GetWithContext(&credentials.CredContext{Client: &http.Client{Timeout: 5 * time.Second}})
		if err == nil && v.AccessKeyID == "" {
			err = errors.New("the server has no AWS credentials")
		}
		return aws.Credentials{
			AccessKeyID: v.AccessKeyID, SecretAccessKey: v.SecretAccessKey, SessionToken: v.SessionToken,
			CanExpire: !v.Expiration.IsZero(), Expires: v.Expiration,
		}, err
	})
}

// A Bus is the default event bus of an account in a region.
type Bus struct{ Region, AccountID string }

// ARN returns the name of the bus for AWS.
func (b Bus) ARN() string {
	partition := "aws"
	switch {
	case strings.HasPrefix(b.Region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(b.Region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return fmt.Sprintf("arn:%s:events:%s:%s:event-bus/default", partition, b.Region, b.AccountID)
}

// Source is the source of all events.
const Source = "stackyard"

// MaxDetail is the size of the longest detail, in bytes. AWS takes 256 KiB for an entry with its other fields.
const MaxDetail = 256<<10 - 1024

// An Entry is an event.
type Entry struct {
	DetailType string
	Detail     string // a JSON object
	Time       time.Time
}

// An Error is an event that AWS did not take.
type Error struct {
	Status int    // of the response; 0: there is none
	Code   string // of AWS; empty: none
	// Retry says that a later attempt may succeed.
	Retry bool
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Put puts an event on a bus, once. Its error is an *Error.
func (c *Client) Put(ctx context.Context, bus Bus, e Entry) error {
	client := eventbridge.New(eventbridge.Options{
		Region:       bus.Region,
		BaseEndpoint: c.endpoint,
		Credentials:  c.credentials,
		HTTPClient:   httpClient,
		Retryer:      aws.NopRetryer{},
	})
	out, err := client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{{
		EventBusName: aws.String(bus.ARN()),
		Source:       aws.String(Source),
		DetailType:   aws.String(e.DetailType),
		Detail:       aws.String(e.Detail),
		Time:         aws.Time(e.Time),
	}}})
	if err != nil {
		return explain(err)
	}
	if out.FailedEntryCount > 0 && len(out.Entries) > 0 {
		code := aws.ToString(out.Entries[0].ErrorCode)
		return &Error{Status: http.StatusOK, Code: code, Retry: retried[code], Err: fmt.Errorf("%s: %s", code, aws.ToString(out.Entries[0].ErrorMessage))}
	}
	return nil
}

// httpClient follows no redirects. Neither a region nor an account can lead it elsewhere than to AWS or the endpoint
// of the installation.
var httpClient = &http.Client{
	Timeout:       10 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// retried are the codes of errors that pass, although some of them come with a status that says otherwise.
var retried = map[string]bool{
	"ExpiredTokenException":       true,
	"InternalException":           true,
	"InternalFailure":             true,
	"RequestLimitExceeded":        true,
	"ServiceUnavailable":          true,
	"ServiceUnavailableException": true,
	"ThrottlingException":         true,
}

// explain returns what an error of the SDK means.
func explain(err error) *Error {
	e := &Error{Err: err, Retry: true}
	if unsent, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		e.Err = unsent.Err
		return e
	}
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		e.Status = response.HTTPStatusCode()
		e.Retry = e.Status >= 500 || e.Status == http.StatusTooManyRequests
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		e.Code = api.ErrorCode()
		e.Retry = e.Retry || retried[e.Code]
		e.Err = fmt.Errorf("%s: %s", e.Code, api.ErrorMessage())
	}
	return e
}
