package sourcehost

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// An api sends requests to the REST API of a host.
type api struct {
	url     string
	client  *http.Client
	headers map[string]string
}

func newAPI(apiURL string, client *http.Client, headers map[string]string) api {
	headers["Content-Type"], headers["User-Agent"] = "application/json", "stackyard" // GitHub requires a name
	return api{strings.TrimSuffix(apiURL, "/"), client, headers}
}

// An action is what a request does, for error messages: "the token may not manage webhooks of acme/app".
type action struct{ verb, object string }

var (
	manageWebhooks = action{"manage", "webhooks"}
	setStatuses    = action{"set", "commit statuses"}
)

// maxAnswer bounds what is read of a response, in bytes.
const maxAnswer = 64 << 10

// call sends a request that creates or replaces something of a repository.
func (a api) call(ctx context.Context, does action, repo Repository, method, path string, body any) error {
	resp, content, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusCreated, http.StatusNoContent:
		return nil
	case http.StatusOK: // a replaced status; other servers also answer with a page
		if json.Valid(content) && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			return nil
		}
	}
	return refusal(resp, content, does, repo)
}

// check sends a GET request that only needs valid credentials. Hosts answer 403 when a valid token lacks the scope for
// this request.
func (a api) check(ctx context.Context, path string) error {
	resp, content, err := a.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	_, limited := rateLimited(resp)
	switch {
	case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusForbidden && !limited:
		return nil
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: there is no API of this kind at %s; correct api_url or provider", ErrRefused, a.url)
	}
	return refusal(resp, content, action{"use", "the API"}, Repository{})
}

// send sends a request and returns the response with the beginning of its body.
func (a api) send(ctx context.Context, method, path string, body any) (*http.Response, []byte, error) {
	return a.sendUpTo(ctx, method, path, body, maxAnswer)
}

// sendUpTo is send for responses of other sizes.
func (a api) sendUpTo(ctx context.Context, method, path string, body any, most int64) (*http.Response, []byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, content)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for name, value := range a.headers {
		req.Header.Set(name, value)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		if requestErr, ok := errors.AsType[*url.Error](err); ok {
			err = requestErr.Err // the URL of the request does not help a person
		}
		return nil, nil, fmt.Errorf("%w: no answer from %s: %w", ErrUnavailable, req.URL.Host, err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // the status has the essential information
	return resp, answer, nil
}

// refusal converts a response into an error that says what to do.
func refusal(resp *http.Response, content []byte, does action, repo Repository) error {
	said := readProblem(content)
	if text, limited := rateLimited(resp); limited {
		return &waitError{fmt.Sprintf("%s: its rate limit is used up; try again %s", ErrUnavailable, text), waitAsked(resp)}
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not accept the token; give a valid one", ErrRefused)
	case http.StatusForbidden:
		return fmt.Errorf("%w: the token may not %s %s of %s (%s)", ErrRefused, does.verb, does.object, repo.Path, said)
	case http.StatusNotFound:
		// Hosts also return this when the token can see the repository and lacks the permission.
		return fmt.Errorf("%w: there is no repository %s, or the token may not %s its %s", ErrRefused, repo.Path, does.verb, does.object)
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Errorf("%w: the repository %s has moved; correct its URL", ErrRefused, repo.Path)
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
		if strings.Contains(said, "already exists") {
			return ErrExists
		}
		return fmt.Errorf("%w: %s", ErrRefused, said)
	}
	return &waitError{fmt.Sprintf("%s: it answered with status %d (%s)", ErrUnavailable, resp.StatusCode, said), waitAsked(resp)}
}

// rateLimited reports whether a response is about too many requests, for which GitHub has several forms, and
// when to retry.
func rateLimited(resp *http.Response) (wait string, limited bool) {
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	usedUp := resp.Header.Get("X-RateLimit-Remaining") == "0"
	switch {
	case resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusForbidden:
		return "", false
	case seconds > 0:
		return fmt.Sprintf("in %d seconds", seconds), true
	case usedUp:
		reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
		if err != nil {
			return "later", true
		}
		return "after " + time.Unix(reset, 0).UTC().Format("15:04:05 UTC"), true
	}
	return "later", resp.StatusCode == http.StatusTooManyRequests
}

// maxWait bounds the wait that a host can ask for.
const maxWait = time.Hour

// waitAsked returns how long a response asks to wait; 0: it does not say. Limits that reset at a time are GitHub's;
// GitLab calls the header RateLimit-Reset.
func waitAsked(resp *http.Response) time.Duration {
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 1<<20))*time.Second, maxWait)
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, min(time.Until(at), maxWait))
	}
	for _, prefix := range []string{"X-RateLimit-", "RateLimit-"} {
		reset, err := strconv.ParseInt(resp.Header.Get(prefix+"Reset"), 10, 64)
		if err == nil && resp.Header.Get(prefix+"Remaining") == "0" {
			return max(time.Second, min(time.Until(time.Unix(reset, 0)), maxWait))
		}
	}
	return 0
}

// readProblem returns what the body of an error response says, cut to fit in a message. Hosts write message, error or
// errors, as texts, lists or objects with messages.
func readProblem(content []byte) string {
	var body map[string]any
	json.Unmarshal(content, &body)
	var said []string
	for _, field := range []string{"message", "error", "error_description", "errors"} {
		said = append(said, textsIn(body[field], 3)...)
	}
	if len(said) == 0 {
		return "without a reason"
	}
	const most = 300
	text := strings.Join(said, ": ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func textsIn(value any, depth int) (texts []string) {
	switch v := value.(type) {
	case string:
		if v != "" {
			texts = []string{v}
		}
	case []any:
		for i := 0; depth > 0 && i < len(v) && i < 10; i++ {
			texts = append(texts, textsIn(v[i], depth-1)...)
		}
	case map[string]any:
		if depth == 0 {
			break
		}
		if v["message"] != nil {
			return textsIn(v["message"], depth-1)
		}
		for name, inner := range v {
			for _, text := range textsIn(inner, depth-1) {
				texts = append(texts, name+" "+text)
			}
			break // one is enough for a message
		}
	}
	return texts
}

// pathSegment is the syntax of owners and repositories, which keeps unusual paths out of API URLs.
var pathSegment = regexp.MustCompile(`^[.~]?[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// checkPath returns an error unless the path of a repository is owner/name.
func checkPath(repo Repository, host string) error {
	if !pathSegment.MatchString(repo.Owner) || !pathSegment.MatchString(repo.Name) {
		return fmt.Errorf("%w: %q is not the path of a repository on %s, which is owner/name", ErrRefused, repo.Path, host)
	}
	return nil
}

var commitID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// IsCommit reports whether a text is the full id of a commit.
func IsCommit(text string) bool { return commitID.MatchString(text) }

func checkStatus(repo Repository, host string, status Status) error {
	if !IsCommit(status.Commit) {
		return fmt.Errorf("%w: %q is not the id of a commit", ErrRefused, status.Commit)
	}
	return checkPath(repo, host)
}

// shorten cuts a text to a number of characters.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// shortKey returns a context that fits into a number of bytes: longer ones end with a hash of the whole.
func shortKey(text string, most int) string {
	if len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:6])
	return strings.ToValidUTF8(text[:most-len(hash)-1], "") + "-" + hash
}
