package hookpayload

import (
	"strconv"
	"strings"
)

// ghRepository is a repository in bodies of GitHub and Gitea.
type ghRepository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	HTMLURL       string `json:"html_url"`
	CloneURL      string `json:"clone_url"`
	SSHURL        string `json:"ssh_url"`
	DefaultBranch string `json:"default_branch"`
	Owner         struct {
		Login string `json:"login"`
	} `json:"owner"`
}

func (r *ghRepository) repository() Repository {
	if r == nil {
		return Repository{}
	}
	return Repository{Path: r.FullName, URLs: present(r.CloneURL, r.SSHURL, r.HTMLURL), DefaultBranch: r.DefaultBranch}
}

type ghPerson struct {
	Name     string `json:"name"`
	Email    string `json:"email"`
	Username string `json:"username"`
	Login    string `json:"login"`
}

type ghCommit struct {
	ID      string   `json:"id"`
	Message string   `json:"message"`
	Author  ghPerson `json:"author"`
}

func (c ghCommit) author() Person {
	return Person{Username: c.Author.Username, Name: c.Author.Name, Email: c.Author.Email}
}

type ghLabel struct {
	Name string `json:"name"`
}

// ghBody has the fields of all events of GitHub and Gitea that are read.
type ghBody struct {
	Action     string        `json:"action"`
	Repository *ghRepository `json:"repository"`
	Sender     ghPerson      `json:"sender"`

	// Pushes, and created and deleted refs.
	Ref        string    `json:"ref"`
	RefType    string    `json:"ref_type"`
	After      string    `json:"after"`
	Deleted    bool      `json:"deleted"`
	HeadCommit *ghCommit `json:"head_commit"`

	// Pull requests.
	Number      int64    `json:"number"`
	PullRequest *ghPull  `json:"pull_request"`
	Label       *ghLabel `json:"label"`
	Changes     struct {
		Base *struct{} `json:"base"`
		Ref  *struct{} `json:"ref"` // Gitea
	} `json:"changes"`

	MergeGroup *struct {
		HeadSHA    string    `json:"head_sha"`
		HeadRef    string    `json:"head_ref"`
		BaseSHA    string    `json:"base_sha"`
		BaseRef    string    `json:"base_ref"`
		HeadCommit *ghCommit `json:"head_commit"`
	} `json:"merge_group"`

	Deployment *struct {
		SHA         string   `json:"sha"`
		Ref         string   `json:"ref"`
		Description string   `json:"description"`
		Creator     ghPerson `json:"creator"`
	} `json:"deployment"`
}

type ghPull struct {
	Number int64     `json:"number"`
	Title  string    `json:"title"`
	Draft  bool      `json:"draft"`
	Labels []ghLabel `json:"labels"`
	User   ghPerson  `json:"user"`
	Flow   int64     `json:"flow"` // Forgejo: 1 is a pull request that was pushed to refs/for/BRANCH, see agit
	Head   ghSide    `json:"head"`
	Base   ghSide    `json:"base"`
}

type ghSide struct {
	Ref  string        `json:"ref"`
	SHA  string        `json:"sha"`
	Repo *ghRepository `json:"repo"` // null when it was deleted
}

func parseGitHub(event string, body []byte) ([]Event, error) {
	var b ghBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	e := Event{Kind: Other, Action: b.Action, Repository: b.Repository.repository()}
	switch event {
	case "ping":
		e.Kind = Ping
	case "push":
		b.push(&e)
	case "pull_request":
		b.pull(&e, githubChanges)
	case "merge_group":
		b.mergeGroup(&e)
	case "deployment":
		if d := b.Deployment; d != nil {
			e.Kind, e.Commit, e.Message = Deployment, d.SHA, d.Description
			e.Author = Person{Username: d.Creator.Login, Name: d.Creator.Name, Email: d.Creator.Email}
			e.Branch = strings.TrimPrefix(d.Ref, "refs/heads/")
			if d.Ref == d.SHA {
				e.Branch = ""
			}
		}
	case "fork":
		e.Kind = Fork
	}
	return []Event{e}, nil
}

func parseGitea(event string, body []byte) ([]Event, error) {
	var b ghBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	e := Event{Kind: Other, Action: b.Action, Repository: b.Repository.repository()}
	switch event {
	case "push":
		b.push(&e)
	case "delete":
		// Gitea reports a deleted branch with this event alone.
		e.Deleted = true
		switch b.RefType {
		case "branch":
			e.Kind, e.Branch = Push, strings.TrimPrefix(b.Ref, "refs/heads/")
		case "tag":
			e.Kind, e.Tag = Tag, strings.TrimPrefix(b.Ref, "refs/tags/")
		}
	case "pull_request", "pull_request_sync", "pull_request_label":
		b.pull(&e, giteaChanges)
	}
	return []Event{e}, nil
}

func (b *ghBody) push(e *Event) {
	e.ref(b.Ref)
	e.Deleted = b.Deleted || noCommit(b.After)
	if e.Deleted {
		return
	}
	e.Commit = b.After
	if c := b.HeadCommit; c != nil {
		e.Message, e.Author = c.Message, c.author()
		if c.ID != "" {
			e.Commit = c.ID // after is the tag itself when it is annotated
		}
	}
}

var githubChanges = map[string]Change{
	"opened":           ChangeOpened,
	"reopened":         ChangeOpened,
	"synchronize":      ChangeCommits,
	"labeled":          ChangeLabels,
	"unlabeled":        ChangeLabels,
	"ready_for_review": ChangeReady,
	"closed":           ChangeClosed,
}

var giteaChanges = map[string]Change{
	"opened":        ChangeOpened,
	"reopened":      ChangeOpened,
	"synchronized":  ChangeCommits,
	"synchronize":   ChangeCommits,
	"label_updated": ChangeLabels,
	"label_cleared": ChangeLabels,
	"closed":        ChangeClosed,
}

func (b *ghBody) pull(e *Event, changes map[string]Change) {
	pr := b.PullRequest
	if pr == nil {
		return
	}
	e.Kind, e.Branch, e.Commit, e.Message = PullRequest, pr.Head.Ref, pr.Head.SHA, pr.Title
	e.Author = Person{Username: pr.User.Login, Name: pr.User.Name, Email: pr.User.Email}
	p := &Pull{Number: strconv.FormatInt(max(b.Number, pr.Number), 10), Base: pr.Base.Ref, Draft: pr.Draft, Change: ChangeOther}
	if change, ok := changes[b.Action]; ok {
		p.Change = change
	} else if b.Action == "edited" && (b.Changes.Base != nil || b.Changes.Ref != nil) {
		p.Change = ChangeBase
	}
	for _, l := range pr.Labels {
		p.Labels = append(p.Labels, l.Name)
	}
	if b.Label != nil {
		p.Label = b.Label.Name
	}
	p.Head = pr.Head.Repo.repository()
	if pr.Head.Repo != nil {
		p.Owner = pr.Head.Repo.Owner.Login
	}
	p.Fork = pr.Head.Repo == nil || b.Repository == nil || !sameGH(pr.Head.Repo, b.Repository) || pr.agit()
	e.Pull = p
}

// agit reports whether the commits were pushed to refs/for/BRANCH of the base repository. Gitea and Forgejo allow that to
// everyone who can read it, so they are as foreign as those of a fork, although the head repository is the base.
func (pr *ghPull) agit() bool { return pr.Flow != 0 || strings.HasPrefix(pr.Head.Ref, "refs/") }

// sameGH reports whether two repositories are the same. Their paths decide: ids are missing in some bodies.
func sameGH(a, b *ghRepository) bool {
	return a.FullName != "" && strings.EqualFold(a.FullName, b.FullName) && a.ID == b.ID
}

func (b *ghBody) mergeGroup(e *Event) {
	g := b.MergeGroup
	if g == nil {
		return
	}
	switch b.Action {
	case "checks_requested":
		e.Kind = MergeGroup
	case "destroyed":
		e.Kind = MergeGroupFinished
	default:
		return
	}
	e.Branch, e.Commit = strings.TrimPrefix(g.HeadRef, "refs/heads/"), g.HeadSHA
	if c := g.HeadCommit; c != nil {
		e.Message, e.Author = c.Message, c.author()
	}
	e.Queue = &Queue{BaseBranch: strings.TrimPrefix(g.BaseRef, "refs/heads/"), BaseCommit: g.BaseSHA}
}
