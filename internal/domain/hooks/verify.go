package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/hookpayload"
)

// signatures lists the headers in which hosts send HMAC-SHA256 of the body in hexadecimal digits, with a prefix.
var signatures = map[hookpayload.Host][]struct{ header, prefix string }{
	hookpayload.GitHub:          {{"X-Hub-Signature-256", "sha256="}},
	hookpayload.Bitbucket:       {{"X-Hub-Signature", "sha256="}},
	hookpayload.BitbucketServer: {{"X-Hub-Signature", "sha256="}},
	hookpayload.Gitea:           {{"X-Forgejo-Signature", ""}, {"X-Gitea-Signature", ""}, {"X-Hub-Signature-256", "sha256="}},
}

// gitlabToken is the header in which GitLab sends the secret itself. GitLab does not sign bodies.
const gitlabToken = "X-Gitlab-Token"

// signs reports whether a host signs the bodies that it sends.
func signs(host hookpayload.Host) bool { return signatures[host] != nil }

// verify returns an Unauthorized error unless the request proves that its sender knows the secret. Comparisons take
// the same time whatever was sent.
func verify(host hookpayload.Host, h http.Header, body []byte, secret string) error {
	if !signs(host) {
		switch sent := h.Get(gitlabToken); {
		case sent == "":
			return missing(gitlabToken)
		case subtle.ConstantTimeCompare(hash(sent), hash(secret)) != 1:
			return wrong(gitlabToken)
		}
		return nil
	}
	for _, s := range signatures[host] {
		sent := h.Get(s.header)
		if sent == "" {
			continue
		}
		digits, ok := strings.CutPrefix(sent, s.prefix)
		signature, err := hex.DecodeString(digits)
		if !ok || err != nil || !hmac.Equal(signature, sign(body, secret)) {
			return wrong(s.header)
		}
		return nil
	}
	return missing(signatures[host][0].header)
}

func sign(body []byte, secret string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// hash makes texts of any length comparable in constant time.
func hash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func missing(header string) error {
	return core.Errorf(core.Unauthorized, "The header %s is missing; set the secret of the webhook at the source host to the one of GET …/pipelines/{slug}/webhook", header)
}

func wrong(header string) error {
	return core.Errorf(core.Unauthorized, "The header %s does not match; set the secret of the webhook at the source host to the one of GET …/pipelines/{slug}/webhook", header)
}
