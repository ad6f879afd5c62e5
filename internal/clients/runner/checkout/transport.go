package checkout

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// transports are the URL schemes that git supports without a transport helper.
var transports = []string{"http", "https", "ssh", "git+ssh", "ssh+git", "git", "file"}

var (
	helperAddress = regexp.MustCompile(`^([A-Za-z0-9+.-]*)::`)
	schemeAddress = regexp.MustCompile(`^([A-Za-z0-9+.-]+)://`)
)

// CheckTransport rejects repositories that need a transport helper, for example ext::COMMAND and fd::NUMBER,
// and those that git would parse as an option.
func CheckTransport(repository string) error {
	if strings.HasPrefix(repository, "-") {
		return fmt.Errorf("the repository %q begins with a dash", repository)
	}
	match := helperAddress.FindStringSubmatch(repository)
	if match == nil {
		match = schemeAddress.FindStringSubmatch(repository)
		if match == nil || slices.Contains(transports, match[1]) {
			return nil
		}
	}
	return fmt.Errorf("the repository %q needs the transport helper %q, which is not allowed; use https, ssh, git, file or a path", repository, match[1])
}
