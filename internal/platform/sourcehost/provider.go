package sourcehost

import "strings"

// The ids of the source providers.
const (
	ProviderGitHub           = "github"
	ProviderGitHubEnterprise = "github_enterprise"
	ProviderGitLab           = "gitlab"
	ProviderGitLabEE         = "gitlab_ee"
	ProviderBitbucket        = "bitbucket"
	ProviderBitbucketServer  = "bitbucket_server"
	ProviderGitea            = "gitea"
	ProviderGit              = "git" // anything else
)

// ProviderOf returns the id of the provider of a repository URL. It knows public hosts by name, and an
// organization's own by the start of their names.
func ProviderOf(repositoryURL string) string {
	host, _, ok := split(repositoryURL)
	if !ok {
		return ProviderGit
	}
	return providerOfHost(host)
}

func providerOfHost(host string) string {
	switch host {
	case "github.com":
		return ProviderGitHub
	case "gitlab.com":
		return ProviderGitLab
	case "bitbucket.org":
		return ProviderBitbucket
	case "gitea.com", "codeberg.org":
		return ProviderGitea
	}
	switch first, _, _ := strings.Cut(host, "."); first {
	case "github":
		return ProviderGitHubEnterprise
	case "gitlab":
		return ProviderGitLabEE
	case "bitbucket", "stash":
		return ProviderBitbucketServer
	case "gitea":
		return ProviderGitea
	}
	return ProviderGit
}
