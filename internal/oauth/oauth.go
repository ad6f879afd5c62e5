// Package oauth lets applications, such as command-line tools, act for users without ever seeing a
// password: the OAuth 2.0 device authorization grant (RFC 8628), and the authorization code grant with
// PKCE (RFC 7636) for programs that can open a browser.
//
// Four ideas hold it together.
//
//   - An [Application] belongs to the whole installation and is known by its client id. A public one runs
//     where its user could read any secret, so it has none; a confidential one proves who it is with a
//     secret, of which the hash is stored. Every installation has the public clients of EnsureBuiltIn;
//     others are declared in the organization file (apply.go) or made by administrators
//     (applications.go).
//   - A request waits for a person. A device shows a user code and polls (device.go); a program with a
//     browser sends the person here and gets them back (authorize.go). Both end on a page that shows the
//     same [Consent].
//   - A grant is what an approval makes: this user lets this application act in this organization, with
//     these scopes (grants.go). Approving again makes another grant.
//   - Tokens come of a grant and end with it (tokens.go). Refresh tokens are used once each; using one
//     again ends the grant, because one of its two users has stolen it.
//
// Codes and tokens are stored as hashes. The pages themselves are in package web: they find out who is
// there and call the methods of [Service]. What they pass on of errors are sentences for people.
package oauth

import (
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/seal"
)

// Service is what can be done with applications and in their name.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	public    core.PublicURL
	clock     core.Clock
	userCodes userCodes
}

// New returns the service on a database and the directory that remembers the tokens in it.
func New(d *db.DB, directory *identity.Directory, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, directory: directory, public: public, clock: clock, userCodes: newUserCodes(key)}
}

// An Application is a program that may ask users for access.
type Application struct {
	ID       string
	ClientID string
	// OrganizationID is the organization whose administrators look after it; "" where that is up to
	// whoever runs the installation.
	OrganizationID string
	Name           string // what users see when they are asked
	Confidential   bool
	TokenExpiresIn int             // seconds that its access tokens live; 0: they do not expire
	RefreshTokens  bool            // it gets refresh tokens beside access tokens
	Enabled        bool            // users can be asked, and its tokens work
	Scopes         identity.Scopes // what it may ask for
	RedirectURIs   []string        // where browsers may be sent back to; see redirect.go
	CreatedAt      time.Time

	secretHash string // "" of a public application
}

// builtIn names, by client id, the public clients of every installation: our own command line, and the
// one that existing command lines say they are.
var builtIn = map[string]string{
	"stackyard-cli":        "Stackyard CLI",
	"5214b230f06b48938ab5": "Command line",
}

// newApplication returns an application as it is when nothing is said about it: public, enabled, and
// free to ask for every scope. The built-in ones keep their users signed in with refresh tokens.
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

// EnsureBuiltIn adds the built-in applications that are missing, and leaves those that are there.
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
