package hookpayload

import (
	"strconv"
	"strings"
)

type bbRepository struct {
	UUID     string `json:"uuid"`
	FullName string `json:"full_name"`
	Links    struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
	} `json:"links"`
	MainBranch struct {
		Name string `json:"name"`
	} `json:"mainbranch"`
}

func (r *bbRepository) repository() Repository {
	if r == nil {
		return Repository{}
	}
	return Repository{Path: r.FullName, URLs: present(r.Links.HTML.Href), DefaultBranch: r.MainBranch.Name}
}

type bbUser struct {
	Nickname    string `json:"nickname"`
	DisplayName string `json:"display_name"`
}

type bbTarget struct {
	Hash    string `json:"hash"`
	Message string `json:"message"`
	Author  struct {
		Raw  string `json:"raw"` // "Ada <ada@example.test>"
		User bbUser `json:"user"`
	} `json:"author"`
}

type bbRef struct {
	Type   string   `json:"type"`
	Name   string   `json:"name"`
	Target bbTarget `json:"target"`
}

type bbBody struct {
	Repository *bbRepository `json:"repository"`
	Push       struct {
		Changes []struct {
			Old *bbRef `json:"old"`
			New *bbRef `json:"new"` // null when it was deleted
		} `json:"changes"`
	} `json:"push"`
	PullRequest *struct {
		ID          int64  `json:"id"`
		Title       string `json:"title"`
		Draft       bool   `json:"draft"`
		Author      bbUser `json:"author"`
		Source      bbSide `json:"source"`
		Destination bbSide `json:"destination"`
	} `json:"pullrequest"`
}

type bbSide struct {
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
	Commit struct {
		Hash string `json:"hash"`
	} `json:"commit"`
	Repository *bbRepository `json:"repository"`
}

func parseBitbucket(event string, body []byte) ([]Event, error) {
	var b bbBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	e := Event{Kind: Other, Repository: b.Repository.repository()}
	switch {
	case event == "repo:push":
		return b.pushes(e), nil
	case strings.HasPrefix(event, "pullrequest:") && b.PullRequest != nil:
		b.pull(&e, strings.TrimPrefix(event, "pullrequest:"))
	}
	return []Event{e}, nil
}

func (b *bbBody) pushes(base Event) []Event {
	var list []Event
	for _, c := range b.Push.Changes {
		e, ref := base, c.New
		if ref == nil {
			ref, e.Deleted = c.Old, true
		}
		if ref == nil {
			continue
		}
		switch ref.Type {
		case "branch", "named_branch":
			e.Kind, e.Branch = Push, ref.Name
		case "tag", "annotated_tag":
			e.Kind, e.Tag = Tag, ref.Name
		}
		if !e.Deleted {
			e.Commit, e.Message = ref.Target.Hash, ref.Target.Message
			e.Author = rawAuthor(ref.Target.Author.Raw)
			e.Author.Username = ref.Target.Author.User.Nickname
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		list = []Event{base}
	}
	return list
}

// rawAuthor parses the author of a commit as Git writes it.
func rawAuthor(raw string) Person {
	name, rest, found := strings.Cut(raw, "<")
	if !found {
		return Person{Name: strings.TrimSpace(raw)}
	}
	email, _, _ := strings.Cut(rest, ">")
	return Person{Name: strings.TrimSpace(name), Email: email}
}

func (b *bbBody) pull(e *Event, action string) {
	pr := b.PullRequest
	e.Kind, e.Action, e.Branch, e.Commit, e.Message = PullRequest, action, pr.Source.Branch.Name, pr.Source.Commit.Hash, pr.Title
	e.Author = Person{Username: pr.Author.Nickname, Name: pr.Author.DisplayName}
	p := &Pull{Number: strconv.FormatInt(pr.ID, 10), Base: pr.Destination.Branch.Name, Draft: pr.Draft, Head: pr.Source.Repository.repository(), Change: ChangeOther}
	p.Owner, _, _ = strings.Cut(p.Head.Path, "/")
	source, target := pr.Source.Repository, b.Repository
	p.Fork = source == nil || target == nil || source.FullName == "" || !strings.EqualFold(source.FullName, target.FullName) || source.UUID != target.UUID
	switch action {
	case "created":
		p.Change = ChangeOpened
	case "updated":
		p.Change = ChangeCommits // or the title: the host does not say which
	case "approved":
		p.Change = ChangeApproved
	case "fulfilled", "rejected":
		p.Change = ChangeClosed
	}
	e.Pull = p
}
