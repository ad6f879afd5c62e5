package oauth

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A Spec describes an application in the organization file. Fields that are not set keep their value, or get
// the default in a new application.
type Spec struct {
	Line           int             `yaml:"-"`
	ID             string          `yaml:"id"`
	Name           *string         `yaml:"name"`
	ClientID       string          `yaml:"client_id"`
	ClientSecret   string          `yaml:"client_secret"`
	Confidential   *bool           `yaml:"confidential"`
	TokenExpiresIn *int            `yaml:"token_expires_in"` // 0: no expiry
	RefreshTokens  *bool           `yaml:"refresh_tokens"`
	Enabled        *bool           `yaml:"enabled"`
	Scopes         identity.Scopes `yaml:"scopes"`        // nil: unchanged
	RedirectURIs   []string        `yaml:"redirect_uris"` // nil: unchanged
}

// secretPrefix starts generated secrets.
const secretPrefix = "svcos_"

// maxName is the maximum length of a name and of a client id, in characters.
const maxName = 255

// validClientID matches ids that are safe in forms, headers and lines of text.
var validClientID = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,255}$`)

// Check reports errors in the spec itself.
func (s Spec) Check(c *core.Complaints) {
	if !validClientID.MatchString(s.ClientID) {
		c.Add(s.Line, "%q cannot be a client_id: it takes letters, digits and . _ ~ -", s.ClientID)
	}
	c.CheckID(s.Line, s.ID)
	if s.Name != nil && (strings.TrimSpace(*s.Name) == "" || utf8.RuneCountInString(*s.Name) > maxName) {
		c.Add(s.Line, "a name must have 1 to %d characters", maxName)
	}
	if s.TokenExpiresIn != nil && (*s.TokenExpiresIn < 0 || *s.TokenExpiresIn > maxTokenLife) {
		c.Add(s.Line, "token_expires_in must not be negative, nor above %d; 0 is no expiry", maxTokenLife)
	}
	if len(s.RedirectURIs) > maxRedirectURIs {
		c.Add(s.Line, "redirect_uris must be at most %d", maxRedirectURIs)
	}
	for _, uri := range s.RedirectURIs {
		if !validRedirectURI(uri) {
			c.Add(s.Line, "redirect_uris has %q, %s", uri, redirectURIRule)
		}
	}
	if unknown := s.Scopes.Unknown(); unknown != "" {
		c.Add(s.Line, "unknown scopes: %s", unknown)
	}
}

// CheckAll reports errors in the specs of a whole file. Several organizations can declare one application, but
// their specs must agree, because otherwise the last one would win on every apply.
func CheckAll(c *core.Complaints, specs []Spec) {
	first := make(map[string]Spec)
	for _, s := range specs {
		s.Check(c)
		before, twice := first[s.ClientID]
		if !twice {
			first[s.ClientID] = s
			continue
		}
		same := s
		same.Line = before.Line
		if !reflect.DeepEqual(same, before) {
			c.Add(s.Line, "the application %s is declared differently at line %d", s.ClientID, before.Line)
		}
	}
}

// Apply creates and updates applications to match their specs. A confidential application without a given
// secret gets a generated one, which is printed once.
func Apply(in identity.Applying, specs []Spec) error {
	for _, spec := range specs {
		if err := apply(in, spec); err != nil {
			return err
		}
	}
	return nil
}

func apply(in identity.Applying, spec Spec) error {
	known, err := ByClientID(in.Q, spec.ClientID)
	isNew := core.KindOf(err) == core.NotFound
	if isNew {
		known, err = newApplication(spec.ClientID, in.Now), nil
	}
	if err != nil {
		return err
	}
	wanted := known
	if ok, err := spec.identify(in, &wanted, isNew); !ok || err != nil {
		return err
	}
	spec.to(&wanted)
	if _, ours := builtIn[spec.ClientID]; !ours && wanted.OrganizationID == "" && in.Org != nil {
		wanted.OrganizationID = in.Org.ID
	}
	if !wanted.Confidential && spec.ClientSecret != "" {
		in.Complaints.Add(spec.Line, "the application %s has a client_secret, so it must be confidential", spec.ClientID)
		return nil
	}
	var generated string
	if wanted.Confidential && wanted.secretHash == "" {
		generated = seal.NewToken(secretPrefix)
		wanted.secretHash = seal.HashToken(generated)
	}
	switch {
	case isNew:
		in.Changes.Created("oauth_application", wanted.ClientID)
		err = insertApplication(in.Q, wanted)
	case !reflect.DeepEqual(wanted, known):
		in.Changes.Changed("oauth_application", wanted.ClientID)
		err = updateApplication(in.Q, wanted)
	}
	if generated != "" {
		in.Changes.Token("oauth_application", wanted.ClientID, generated)
	}
	return err
}

// identify sets the id of a new application from the spec. ok is false, with the problem reported, when the id
// is taken or the application has another one.
func (s Spec) identify(in identity.Applying, a *Application, isNew bool) (ok bool, err error) {
	id, given := core.ParseID(s.ID)
	switch {
	case !given || id == a.ID:
		return true, nil
	case !isNew:
		in.Complaints.Add(s.Line, "the application %s exists with the id %s, which cannot be changed", a.ClientID, a.ID)
		return false, nil
	}
	taken, err := idTaken(in.Q, id)
	if taken {
		in.Complaints.Add(s.Line, "the id %s belongs to another application", id)
	}
	a.ID = id
	return !taken, err
}

// to copies the spec's fields to an application.
func (s Spec) to(a *Application) {
	core.SetGiven(&a.Name, s.Name)
	core.SetGiven(&a.Confidential, s.Confidential)
	core.SetGiven(&a.TokenExpiresIn, s.TokenExpiresIn)
	core.SetGiven(&a.RefreshTokens, s.RefreshTokens)
	core.SetGiven(&a.Enabled, s.Enabled)
	if s.Scopes != nil && !slices.Equal(slices.Sorted(slices.Values(s.Scopes)), slices.Sorted(slices.Values(a.Scopes))) {
		a.Scopes = s.Scopes
	}
	if s.RedirectURIs != nil {
		a.RedirectURIs = s.RedirectURIs
	}
	switch {
	case !a.Confidential:
		a.secretHash = ""
	case s.ClientSecret != "":
		a.secretHash = seal.HashToken(s.ClientSecret)
	}
}
