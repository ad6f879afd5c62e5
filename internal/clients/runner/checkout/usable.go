package checkout

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// reserved are host names for examples, from RFC 2606 and RFC 6761. They exist only in private networks.
var reserved = []string{"test", "example", "invalid", "example.com", "example.net", "example.org"}

// Unusable returns why a repository cannot be checked out, or "". A pipeline must have a repository URL even if
// it needs none, so a placeholder is not an error.
func Unusable(ctx context.Context, repository string) string {
	if strings.TrimSpace(repository) == "" {
		return "the pipeline has no repository"
	}
	host := hostOf(repository)
	if !isReserved(host) {
		return ""
	}
	// Without network the lookup may not return.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
		return ""
	}
	return "the pipeline's repository is a placeholder: there is no host " + host
}

// hostOf returns the host of a repository's address, or "".
func hostOf(repository string) string {
	if strings.Contains(repository, "://") {
		address, err := url.Parse(repository)
		if err != nil {
			return ""
		}
		return address.Hostname()
	}
	// git@host:path; a path if a slash comes first.
	host, _, ok := strings.Cut(repository, ":")
	if !ok || strings.Contains(host, "/") {
		return ""
	}
	return host[strings.LastIndex(host, "@")+1:]
}

func isReserved(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, name := range reserved {
		if host == name || strings.HasSuffix(host, "."+name) {
			return true
		}
	}
	return false
}
