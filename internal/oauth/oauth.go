// Package oauth keeps the applications that may ask users for access, such as command-line tools.
//
// An application belongs to the whole installation and is known by its client id. A public one runs
// where its user could read any secret, so it has none; a confidential one proves who it is with a
// secret, of which the hash is stored. Every installation has the public clients of EnsureBuiltIn;
// others are declared in the organization file (apply.go).
package oauth

import (
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// An Application is a program that may ask users for access.
type Application struct {
	ID             string
	ClientID       string
	SecretHash     string // "" of a public application
	Name           string // what users see when they are asked
	Confidential   bool
	TokenExpiresIn int             // seconds that its access tokens live; 0: they do not expire
	RefreshTokens  bool            // it gets refresh tokens beside access tokens
	Enabled        bool            // users can be asked
	Scopes         identity.Scopes // what it may ask for
	CreatedAt      time.Time
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
		ID:        core.NewID(),
		ClientID:  clientID,
		Name:      clientID,
		Enabled:   true,
		Scopes:    identity.Scopes{identity.EveryScope},
		CreatedAt: now,
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
