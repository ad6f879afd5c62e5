// Package connections keeps how organizations reach their source hosts: GitHub, GitLab, Bitbucket and Gitea.
//
// An organization has at most one connection to a host name, with a token or with a GitHub App. The server uses it to
// create webhooks, to set commit statuses, to look up commits ([Service.TokenFor], [Service.HostFor]) and to list
// repositories for people who create pipelines (repositories.go); jobs clone
// with its clone token, or with a token of the app that can only read their repository ([Service.CloneToken]).
//
// Tokens and keys are encrypted at rest. Tokens of apps expire after an hour; one replica creates the next one for all,
// under a lease (tokens.go). The package does not know what its callers do with a token.
package connections

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/sourcehost"
)

// A Connection is how an organization reaches a source host.
type Connection struct {
	ID             string
	OrganizationID string
	Host           string // as in repository URLs: github.com
	Provider       string
	APIURL         string
	AppID          string // of a GitHub App; empty: the connection has a token
	InstallationID string
	CreatedAt      time.Time
	UpdatedAt      time.Time

	sealedToken      string // empty: it has an app
	sealedCloneToken string // empty: none
	sealedPrivateKey string // of the app
}

// Contexts bind encrypted values to their row.
func (c *Connection) tokenContext() string      { return "source_connection:" + c.ID }
func (c *Connection) cloneTokenContext() string { return "source_connection_clone:" + c.ID }
func (c *Connection) privateKeyContext() string { return "source_connection_key:" + c.ID }

// StatusConsumer is the consumer of events that shows builds at their commits. A connection has the events of builds
// written for it; a pipeline or a step that asks for statuses of its jobs, those of jobs.
const StatusConsumer = "commit-statuses"

// The events of builds and jobs that change commit statuses.
var (
	BuildStatusEvents = events.NamesOf(events.BuildScheduled, events.BuildRunning, events.BuildFailing, events.BuildFinished, events.BuildSkipped)
	JobStatusEvents   = events.NamesOf(events.JobScheduled, events.JobStarted, events.JobFinished)
)

// maxConnections bounds the connections of an organization.
const maxConnections = 100

// Sizes of values, in bytes.
const (
	maxToken = 4 << 10
	maxKey   = 16 << 10
	maxURL   = 2 << 10
	maxID    = 100
)

// Service manages connections and creates tokens.
type Service struct {
	db     *db.DB
	key    seal.Key
	public core.PublicURL
	clock  core.Clock
	client *http.Client

	listings listings
}

// New returns a Service. key encrypts credentials; client calls source hosts.
func New(d *db.DB, key seal.Key, public core.PublicURL, clock core.Clock, client *http.Client) *Service {
	return &Service{db: d, key: key, public: public, clock: clock, client: client, listings: newListings()}
}

// A change is what a request or an organization file sets. nil: it stays as it is.
type change struct {
	provider, apiURL                  *string
	token, cloneToken                 *string
	appID, installationID, privateKey *string
}

// newConnection returns a connection to a host with defaults derived from its name. Hosts with unknown names are GitHub
// Enterprise servers unless the provider says otherwise.
func newConnection(organizationID, host string, now time.Time) *Connection {
	provider := sourcehost.ProviderOf("https://" + host + "/owner/name")
	if provider == sourcehost.ProviderGit {
		provider = sourcehost.ProviderGitHubEnterprise
	}
	return &Connection{
		ID: core.NewID(), OrganizationID: organizationID, Host: host,
		Provider: provider, APIURL: sourcehost.APIURL(provider, host), CreatedAt: now, UpdatedAt: now,
	}
}

// apply writes a checked change into the connection. A token replaces an app, and the reverse.
func (c *Connection) apply(ch change, key seal.Key) error {
	if ch.provider != nil && *ch.provider != c.Provider {
		if c.APIURL == sourcehost.APIURL(c.Provider, c.Host) {
			c.APIURL = sourcehost.APIURL(*ch.provider, c.Host)
		}
		c.Provider = *ch.provider
	}
	set(&c.APIURL, ch.apiURL)
	set(&c.AppID, ch.appID)
	set(&c.InstallationID, ch.installationID)
	if filled(ch.token) {
		c.AppID, c.InstallationID, c.sealedPrivateKey = "", "", ""
	} else if filled(ch.privateKey) || filled(ch.appID) {
		c.sealedToken = ""
	}
	for _, v := range []struct {
		sealed  *string
		given   *string
		context string
	}{
		{&c.sealedToken, ch.token, c.tokenContext()},
		{&c.sealedCloneToken, ch.cloneToken, c.cloneTokenContext()},
		{&c.sealedPrivateKey, ch.privateKey, c.privateKeyContext()},
	} {
		if err := sealNew(v.sealed, v.given, key, v.context); err != nil {
			return fmt.Errorf("seal a value of source connection %s: %w", c.ID, err)
		}
	}
	return nil
}

func set(dst, value *string) {
	if value != nil {
		*dst = *value
	}
}

func filled(value *string) bool { return value != nil && *value != "" }

// sealNew encrypts a given value; an empty one removes it.
func sealNew(sealed, given *string, key seal.Key, context string) (err error) {
	switch {
	case given == nil:
		return nil
	case *given == "":
		*sealed = ""
		return nil
	}
	*sealed, err = key.Reseal(*sealed, *given, context)
	return err
}

// A report adds what is wrong with a field.
type report func(field, format string, args ...any)

// check reports errors in a change that can be found without the connection.
func (ch change) check(wrong report) {
	if ch.provider != nil && !slices.Contains(sourcehost.Providers, *ch.provider) {
		wrong("provider", "must be one of %s, not %q", strings.Join(sourcehost.Providers, ", "), *ch.provider)
	}
	if ch.apiURL != nil && !isAPIURL(*ch.apiURL) {
		wrong("api_url", "must be a URL without credentials, such as %s", sourcehost.GitHubAPI("github.com"))
	}
	for _, v := range []struct {
		field string
		value *string
		most  int
	}{{"token", ch.token, maxToken}, {"clone_token", ch.cloneToken, maxToken}, {"app_id", ch.appID, maxID}, {"installation_id", ch.installationID, maxID}} {
		if v.value != nil && (len(*v.value) > v.most || strings.ContainsFunc(*v.value, notTokenRune)) {
			wrong(v.field, "must have at most %d visible ASCII characters", v.most)
		}
	}
	if filled(ch.privateKey) {
		if len(*ch.privateKey) > maxKey {
			wrong("private_key", "must have at most %d bytes", maxKey)
		} else if _, err := sourcehost.ParseAppKey(*ch.privateKey); err != nil {
			wrong("private_key", "%s", err)
		}
	}
	if filled(ch.token) && (filled(ch.appID) || filled(ch.privateKey)) {
		wrong("token", "cannot be combined with a GitHub App")
	}
}

func notTokenRune(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }

func isAPIURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && len(text) <= maxURL
}

// checkComplete reports what a connection lacks.
func (c *Connection) checkComplete(wrong report) {
	app := c.AppID != "" || c.InstallationID != "" || c.sealedPrivateKey != ""
	github := c.Provider == sourcehost.ProviderGitHub || c.Provider == sourcehost.ProviderGitHubEnterprise
	switch {
	case app && !github:
		wrong("app_id", "is for GitHub only; give a token")
	case app && c.sealedToken == "":
		for _, part := range []struct{ field, value string }{{"app_id", c.AppID}, {"installation_id", c.InstallationID}, {"private_key", c.sealedPrivateKey}} {
			if part.value == "" {
				wrong(part.field, "is required with a GitHub App")
			}
		}
	case c.sealedToken == "":
		wrong("token", "is required; or give app_id, installation_id and private_key of a GitHub App")
	}
}

// checkHost reports whether a host name is written as in repository URLs.
func checkHost(host string) bool {
	repo, err := sourcehost.ParseRepository("https://" + host + "/owner/name")
	return err == nil && repo.Host == host && len(host) <= 253
}

// authentication says what the connection has.
func (c *Connection) authentication() string {
	if c.AppID != "" {
		return "github_app"
	}
	return "token"
}
