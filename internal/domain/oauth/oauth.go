// Package oauth lets applications, such as command-line tools, act for users without seeing a password: the
// OAuth 2.0 device authorization grant (RFC 8628), and the authorization code grant with PKCE (RFC 7636) for
// programs that can open a browser.
//
//   - An [Application] belongs to the whole installation and is identified by its client id. A public
//     application has no secret; a confidential one authenticates with a secret, stored as a hash.
//     EnsureBuiltIn adds the public clients of every installation; others are declared in the organization
//     file (apply.go) or created by administrators (applications.go).
//   - A request waits for approval. A device shows a user code and polls (device.go); a program with a
//     browser redirects the user here and back (authorize.go). Both end on a page that shows the same
//     [Consent].
//   - A grant is the result of an approval: this user lets this application act in this organization with
//     these scopes (grants.go). Approving again creates another grant.
//   - Tokens belong to a grant and end with it (tokens.go). A refresh token is used once; using it again
//     revokes the grant, because one of the two users has stolen it.
//
// Codes and tokens are stored as hashes. The pages are in package web, which authenticates the visitor and
// calls [Service]. Error messages returned to pages are meant for people.
package oauth

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// Service manages applications, grants and tokens.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	public    core.PublicURL
	clock     core.Clock
	userCodes userCodes
}

// New returns a Service on a database, with the directory that caches its tokens.
func New(d *db.DB, directory *identity.Directory, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, directory: directory, public: public, clock: clock, userCodes: newUserCodes(key)}
}

// An Application is a program that can ask users for access.
type Application struct {
	ID       string
	ClientID string
	// OrganizationID is the organization whose administrators manage the application; empty for applications
	// managed by the operator of the installation.
	OrganizationID string
	Name           string // shown on the approval page
	Confidential   bool
	TokenExpiresIn int             // lifetime of access tokens in seconds; 0: no expiry
	RefreshTokens  bool            // issue refresh tokens with access tokens
	Enabled        bool            // can request access, and its tokens work
	Scopes         identity.Scopes // scopes it can request
	RedirectURIs   []string        // allowed redirect URIs; see redirect.go
	CreatedAt      time.Time

	secretHash string // "" of a public application
}

// builtIn names the public clients of every installation by client id: our own command line, and the id that
// existing command lines use.
var builtIn = map[string]string{
	"stackyard-cli":        "Stackyard CLI",
	"5214b230f06b48938ab5": "Command line",
}

// newApplication returns an application with default settings: public, enabled, and allowed to request every
// scope. Built-in applications also get refresh tokens.
func newApplication(clientID string, now time.Time) Application {
	a := Application{
		ID:           core.NewID(),
		ClientID:     clientID,
		Name:         clientID,
		Enabled:      true,
		Scopes:       identity.Scopes{identity.EveryScope},
		RedirectURIs: []string{},
		CreatedAt:    now,
	}
	if name, ok := builtIn[clientID]; ok {
		a.Name, a.RefreshTokens = name, true
	}
	return a
}

// EnsureBuiltIn adds missing built-in applications and leaves existing ones unchanged.
func EnsureBuiltIn(q *db.Q, now time.Time) error {
	for clientID := range builtIn {
		_, err := ByClientID(q, clientID)
		if core.KindOf(err) == core.NotFound {
			err = insertApplication(q, newApplication(clientID, now))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
