// Package tracker writes about builds to an issue tracker with the GraphQL API of Linear.
//
// It opens one issue for each branch that fails and comments on that while it is open, or on the issue that the name
// of the branch contains. A [Note] takes two requests: [Note.Find] asks what there is, and [Found.Write] writes what
// is missing. The ids of what is written follow from the id of the note, so that a note that is sent again is written
// once.
package tracker

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Note is what to write about a build.
type Note struct {
	ID     string // the same whenever the note is sent again
	Title  string // of an issue that it opens
	Body   string // Markdown
	Branch string // of the build
	// Opens says that the note opens an issue when there is none.
	Opens bool
	// Team is the key of the team that gets the issue; empty: the only one.
	Team string
	// URL identifies the pipeline and the branch; LinkTitle is its text.
	URL, LinkTitle string
}

// A Request is a GraphQL request.
type Request struct {
	Query     string         `json:"query"`
	Variables map[string]any `json:"variables"`
}

const findQuery = `query StackyardFind($url: String!, $key: String!, $number: Float!, $issue: ID!, $comment: ID!) {
  linked: attachmentsForURL(url: $url, first: 50) { nodes { issue { ...found } } }
  named: issues(filter: {team: {key: {eqIgnoreCase: $key}}, number: {eq: $number}}, first: 1) { nodes { ...found } }
  opened: issues(filter: {id: {eq: $issue}}, first: 1) { nodes { ...found } }
  commented: comments(filter: {id: {eq: $comment}}, first: 1) { nodes { id } }
  teams(first: 100) { nodes { id key } }
}
fragment found on Issue { id identifier state { type } }`

const openMutation = `mutation StackyardOpen($issue: IssueCreateInput!, $link: AttachmentCreateInput!) {
  issueCreate(input: $issue) { success issue { identifier } }
  attachmentCreate(input: $link) { success }
}`

const linkMutation = `mutation StackyardLink($link: AttachmentCreateInput!) {
  attachmentCreate(input: $link) { success }
}`

const commentMutation = `mutation StackyardComment($comment: CommentCreateInput!) {
  commentCreate(input: $comment) { success }
}`

// Find returns the request for what the tracker knows about the build.
func (n *Note) Find() Request {
	key, number := issueIn(n.Branch)
	return Request{findQuery, map[string]any{"url": n.URL, "key": key, "number": number, "issue": n.id("issue"), "comment": n.id("comment")}}
}

// issueName matches the identifier of an issue, such as ENG-123, in the name of a branch.
var issueName = regexp.MustCompile(`(?:^|[^A-Za-z0-9])([A-Za-z][A-Za-z0-9]{0,9})-([1-9][0-9]{0,8})(?:[^A-Za-z0-9]|$)`)

// issueIn returns the team and the number of the issue that the name of a branch contains; "" and 0: none.
func issueIn(branch string) (key string, number int) {
	match := issueName.FindStringSubmatch(branch)
	if match == nil {
		return "", 0
	}
	number, _ = strconv.Atoi(match[2])
	return strings.ToUpper(match[1]), number
}

// id returns the id of something that the note writes: a UUID in the form of version 4, which the API demands.
func (n *Note) id(of string) string {
	b := sha256.Sum256([]byte(of + ":" + n.ID))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Found is the answer to [Note.Find].
type Found struct {
	Linked    nodes[struct{ Issue *issue }]
	Named     nodes[issue]
	Opened    nodes[issue]
	Commented nodes[struct{ ID string }]
	Teams     nodes[team]
}

type nodes[T any] struct{ Nodes []T }

type issue struct {
	ID         string
	Identifier string
	State      struct{ Type string }
}

func (i *issue) open() bool { return i.State.Type != "completed" && i.State.Type != "canceled" }

type team struct{ ID, Key string }

// Write returns the request that writes a note, or nil and the reason why nothing has to be written.
func (f *Found) Write(n *Note) (*Request, string, error) {
	if len(f.Commented.Nodes) > 0 {
		return nil, "the comment was written before", nil
	}
	link := map[string]any{"id": n.id("link"), "issueId": n.id("issue"), "url": n.URL, "title": n.LinkTitle}
	on := f.issue()
	switch {
	case len(f.Opened.Nodes) > 0 && on != nil && on.ID == n.id("issue"):
		return nil, on.Identifier + " was opened before", nil
	case len(f.Opened.Nodes) > 0:
		return &Request{linkMutation, map[string]any{"link": link}}, "", nil
	case on != nil:
		comment := map[string]any{"id": n.id("comment"), "issueId": on.ID, "body": n.Body}
		return &Request{commentMutation, map[string]any{"comment": comment}}, "", nil
	case !n.Opens:
		return nil, "there is no open issue to comment on", nil
	}
	team, err := f.team(n.Team)
	if err != nil {
		return nil, "", err
	}
	opened := map[string]any{"id": n.id("issue"), "teamId": team, "title": n.Title, "description": n.Body}
	return &Request{openMutation, map[string]any{"issue": opened, "link": link}}, "", nil
}

// issue returns the issue to comment on: that in the name of the branch, or else an open one of the branch.
func (f *Found) issue() *issue {
	if len(f.Named.Nodes) > 0 {
		return &f.Named.Nodes[0]
	}
	for _, linked := range f.Linked.Nodes {
		if linked.Issue != nil && linked.Issue.open() {
			return linked.Issue
		}
	}
	return nil
}

// CheckTeam returns why an issue cannot be opened for a team.
func (f *Found) CheckTeam(key string) error {
	_, err := f.team(key)
	return err
}

// team returns the id of the team with a key; empty: the only one.
func (f *Found) team(key string) (string, error) {
	var keys []string
	for _, t := range f.Teams.Nodes {
		if strings.EqualFold(t.Key, key) || key == "" && len(f.Teams.Nodes) == 1 {
			return t.ID, nil
		}
		keys = append(keys, t.Key)
	}
	slices.Sort(keys)
	const most = 20
	list := strings.Join(keys[:min(len(keys), most)], ", ")
	switch {
	case len(keys) == 0:
		return "", errors.New("the workspace has no team that could get the issue")
	case key == "":
		return "", fmt.Errorf("the workspace has several teams; set the setting team to the one that gets issues: %s", list)
	}
	return "", fmt.Errorf("the workspace has no team %q; its teams are %s", key, list)
}

// An Error is an answer that is not what was asked for.
type Error struct {
	Code    string // of the API, such as RATELIMITED
	Message string
}

func (e *Error) Error() string { return "the tracker answered: " + e.Message }

// Unauthorized reports whether the access token is not valid or was revoked.
func (e *Error) Unauthorized() bool { return e.Code == "AUTHENTICATION_ERROR" }

// Limited reports whether the request was one too many.
func (e *Error) Limited() bool { return e.Code == "RATELIMITED" }

// maxMessage bounds what is shown of an error, in bytes.
const maxMessage = 300

// Read reads an answer into the value that data points to. It returns an *Error for errors of the API, and for
// mutations that were not successful.
func Read(body []byte, data any) error {
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return &Error{Message: "no GraphQL response"}
	}
	if len(answer.Errors) > 0 {
		first := answer.Errors[0]
		return &Error{Code: strings.ToUpper(first.Extensions.Code), Message: strings.ToValidUTF8(first.Message[:min(len(first.Message), maxMessage)], "")}
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		return &Error{Message: "no GraphQL data"}
	}
	return nil
}

// Written is the answer to a mutation.
type Written map[string]struct{ Success bool }

// Err returns an error if something was not written.
func (w Written) Err() error {
	for name, result := range w {
		if !result.Success {
			return &Error{Message: name + " was not successful"}
		}
	}
	return nil
}

// Escape returns text that Markdown shows as it is.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_{}[]()<>#+-.!|~@:&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
