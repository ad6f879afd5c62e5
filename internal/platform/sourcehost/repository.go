package sourcehost

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxURL is the maximum length of a repository URL, in bytes.
const MaxURL = 2048

// CheckURL returns what is wrong with a repository URL, as text that follows the field's name. It accepts URLs
// of unknown kinds: agents can clone more than we can parse, for example a folder on their own disk.
func CheckURL(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("must not be blank")
	case len(text) > MaxURL:
		return fmt.Errorf("must be at most %d bytes long", MaxURL)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("must not contain control characters")
	case strings.HasPrefix(text, "-"):
		// Git would treat it as an option.
		return errors.New("must not begin with a hyphen")
	case unreadableCredentials(text):
		return errors.New("is not a valid URL; write special characters in the user name and the password as %XX, such as %2F for a slash")
	}
	return nil
}

// A Repository is a repository on a host.
type Repository struct {
	Host  string // lower case, without a port
	Owner string // "acme", or "group/subgroup"; empty when the path is the name alone
	Name  string // without ".git"
	Path  string // owner and name
}

// ParseRepository parses the URL of a repository on a host: https, http, ssh and git URLs, and the short form
// git@host:owner/name.
func ParseRepository(text string) (Repository, error) {
	host, path, ok := split(text)
	segments := strings.Split(path, "/")
	odd := func(segment string) bool { return segment == "" || segment == "." || segment == ".." }
	if !ok || CheckURL(text) != nil || slices.ContainsFunc(segments, odd) {
		return Repository{}, errors.New("this is not the URL of a repository on a host, such as https://github.com/acme/hello.git or git@github.com:acme/hello.git")
	}
	owner, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		owner, name = path[:i], path[i+1:]
	}
	return Repository{Host: host, Owner: owner, Name: name, Path: path}, nil
}

// Canonical returns a form that is equal for all spellings of one repository's URL: host and path in lower
// case, without scheme, user, port and ".git". Text without a host is returned in lower case, so that it can be
// searched for in canonical URLs.
func Canonical(text string) string {
	host, path, ok := split(text)
	if !ok {
		return strings.ToLower(trimPath(strings.TrimSpace(text)))
	}
	return strings.ToLower(strings.TrimSuffix(host+"/"+path, "/"))
}

// SameRepository reports whether two URLs are spellings of one repository.
func SameRepository(a, b string) bool { return Canonical(a) == Canonical(b) }

var schemes = []string{"https", "http", "ssh", "git", "git+ssh", "ssh+git"}

// otherNames are alternative names of public hosts, mostly for SSH on the port of https.
var otherNames = map[string]string{
	"www.github.com":       "github.com",
	"ssh.github.com":       "github.com",
	"altssh.gitlab.com":    "gitlab.com",
	"altssh.bitbucket.org": "bitbucket.org",
}

// split splits a URL into its host, lower case and without a port, and its path, without slashes at its ends
// and ".git".
func split(text string) (host, path string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || !slices.Contains(schemes, u.Scheme) {
			return "", "", false
		}
		host, path = u.Hostname(), u.Path
	} else {
		// Like Git: user@host:path, unless a slash comes before the colon.
		before, after, found := strings.Cut(text, ":")
		if !found || strings.ContainsAny(before, "/[] ") {
			return "", "", false
		}
		host, path = before[strings.LastIndexByte(before, '@')+1:], after
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if other, known := otherNames[host]; known {
		host = other
	}
	path = trimPath(path)
	if providerOfHost(host) == ProviderBitbucketServer {
		path = strings.TrimPrefix(path, "scm/") // only in its https URLs
	}
	return host, path, host != ""
}

func trimPath(path string) string {
	return strings.Trim(strings.TrimSuffix(strings.TrimRight(path, "/"), ".git"), "/")
}

// HTTPURL returns the http or https URL of a repository, with its credentials. SSH URLs of known kinds of hosts have an
// https URL with the same path; ok is false for other ones.
func HTTPURL(text string) (address string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return text, true
	}
	host, path, ok := split(text)
	provider := providerOfHost(host)
	if !ok || path == "" || provider == ProviderGit {
		return "", false
	}
	if provider == ProviderBitbucketServer {
		path = "scm/" + path
	}
	return "https://" + host + "/" + path + ".git", true
}

// Spellings returns the usual spellings of a repository's URL in lower case, if text is such a URL with an owner and a
// name, and nothing otherwise.
func Spellings(text string) []string {
	repo, err := ParseRepository(text)
	if err != nil || repo.Owner == "" || !strings.ContainsAny(text, "@/") {
		return nil
	}
	host, path := repo.Host, strings.ToLower(repo.Path)
	var list []string
	for _, start := range []string{"https://" + host + "/", "http://" + host + "/", "git://" + host + "/", "https://" + host + "/scm/",
		"ssh://git@" + host + "/", "ssh://git@" + host + ":22/", "ssh://git@" + host + ":7999/", "git@" + host + ":", host + ":"} {
		list = append(list, start+path, start+path+"/", start+path+".git")
	}
	return list
}
