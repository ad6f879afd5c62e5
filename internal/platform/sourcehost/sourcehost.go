// Package sourcehost knows the places where source repositories live. It reads the ways in which a
// repository's URL is written, tells which provider stands behind one, and asks a host to send us
// webhooks.
//
// It makes its requests with the HTTP client it is given, so that the installation's rule on which
// addresses may be reached applies, and it keeps nothing.
package sourcehost

import (
	"context"
	"errors"
)

// A Host is a source host that can be asked for things, with the credentials it was made with.
type Host interface {
	// CreateWebhook makes the host send a repository's events to a URL. Its error is, in the sense
	// of errors.Is, one of those below, and reads as a sentence that says what to do.
	CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error
}

// A Webhook says where a host sends events, and the secret with which it signs them.
type Webhook struct {
	URL    string
	Secret string
}

// Why a host did not do what it was asked.
var (
	// ErrExists: the repository has this webhook already.
	ErrExists = errors.New("the webhook already exists on this repository")
	// ErrRefused: the host answered no; somebody has to change something before asking again.
	ErrRefused = errors.New("the source host refused")
	// ErrUnavailable: the host could not be reached or cannot answer now; asking later may help.
	ErrUnavailable = errors.New("the source host cannot be asked")
)
