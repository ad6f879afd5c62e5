package hookpayload

import (
	"strconv"
	"strings"
)

type glProject struct {
	ID                int64  `json:"id"`
	PathWithNamespace string `json:"path_with_namespace"`
	DefaultBranch     string `json:"default_branch"`
	WebURL            string `json:"web_url"`
	GitHTTPURL        string `json:"git_http_url"`
	GitSSHURL         string `json:"git_ssh_url"`
}

func (p glProject) repository() Repository {
	return Repository{Path: p.PathWithNamespace, URLs: present(p.GitHTTPURL, p.GitSSHURL, p.WebURL), DefaultBranch: p.DefaultBranch}
}

type glCommit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	Author  struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"author"`
}

type glLabel struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
}

type glBody struct {
	ObjectKind   string     `json:"object_kind"`
	Ref          string     `json:"ref"`
	After        string     `json:"after"`
	CheckoutSHA  *string    `json:"checkout_sha"`
	Message      *string    `json:"message"` // of a tag
	UserName     string     `json:"user_name"`
	UserUsername string     `json:"user_username"`
	UserEmail    string     `json:"user_email"`
	Project      glProject  `json:"project"`
	Commits      []glCommit `json:"commits"`

	User struct {
		Name     string `json:"name"`
		Username string `json:"username"`
		Email    string `json:"email"`
	} `json:"user"`
	Attributes *glRequest `json:"object_attributes"`
	Labels     []glLabel  `json:"labels"`
	Changes    struct {
		Labels *struct {
			Previous []glLabel `json:"previous"`
			Current  []glLabel `json:"current"`
		} `json:"labels"`
		Draft *struct {
			Previous bool `json:"previous"`
			Current  bool `json:"current"`
		} `json:"draft"`
		TargetBranch *struct{} `json:"target_branch"`
	} `json:"changes"`
}

type glRequest struct {
	IID             int64     `json:"iid"`
	Title           string    `json:"title"`
	Action          string    `json:"action"`
	OldRev          string    `json:"oldrev"`
	SourceBranch    string    `json:"source_branch"`
	TargetBranch    string    `json:"target_branch"`
	SourceProjectID int64     `json:"source_project_id"`
	TargetProjectID int64     `json:"target_project_id"`
	Draft           bool      `json:"draft"`
	WorkInProgress  bool      `json:"work_in_progress"`
	Source          glProject `json:"source"`
	LastCommit      glCommit  `json:"last_commit"`
}

func parseGitLab(event string, body []byte) ([]Event, error) {
	var b glBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	e := Event{Kind: Other, Repository: b.Project.repository()}
	switch event {
	case "Push Hook", "Tag Push Hook":
		b.push(&e)
	case "Merge Request Hook":
		b.request(&e)
	case "System Hook":
		// System hooks send pushes and merge requests under this name.
		switch b.ObjectKind {
		case "push", "tag_push":
			b.push(&e)
		case "merge_request":
			b.request(&e)
		}
	}
	return []Event{e}, nil
}

func (b *glBody) push(e *Event) {
	e.ref(b.Ref)
	e.Deleted = noCommit(b.After)
	if e.Deleted {
		return
	}
	e.Commit = b.After
	if b.CheckoutSHA != nil && *b.CheckoutSHA != "" {
		e.Commit = *b.CheckoutSHA // after is the tag itself when it is annotated
	}
	e.Author = Person{Username: b.UserUsername, Name: b.UserName, Email: b.UserEmail}
	for _, c := range b.Commits {
		if c.ID == e.Commit {
			e.Message = c.Message
			e.Author = Person{Name: c.Author.Name, Email: c.Author.Email}
		}
	}
	if e.Message == "" && b.Message != nil {
		e.Message = *b.Message
	}
}

func (b *glBody) request(e *Event) {
	r := b.Attributes
	if r == nil {
		return
	}
	e.Kind, e.Action, e.Branch, e.Commit = PullRequest, r.Action, r.SourceBranch, r.LastCommit.ID
	if e.Message = r.LastCommit.Message; e.Message == "" {
		e.Message = r.Title
	}
	if e.Author = (Person{Name: r.LastCommit.Author.Name, Email: r.LastCommit.Author.Email}); e.Author == (Person{}) {
		e.Author = Person{Username: b.User.Username, Name: b.User.Name, Email: b.User.Email}
	}
	p := &Pull{
		Number: strconv.FormatInt(r.IID, 10),
		Change: b.change(),
		Base:   r.TargetBranch,
		Draft:  r.Draft || r.WorkInProgress,
		Head:   r.Source.repository(),
		Fork:   r.SourceProjectID == 0 || r.SourceProjectID != r.TargetProjectID || r.TargetProjectID != b.Project.ID,
	}
	p.Owner, _, _ = strings.Cut(r.Source.PathWithNamespace, "/")
	for _, l := range b.Labels {
		p.Labels = append(p.Labels, l.Title)
	}
	if c := b.Changes.Labels; c != nil {
		p.Label = changedLabel(c.Previous, c.Current)
	}
	e.Pull = p
}

func (b *glBody) change() Change {
	switch b.Attributes.Action {
	case "open", "reopen":
		return ChangeOpened
	case "close", "merge":
		return ChangeClosed
	case "approved":
		return ChangeApproved
	case "update":
		switch d := b.Changes.Draft; {
		case b.Attributes.OldRev != "":
			return ChangeCommits
		case b.Changes.TargetBranch != nil:
			return ChangeBase
		case d != nil && d.Previous && !d.Current:
			return ChangeReady
		case b.Changes.Labels != nil:
			return ChangeLabels
		}
	}
	return ChangeOther
}

// changedLabel returns a label that only one of two lists has.
func changedLabel(previous, current []glLabel) string {
	titles := map[string]int{}
	for _, l := range previous {
		titles[l.Title]++
	}
	for _, l := range current {
		if titles[l.Title] == 0 {
			return l.Title
		}
		titles[l.Title] = -1
	}
	for _, l := range previous {
		if titles[l.Title] > 0 {
			return l.Title
		}
	}
	return ""
}
