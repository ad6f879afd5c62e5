// Package sourcehost works with source hosts: it parses repository URLs, determines the provider of one, and
// creates webhooks at a host.
//
// It uses the HTTP client that it is given, so that the installation's rules for allowed addresses apply, and
// stores nothing.
package sourcehost

import (
	"context"
	"errors"
)

// A Host is the API of a source host, with the credentials to use it.
type Host interface {
	// CreateWebhook makes the host send a repository's events to a URL. Its error wraps one of those below, and
	// is a message that says what to do.
	CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error
}

// A Webhook is the URL that a host sends events to, and the secret that it signs them with.
type Webhook struct {
	URL    string
	Secret string
}

// The reasons of failures.
var (
	// ErrExists: the repository has this webhook already.
	ErrExists = errors.New("the webhook already exists on this repository")
	// ErrRefused: the host refused; something must be changed before a retry.
	ErrRefused = errors.New("the source host refused")
	// ErrUnavailable: the host could not be reached or cannot answer now; a later retry may succeed.
	ErrUnavailable = errors.New("the source host is unavailable")
)
