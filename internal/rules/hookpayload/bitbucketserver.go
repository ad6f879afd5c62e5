package hookpayload

import (
	"strconv"
	"strings"
)

type bsRepository struct {
	ID      int64  `json:"id"`
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
	Links struct {
		Clone []struct {
			Href string `json:"href"`
		} `json:"clone"`
	} `json:"links"`
}

func (r *bsRepository) repository() Repository {
	if r == nil {
		return Repository{}
	}
	repo := Repository{Path: r.Project.Key + "/" + r.Slug}
	for _, link := range r.Links.Clone[:min(len(r.Links.Clone), 5)] {
		repo.URLs = append(repo.URLs, link.Href)
	}
	return repo
}

type bsUser struct {
	Name         string `json:"name"`
	DisplayName  string `json:"displayName"`
	EmailAddress string `json:"emailAddress"`
}

func (u bsUser) person() Person {
	return Person{Username: u.Name, Name: u.DisplayName, Email: u.EmailAddress}
}

type bsCommit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	Author  bsUser `json:"author"`
}

type bsBody struct {
	Actor      bsUser        `json:"actor"`
	Repository *bsRepository `json:"repository"`
	Changes    []struct {
		RefID  string `json:"refId"`
		ToHash string `json:"toHash"`
		Type   string `json:"type"` // ADD, UPDATE, DELETE
	} `json:"changes"`
	ToCommit    *bsCommit `json:"toCommit"` // since version 7.15
	PullRequest *struct {
		ID     int64  `json:"id"`
		Title  string `json:"title"`
		Draft  bool   `json:"draft"`
		Author struct {
			User bsUser `json:"user"`
		} `json:"author"`
		FromRef bsRef `json:"fromRef"`
		ToRef   bsRef `json:"toRef"`
	} `json:"pullRequest"`
	PreviousTarget *struct {
		ID string `json:"id"`
	} `json:"previousTarget"`
}

type bsRef struct {
	ID           string        `json:"id"`
	DisplayID    string        `json:"displayId"`
	LatestCommit string        `json:"latestCommit"`
	Repository   *bsRepository `json:"repository"`
}

func parseBitbucketServer(event string, body []byte) ([]Event, error) {
	if event == "diagnostics:ping" {
		return []Event{{Kind: Ping}}, nil
	}
	var b bsBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	e := Event{Kind: Other, Repository: b.Repository.repository()}
	switch {
	case event == "repo:refs_changed":
		return b.pushes(e), nil
	case strings.HasPrefix(event, "pr:") && b.PullRequest != nil:
		b.pull(&e, strings.TrimPrefix(event, "pr:"))
	}
	return []Event{e}, nil
}

func (b *bsBody) pushes(base Event) []Event {
	var list []Event
	for _, c := range b.Changes {
		e := base
		e.ref(c.RefID)
		e.Deleted = c.Type == "DELETE" || noCommit(c.ToHash)
		if !e.Deleted {
			e.Commit, e.Author = c.ToHash, b.Actor.person()
			if to := b.ToCommit; to != nil && to.ID == c.ToHash {
				e.Message, e.Author = to.Message, to.Author.person()
			}
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		list = []Event{base}
	}
	return list
}

func (b *bsBody) pull(e *Event, action string) {
	pr := b.PullRequest
	e.Kind, e.Action, e.Message = PullRequest, action, pr.Title
	e.Repository = pr.ToRef.Repository.repository() // the body has no repository of its own
	e.Branch, e.Commit, e.Author = strings.TrimPrefix(pr.FromRef.ID, "refs/heads/"), pr.FromRef.LatestCommit, pr.Author.User.person()
	p := &Pull{
		Number: strconv.FormatInt(pr.ID, 10),
		Change: ChangeOther,
		Base:   strings.TrimPrefix(pr.ToRef.ID, "refs/heads/"),
		Draft:  pr.Draft,
		Head:   pr.FromRef.Repository.repository(),
	}
	from, to := pr.FromRef.Repository, pr.ToRef.Repository
	p.Fork = from == nil || to == nil || from.Slug == "" || from.ID != to.ID || !strings.EqualFold(p.Head.Path, e.Repository.Path)
	if from != nil {
		p.Owner = from.Project.Key
	}
	switch action {
	case "opened":
		p.Change = ChangeOpened
	case "from_ref_updated":
		p.Change = ChangeCommits
	case "modified":
		if b.PreviousTarget != nil && b.PreviousTarget.ID != pr.ToRef.ID {
			p.Change = ChangeBase
		}
	case "reviewer:approved":
		p.Change = ChangeApproved
	case "merged", "declined", "deleted":
		p.Change = ChangeClosed
	}
	e.Pull = p
}
