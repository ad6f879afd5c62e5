// Package sourcehost knows the hosts of repositories: it recognizes their URLs, and calls their APIs to create
// webhooks, to set commit statuses and to list repositories.
//
// Each kind of host is a file with its request shapes ([New]); requests, errors and rate limits are the same for all
// (api.go). The package uses the HTTP client that it is given, so that the installation's rules for allowed addresses
// apply, and stores nothing.
package sourcehost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Host is the API of a source host, with the credentials to use it. Errors wrap one of those below, and are
// messages that say what to do.
type Host interface {
	// CreateWebhook makes the host send a repository's events to a URL.
	CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error
	// SetStatus shows a status at a commit of a repository. It replaces the one with the same context.
	SetStatus(ctx context.Context, repo Repository, status Status) error
	// ListRepositories returns repositories that the credentials can see, the last used ones first where the host can
	// say so. A search is a part of their names; hosts that cannot search return the first thousand.
	ListRepositories(ctx context.Context, search string) (Listing, error)
	// Check returns an error if the host cannot be reached or does not accept the credentials.
	Check(ctx context.Context) error
}

// A Webhook is the URL that a host sends events to, and the secret that it signs them with.
type Webhook struct {
	URL    string
	Secret string
}

// A Status is what a host shows at a commit.
type Status struct {
	Commit      string
	Context     string // identifies the status at its commit
	State       State
	Description string
	URL         string // where people find more
}

// A State is the state of a commit. Hosts that do not have one show the nearest.
type State string

// The states.
const (
	StatePending  State = "pending"
	StateRunning  State = "running"
	StateBlocked  State = "blocked" // it waits for a person
	StatePassed   State = "passed"
	StateFailed   State = "failed"
	StateCanceled State = "canceled"
)

// The reasons of failures.
var (
	// ErrExists: the repository has this webhook already.
	ErrExists = errors.New("the webhook already exists on this repository")
	// ErrRefused: the host refused; something must be changed before a retry.
	ErrRefused = errors.New("the source host refused")
	// ErrUnavailable: the host could not be reached or cannot answer now; a later retry may succeed.
	ErrUnavailable = errors.New("the source host is unavailable")
)

// A waitError is ErrUnavailable with the time that the host asks to wait.
type waitError struct {
	text string
	wait time.Duration
}

func (e *waitError) Error() string { return e.text }
func (e *waitError) Unwrap() error { return ErrUnavailable }

// WaitOf returns how long a host asks to wait before a retry; 0: it does not say.
func WaitOf(err error) time.Duration {
	if e, ok := errors.AsType[*waitError](err); ok {
		return e.wait
	}
	return 0
}

// Credentials are what a host's API accepts.
type Credentials struct {
	Token string
	// Installation is set when Token belongs to an installation of a GitHub App and not to a person.
	Installation bool
}

// New returns the host of a provider whose REST API is at apiURL.
func New(provider, apiURL string, credentials Credentials, client *http.Client) (Host, error) {
	switch provider {
	case ProviderGitHub, ProviderGitHubEnterprise:
		g := NewGitHub(apiURL, credentials.Token, client)
		g.installation = credentials.Installation
		return g, nil
	case ProviderGitLab, ProviderGitLabEE:
		return newGitLab(apiURL, credentials.Token, client), nil
	case ProviderBitbucket:
		return newBitbucket(apiURL, credentials.Token, client), nil
	case ProviderBitbucketServer:
		return newBitbucketServer(apiURL, credentials.Token, client), nil
	case ProviderGitea:
		return newGitea(apiURL, credentials.Token, client), nil
	}
	return nil, fmt.Errorf("%w: %q is not a known kind of source host", ErrRefused, provider)
}

// APIURL returns the usual URL of the REST API of a provider on a host.
func APIURL(provider, host string) string {
	switch provider {
	case ProviderGitLab, ProviderGitLabEE:
		return "https://" + host + "/api/v4"
	case ProviderBitbucket:
		return "https://api." + host + "/2.0"
	case ProviderBitbucketServer:
		return "https://" + host + "/rest/api/1.0"
	case ProviderGitea:
		return "https://" + host + "/api/v1"
	}
	return GitHubAPI(host)
}

// Providers lists the providers that New knows.
var Providers = []string{ProviderGitHub, ProviderGitHubEnterprise, ProviderGitLab, ProviderGitLabEE, ProviderBitbucket, ProviderBitbucketServer, ProviderGitea}
