// Package hookpayload parses the webhooks of source hosts.
//
// [HostOf] recognizes the host by the headers of a request, and [Parse] converts its body into a list of events that
// have the same form for all hosts. A host reports several branches that were pushed together in one body, so there
// can be more than one event. The functions are pure. They do not check signatures and decide nothing about builds.
package hookpayload

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a body and of the events in it.
const (
	MaxBody    = 10 << 20 // bytes
	MaxEvents  = 50       // pushed branches and tags in one body
	maxName    = 255      // characters of branches, tags, names
	maxMessage = 64 << 10 // bytes of a commit message
	maxURL     = 2048     // bytes
	maxLabels  = 100
)

// Kind is what happened.
type Kind string

// The kinds. Hosts send more events than these; they are Other.
const (
	Push               Kind = "push" // of a branch; Deleted when the branch was deleted
	Tag                Kind = "tag"
	PullRequest        Kind = "pull_request"
	MergeGroup         Kind = "merge_group"          // a merge queue wants checks
	MergeGroupFinished Kind = "merge_group_finished" // the merge queue needs the checks no more
	Deployment         Kind = "deployment"
	Fork               Kind = "fork"
	Ping               Kind = "ping"
	Other              Kind = "other"
)

// Change is what happened to a pull request, as far as it matters for builds.
type Change string

// The changes of pull requests. Others are ChangeOther.
const (
	ChangeOpened   Change = "opened" // or opened again
	ChangeCommits  Change = "commits"
	ChangeLabels   Change = "labels"
	ChangeReady    Change = "ready" // no draft any more
	ChangeBase     Change = "base"  // another base branch
	ChangeApproved Change = "approved"
	ChangeClosed   Change = "closed"
	ChangeOther    Change = "other"
)

// An Event is one thing that happened in a repository.
type Event struct {
	Kind   Kind
	Name   string // the host's name of the event, such as "pull_request"
	Action string // the host's name of what happened, such as "opened"; empty: none

	Repository Repository
	Branch     string // that was pushed; of a pull request: its source
	Tag        string
	Commit     string // empty when the event has none
	Message    string // of the commit; of a pull request without it: the title
	Author     Person
	Deleted    bool // the branch or tag was deleted

	Pull  *Pull
	Queue *Queue
}

// A Repository is where something happened.
type Repository struct {
	Path          string   // such as "acme/hello"
	URLs          []string // its URLs that the host named; can be empty
	DefaultBranch string   // empty when the host did not say
}

// A Person is an author, as far as the host knows.
type Person struct{ Username, Name, Email string }

// A Pull is a pull request, which GitLab calls a merge request.
type Pull struct {
	Number string
	Change Change
	Base   string // the branch to merge into
	Draft  bool
	Labels []string
	Label  string // that was added or removed
	Head   Repository
	Owner  string // of Head
	Fork   bool   // Head is another repository, or unknown
}

// A Queue is what a merge queue merges into.
type Queue struct{ BaseBranch, BaseCommit string }

// Host is a kind of source host.
type Host string

// The hosts. Gitea is also Forgejo.
const (
	GitHub          Host = "github"
	GitLab          Host = "gitlab"
	Bitbucket       Host = "bitbucket"
	BitbucketServer Host = "bitbucket_server"
	Gitea           Host = "gitea"
)

// HostOf returns the kind of host that sent a request, and its name of the event. Gitea also sends the headers of
// GitHub, so its own are looked for first.
func HostOf(h http.Header) (host Host, event string, ok bool) {
	for _, c := range []struct {
		header string
		host   Host
	}{{"X-Forgejo-Event", Gitea}, {"X-Gitea-Event", Gitea}, {"X-GitHub-Event", GitHub}, {"X-Gitlab-Event", GitLab}} {
		if event = h.Get(c.header); event != "" {
			return c.host, event, true
		}
	}
	switch event = h.Get("X-Event-Key"); {
	case event == "":
		return "", "", false
	case strings.HasPrefix(event, "pr:") || event == "repo:refs_changed" || event == "diagnostics:ping":
		return BitbucketServer, event, true
	}
	return Bitbucket, event, true
}

// DeliveryID returns the id that the host gave a delivery, or "". GitLab's is the one that stays when it sends a
// delivery again.
func DeliveryID(host Host, h http.Header) string {
	names := map[Host][]string{
		GitHub:          {"X-GitHub-Delivery"},
		GitLab:          {"Idempotency-Key", "X-Gitlab-Event-UUID"},
		Bitbucket:       {"X-Request-UUID"},
		BitbucketServer: {"X-Request-Id"},
		Gitea:           {"X-Forgejo-Delivery", "X-Gitea-Delivery"},
	}
	for _, name := range names[host] {
		if id := h.Get(name); id != "" {
			return clean(id, maxName)
		}
	}
	return ""
}

// Parse returns the events in a body. The error is a sentence for the person who set up the webhook.
func Parse(host Host, event, contentType string, body []byte) ([]Event, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("the body is larger than %d bytes", MaxBody)
	}
	body, err := unwrap(contentType, body)
	if err != nil {
		return nil, err
	}
	parse, ok := map[Host]func(string, []byte) ([]Event, error){
		GitHub:          parseGitHub,
		Gitea:           parseGitea,
		GitLab:          parseGitLab,
		Bitbucket:       parseBitbucket,
		BitbucketServer: parseBitbucketServer,
	}[host]
	if !ok {
		return nil, fmt.Errorf("unknown source host %q", host)
	}
	events, err := parse(event, body)
	if err != nil {
		return nil, err
	}
	if len(events) > MaxEvents {
		return nil, fmt.Errorf("the body has %d branches and tags that were pushed together; at most %d are processed", len(events), MaxEvents)
	}
	for i := range events {
		events[i].Name = clean(event, maxName)
		if err := events[i].check(); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// unwrap returns the JSON of a body. GitHub and Gitea can send it as the field of a form.
func unwrap(contentType string, body []byte) ([]byte, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	if media != "application/x-www-form-urlencoded" {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("payload") == "" {
		return nil, errors.New("the body is a form without a field payload; set the content type of the webhook to application/json")
	}
	return []byte(form.Get("payload")), nil
}

func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the body is not a webhook of this host: %w", err)
	}
	return nil
}

// check returns an error when names in the event cannot be those of a repository, and cuts texts.
func (e *Event) check() error {
	for what, name := range map[string]string{"branch": e.Branch, "tag": e.Tag, "base branch": e.base()} {
		if !isRef(name) {
			return fmt.Errorf("the %s in the body is not a valid name", what)
		}
	}
	if !isCommit(e.Commit) {
		return errors.New("the commit in the body is not a SHA")
	}
	e.Action = clean(e.Action, maxName)
	e.Message = cleanMessage(e.Message)
	e.Author = Person{clean(e.Author.Username, maxName), clean(e.Author.Name, maxName), clean(e.Author.Email, maxName)}
	e.Repository.clean()
	if p := e.Pull; p != nil {
		p.Head.clean()
		p.Number, p.Owner, p.Label = clean(p.Number, 20), clean(p.Owner, maxName), clean(p.Label, maxName)
		p.Labels = p.Labels[:min(len(p.Labels), maxLabels)]
		for i, label := range p.Labels {
			p.Labels[i] = clean(label, maxName)
		}
	}
	if q := e.Queue; q != nil && (!isRef(q.BaseBranch) || !isCommit(q.BaseCommit)) {
		return errors.New("the merge queue in the body has no valid base")
	}
	return nil
}

func (e *Event) base() string {
	if e.Pull == nil {
		return ""
	}
	return e.Pull.Base
}

func (r *Repository) clean() {
	r.Path, r.DefaultBranch = clean(r.Path, maxURL), clean(r.DefaultBranch, maxName)
	kept := r.URLs[:0]
	for _, u := range r.URLs {
		if u != "" && len(u) <= maxURL {
			kept = append(kept, clean(u, maxURL))
		}
	}
	r.URLs = kept
}

// isRef reports whether a name can be that of a branch or tag. It is stricter than needed to be safe, not complete:
// Git forbids more.
func isRef(name string) bool {
	return utf8.ValidString(name) && utf8.RuneCountInString(name) <= maxName && !strings.HasPrefix(name, "-") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
}

// isCommit reports whether text is a SHA-1 or SHA-256, or empty. Bitbucket shortens those of pull requests.
func isCommit(text string) bool {
	if text == "" {
		return true
	}
	return len(text) >= 7 && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// noCommit reports whether a SHA is that of a deleted or new branch: zeros alone.
func noCommit(sha string) bool { return strings.Trim(sha, "0") == "" }

// clean returns one line of text, cut to a number of characters.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most])
	}
	return text
}

// cleanMessage returns a message that both engines can store, without the line end that some hosts leave at its end.
func cleanMessage(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""))
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}

// ref sets the kind and the branch or tag of a pushed ref. It reports whether the ref is one of these.
func (e *Event) ref(ref string) bool {
	if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok && branch != "" {
		e.Kind, e.Branch = Push, branch
		return true
	}
	if tag, ok := strings.CutPrefix(ref, "refs/tags/"); ok && tag != "" {
		e.Kind, e.Tag = Tag, tag
		return true
	}
	e.Kind = Other
	return false
}

// present returns the texts that are not empty.
func present(urls ...string) []string {
	var list []string
	for _, u := range urls {
		if u != "" {
			list = append(list, u)
		}
	}
	return list
}
