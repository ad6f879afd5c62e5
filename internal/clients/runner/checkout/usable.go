package checkout

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// reserved are the names of hosts that cannot exist outside of somebody's own network: those of
// RFC 2606 and RFC 6761, as they stand in examples.
var reserved = []string{"test", "example", "invalid", "example.com", "example.net", "example.org"}

// Unusable returns why there is nothing to check out from a repository, "" when there may be. A pipeline
// has to name a repository even when it has none; such a placeholder is not a mistake.
func Unusable(ctx context.Context, repository string) string {
	if strings.TrimSpace(repository) == "" {
		return "the pipeline has no repository"
	}
	host := hostOf(repository)
	if !isReserved(host) {
		return ""
	}
	// Where there is no network, nobody may answer at all.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
		return ""
	}
	return "the pipeline's repository is a placeholder: there is no host " + host
}

// hostOf returns the host of a repository's address, "" when it has none.
func hostOf(repository string) string {
	if strings.Contains(repository, "://") {
		address, err := url.Parse(repository)
		if err != nil {
			return ""
		}
		return address.Hostname()
	}
	// git@host:path, which is a folder when a slash comes first.
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
