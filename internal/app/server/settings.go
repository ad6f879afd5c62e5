package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stackyard/internal/app/web/accountpages"
	"stackyard/internal/domain/agentimages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/machines"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/stacks"
	"stackyard/internal/platform/autotls"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/trace"
)

// Settings configure a server.
type Settings struct {
	Listen         string
	Local          bool           // also listen for programs on this machine, without TLS
	Public         core.PublicURL // empty: derived from the listen address
	Content        core.PublicURL // empty: artifacts are fetched from Public
	Data           string
	Database       string // a URL for db.Open
	Blobs          string
	Key            *seal.Key // nil: stored in the data folder
	TLSCert        string
	TLSKey         string
	AutoTLS        autotls.Settings // certificates from an authority; no hosts: none
	RedirectListen string           // address on which http is redirected to https; "": none
	TrustedProxies []netip.Prefix
	Apply          string // an organization file, or empty
	OutboundAllow  []netip.Prefix
	Agents         agents.Settings
	Stacks         stacks.Settings
	Images         agentimages.Settings
	Machines       machines.Settings
	KeepEvents     time.Duration
	DatabaseWait   time.Duration          // how long the start waits for a database that does not answer
	MetricsListen  string                 // address of metrics and profiles; "": metrics are on Listen
	MetricsToken   string                 // bearer token of metrics on Listen; "": none
	Peer           string                 // URL at which other replicas reach this one; "": derived from the listen address
	SessionGrace   time.Duration          // how long remote sessions can last after the server is asked to stop
	HostedGrace    time.Duration          // how long jobs of hosted agents on the server can last after it is asked to stop
	Provider       *accountpages.Provider // OpenID Connect; nil: none
	Connections    notifications.Connections
	Endpoints      delivery.Endpoints
	Traces         trace.Settings // where traces of this server are sent; no URL: nowhere
	Clock          core.Clock     // of this machine
}

// minMetricsToken is the minimum length of the token of metrics.
const minMetricsToken = 16

// ParseSettings parses the values of flags by name. The error joins everything that is wrong with them.
func ParseSettings(given func(flag string) string) (Settings, error) {
	s := Settings{
		Listen:   given("listen"),
		Data:     given("data"),
		Database: given("database"),
		Blobs:    given("blobs"),
		TLSCert:  given("tls-cert"),
		TLSKey:   given("tls-key"),
		Apply:    given("apply"),
	}
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	if !isAddress(s.Listen) {
		bad("listen", "%q is not an address such as 127.0.0.1:8080", s.Listen)
	}
	if s.MetricsListen = given("metrics-listen"); s.MetricsListen != "" && !isAddress(s.MetricsListen) {
		bad("metrics-listen", "%q is not an address such as 127.0.0.1:9090", s.MetricsListen)
	}
	if s.MetricsToken = given("metrics-token"); s.MetricsToken != "" && len(s.MetricsToken) < minMetricsToken {
		bad("metrics-token", "it has %d characters, at least %d are needed; make one with: openssl rand -hex 32", len(s.MetricsToken), minMetricsToken)
	}
	var err error
	if s.Public, err = parsePublicURL(given("public-url")); err != nil {
		bad("public-url", "%w", err)
	}
	if s.Content, err = parseContentURL(given("content-url"), s.Public); err != nil {
		bad("content-url", "%w", err)
	}
	if s.Data == "" {
		bad("data", "name a folder")
	}
	onPostgres := strings.HasPrefix(s.Database, "postgres://") || strings.HasPrefix(s.Database, "postgresql://")
	switch {
	case s.Database == "":
		s.Database = "sqlite:" + filepath.Join(s.Data, "stackyard.db")
	case !onPostgres:
		bad("database", "give a postgres:// URL, or nothing for SQLite in the data folder")
	default:
		if _, err := pgxpool.ParseConfig(s.Database); err != nil {
			bad("database", "%w", err)
		}
	}
	if s.Blobs == "" {
		s.Blobs = filepath.Join(s.Data, "blobs")
	}
	if _, err := blob.ParseURL(s.Blobs); err != nil {
		bad("blobs", "%w", err)
	}
	switch text := given("secret-key"); {
	case text != "":
		key, err := seal.ParseKey(text)
		if err != nil {
			bad("secret-key", "%w", err)
		}
		s.Key = &key
	case onPostgres:
		bad("secret-key", "PostgreSQL needs one, the same on every replica: 32 random bytes in hex or base64, such as `openssl rand -hex 32` prints")
	}
	if s.AutoTLS, err = parseAutoTLS(given); err != nil {
		errs = append(errs, err)
	}
	if s.AutoTLS.Hosts != nil && s.TLSCert+s.TLSKey != "" {
		bad("tls-autocert", "give either it, or --tls-cert and --tls-key")
	}
	if s.AutoTLS.Hosts != nil && s.Public == "" {
		s.Public = core.PublicURL("https://" + s.AutoTLS.Hosts[0])
	}
	switch s.RedirectListen = given("redirect-listen"); {
	case s.RedirectListen == "":
	case !isAddress(s.RedirectListen):
		bad("redirect-listen", "%q is not an address such as :80", s.RedirectListen)
	case !s.servesTLS() && s.TLSKey == "":
		bad("redirect-listen", "it needs --tls-autocert or --tls-cert; without https there is nothing to redirect to")
	}
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
	case s.TLSCert == "" || s.TLSKey == "":
		bad("tls-cert", "--tls-cert and --tls-key go together")
	default:
		if _, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
			bad("tls-cert", "%w", err)
		}
	}
	if s.Apply != "" {
		if _, err := os.Stat(s.Apply); err != nil {
			bad("apply", "%w", err)
		}
	}
	if s.TrustedProxies, err = outbound.ParseAllow(given("trusted-proxies")); err != nil {
		bad("trusted-proxies", "%w", err)
	}
	if s.OutboundAllow, err = outbound.ParseAllow(given("outbound-allow")); err != nil {
		bad("outbound-allow", "%w", err)
	}
	if s.Agents.LostAfter, err = time.ParseDuration(given("agent-lost-after")); err != nil || s.Agents.LostAfter < agents.MinLostAfter {
		bad("agent-lost-after", "%q is not a time of at least %s, such as 3m or 45s", given("agent-lost-after"), agents.MinLostAfter)
	}
	if s.Stacks.DeregisterAfter, err = time.ParseDuration(given("deregister-stacks-after")); err != nil || s.Stacks.DeregisterAfter < stacks.MinDeregisterAfter {
		bad("deregister-stacks-after", "%q is not a time of at least %s, such as 24h or 30m", given("deregister-stacks-after"), stacks.MinDeregisterAfter)
	}
	if s.KeepEvents, err = time.ParseDuration(given("keep-events")); err != nil || s.KeepEvents < events.MinKeep {
		bad("keep-events", "%q is not a time of at least %s, such as 720h", given("keep-events"), events.MinKeep)
	}
	if s.DatabaseWait, err = time.ParseDuration(cmp.Or(given("database-wait"), "1m")); err != nil || s.DatabaseWait < 0 {
		bad("database-wait", "%q is not a time, such as 1m or 0s", given("database-wait"))
	}
	if peer, err := parsePublicURL(given("peer-url")); err != nil {
		bad("peer-url", "%w", err)
	} else {
		s.Peer = string(peer)
	}
	if s.SessionGrace, err = time.ParseDuration(cmp.Or(given("session-grace"), "5m")); err != nil || s.SessionGrace < 0 {
		bad("session-grace", "%q is not a time, such as 5m or 0s", given("session-grace"))
	}
	if s.HostedGrace, err = time.ParseDuration(cmp.Or(given("hosted-grace"), "5m")); err != nil || s.HostedGrace < 0 {
		bad("hosted-grace", "%q is not a time, such as 5m or 0s", given("hosted-grace"))
	}
	if s.Provider, err = parseProvider(given); err != nil {
		bad("oidc-issuer", "%w", err)
	}
	if s.Connections.Chat, err = parseConnection(given, "chat", slackEndpoints); err != nil {
		bad("chat-oauth-client-id", "%w", err)
	}
	if s.Connections.Tracker, err = parseConnection(given, "tracker", linearEndpoints); err != nil {
		bad("tracker-oauth-client-id", "%w", err)
	}
	if s.Traces, err = parseTraces(given); err != nil {
		errs = append(errs, err)
	}
	if s.Images, err = parseImages(given, s.Data); err != nil {
		errs = append(errs, err)
	}
	if s.Machines, err = parseMachines(given, s.Data); err != nil {
		errs = append(errs, err)
	}
	if s.Endpoints, err = parseEndpoints(given); err != nil {
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// servesTLS reports whether the server speaks https itself.
func (s Settings) servesTLS() bool { return s.TLSCert != "" || s.AutoTLS.Hosts != nil }

// parseAutoTLS returns for which hosts certificates are obtained.
func parseAutoTLS(given func(flag string) string) (s autotls.Settings, err error) {
	s.Email, s.Directory = given("tls-autocert-email"), given("tls-autocert-directory")
	var errs []error
	if s.Hosts, err = autotls.ParseHosts(given("tls-autocert")); err != nil {
		errs = append(errs, fmt.Errorf("--tls-autocert: %w", err))
	}
	for _, flag := range []string{"tls-autocert-email", "tls-autocert-directory"} {
		if given(flag) != "" && given("tls-autocert") == "" {
			errs = append(errs, fmt.Errorf("--%s: it needs --tls-autocert", flag))
		}
	}
	if _, err := mail.ParseAddress(s.Email); s.Email != "" && err != nil {
		errs = append(errs, fmt.Errorf("--tls-autocert-email: %q is not an email address", s.Email))
	}
	if u, err := url.Parse(s.Directory); s.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		errs = append(errs, fmt.Errorf("--tls-autocert-directory: %q is not a URL such as %s", s.Directory, autotls.LetsEncrypt))
	}
	return s, errors.Join(errs...)
}

// parseEndpoints returns how systems are reached that notification services do not name in full.
func parseEndpoints(given func(flag string) string) (e delivery.Endpoints, err error) {
	e.EventBus.Endpoint, e.VisibilityURL = given("event-bus-endpoint"), given("pipeline-visibility-url")
	e.EventBus.AccessKeyID, e.EventBus.SecretAccessKey = given("event-bus-access-key-id"), given("event-bus-secret-access-key")
	var errs []error
	for _, flag := range []string{"event-bus-endpoint", "pipeline-visibility-url"} {
		u, err := url.Parse(given(flag))
		if given(flag) != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
			errs = append(errs, fmt.Errorf("--%s: %q is not a URL such as https://proxy.example.com", flag, given(flag)))
		}
	}
	if (e.EventBus.AccessKeyID == "") != (e.EventBus.SecretAccessKey == "") {
		errs = append(errs, errors.New("--event-bus-access-key-id and --event-bus-secret-access-key go together"))
	}
	return e, errors.Join(errs...)
}

// The endpoints of the chat and the tracker that are meant unless others are given.
var (
	slackEndpoints = notifications.Connection{
		AuthorizeURL: "https://slack.com/oauth/v2/authorize", TokenURL: "https://slack.com/api/oauth.v2.access", RevokeURL: "https://slack.com/api/auth.revoke",
		APIURL: "https://slack.com/api",
	}
	linearEndpoints = notifications.Connection{
		AuthorizeURL: "https://linear.app/oauth/authorize", TokenURL: "https://api.linear.app/oauth/token", RevokeURL: "https://api.linear.app/oauth/revoke",
		APIURL: "https://api.linear.app/graphql",
	}
)

// parseConnection returns the application at a chat or a tracker that was given, or nil. When another token endpoint
// than the usual one is given, nothing is taken from the usual ones.
func parseConnection(given func(flag string) string, kind string, usual notifications.Connection) (*notifications.Connection, error) {
	flag := func(name string) string { return given(kind + "-oauth-" + name) }
	c := notifications.Connection{
		ClientID: flag("client-id"), ClientSecret: flag("client-secret"),
		AuthorizeURL: flag("authorize-url"), TokenURL: flag("token-url"), RevokeURL: flag("revoke-url"),
		APIURL: given(kind + "-api-url"),
	}
	switch {
	case c == notifications.Connection{}:
		return nil, nil
	case c.ClientID == "" || c.ClientSecret == "":
		return nil, fmt.Errorf("--%s-oauth-client-id and --%s-oauth-client-secret go together", kind, kind)
	case c.TokenURL == "" && c.AuthorizeURL == "":
		c.AuthorizeURL, c.TokenURL, c.RevokeURL = usual.AuthorizeURL, usual.TokenURL, cmp.Or(c.RevokeURL, usual.RevokeURL)
		c.APIURL = cmp.Or(c.APIURL, usual.APIURL)
	case c.TokenURL == "" || c.AuthorizeURL == "":
		return nil, fmt.Errorf("--%s-oauth-authorize-url and --%s-oauth-token-url go together", kind, kind)
	}
	if c.APIURL == "" {
		return nil, fmt.Errorf("--%s-api-url is required with --%s-oauth-token-url", kind, kind)
	}
	for _, text := range []string{c.AuthorizeURL, c.TokenURL, c.RevokeURL, c.APIURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" || u.User != nil) {
			return nil, fmt.Errorf("%q is not a URL such as %s", text, usual.TokenURL)
		}
	}
	return &c, nil
}

// parseProvider returns the configured OpenID Connect provider, or nil.
func parseProvider(given func(flag string) string) (*accountpages.Provider, error) {
	p := accountpages.Provider{Issuer: given("oidc-issuer"), ClientID: given("oidc-client-id"), ClientSecret: given("oidc-client-secret")}
	switch {
	case p == accountpages.Provider{}:
		return nil, nil
	case p.Issuer == "" || p.ClientID == "":
		return nil, errors.New("--oidc-issuer and --oidc-client-id go together")
	}
	u, err := url.Parse(p.Issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%q is not a URL such as https://login.example.com", p.Issuer)
	}
	return &p, nil
}

// isAddress reports whether text is a host, which can be empty, and a port number.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func parsePublicURL(text string) (core.PublicURL, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("%q is not a URL such as https://ci.example.com", text)
	}
	return core.PublicURL(strings.TrimRight(u.String(), "/")), nil
}

// parseContentURL returns the origin from which artifacts are fetched. Cookies ignore ports, so its host must
// differ from the host of the pages.
func parseContentURL(text string, public core.PublicURL) (core.PublicURL, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("%q is not an origin such as https://content.example.com", text)
	}
	main, err := url.Parse(string(public))
	switch {
	case err != nil || public == "":
		return "", errors.New("give --public-url too")
	case strings.EqualFold(main.Hostname(), u.Hostname()):
		return "", fmt.Errorf("%s is the host of --public-url; give another one that leads to this server too", u.Hostname())
	}
	return core.PublicURL(u.Scheme + "://" + u.Host), nil
}

// listenURL returns the URL of a listener on this machine.
func listenURL(address net.Addr, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return scheme + "://" + address.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
