package pages

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// maxAll bounds how many pages of a list All reads.
const maxAll = 10

// All returns the things of a list of the API, up to a thousand.
func All[T any](v *Visit, target string) (all []T, err error) {
	for number := 1; number <= maxAll; number++ {
		var page []T
		next, err := v.Call("GET", target+"?"+url.Values{"page": {strconv.Itoa(number)}, "per_page": {"100"}}.Encode(), nil, &page)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if !next.After {
			break
		}
	}
	return all, nil
}

// A Picker finds things of the visit's organization by what people call them, for lists that are too long to choose
// from.
type Picker struct {
	what string // for messages
	list string // in the API
	// search is the parameter that searches in the list; empty: the whole list is read.
	search string
}

// The pickers.
var (
	PickPipeline = Picker{"pipeline", "pipelines", "name"}
	PickMember   = Picker{"member", "members", ""}
	PickTeam     = Picker{"team", "teams", ""}
	PickCluster  = Picker{"cluster", "clusters", ""}
)

// A picked is a thing in a response.
type picked struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Slug  string `json:"slug"`
	Email string `json:"email"`
}

// text returns what a person enters to pick it.
func (p picked) text() string {
	for _, text := range []string{p.Email, p.Slug} {
		if text != "" {
			return text
		}
	}
	return p.Name
}

// is reports whether a person can mean exactly it, and matches whether it contains what they entered.
func (p picked) is(entered string) bool {
	return strings.EqualFold(p.Slug, entered) || strings.EqualFold(p.Email, entered) || strings.EqualFold(p.Name, entered)
}

func (p picked) matches(entered string) bool {
	return strings.Contains(strings.ToLower(p.Name+"\n"+p.Slug+"\n"+p.Email), strings.ToLower(entered))
}

// Options returns the first hundred things, which a field suggests. Others can be entered too.
func (p Picker) Options(v *Visit) (options []Option, err error) {
	var list []picked
	if _, err := v.Call("GET", v.API(p.list)+"?per_page=100", nil, &list); err != nil {
		return nil, err
	}
	for _, item := range list {
		options = append(options, Option{Value: item.text(), Text: item.Name})
	}
	return options, nil
}

// SuggestBranch is what suggests branches of a pipeline.
const SuggestBranch = "branch"

// SuggestPath returns the path of suggestions: of a Picker by its name, or of branches of a pipeline.
func SuggestPath(org *identity.Organization, what, pipeline string) string {
	query := url.Values{"what": {what}}
	if pipeline != "" {
		query.Set("pipeline", pipeline)
	}
	return core.PublicURL("").To("organizations", org.Slug, "suggestions") + "?" + query.Encode()
}

// maxSuggested limits the suggestions for what is being typed.
const maxSuggested = 20

// Suggest returns things that contain what is being typed. what is the name of the Picker.
func Suggest(v *Visit, what, entered string) (options []Option, err error) {
	for _, p := range []Picker{PickPipeline, PickMember, PickTeam, PickCluster} {
		if p.what != what {
			continue
		}
		list, err := p.found(v, entered)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, item := range list {
			if !seen[item.ID] && item.matches(entered) && len(options) < maxSuggested {
				seen[item.ID] = true
				options = append(options, Option{Value: item.text(), Text: item.Name})
			}
		}
		return options, nil
	}
	return nil, core.Errorf(core.BadRequest, "what must be pipeline, member, team, cluster or branch")
}

// Field returns the field of a form in which people enter a thing.
func (p Picker) Field(v *Visit, name, label, placeholder string) (Field, error) {
	options, err := p.Options(v)
	return Field{Name: name, Label: label, Kind: PickField, Required: true, Placeholder: placeholder, Options: options, Suggest: SuggestPath(v.Org, p.what, "")}, err
}

// Names returns what people enter to pick each thing, by id, of up to a thousand.
func (p Picker) Names(v *Visit) (map[string]string, error) {
	list, err := All[picked](v, v.API(p.list))
	names := make(map[string]string, len(list))
	for _, item := range list {
		names[item.ID] = item.text()
	}
	return names, err
}

// Add finds what a person entered and calls add with its id. If it finds nothing, the page back says why.
func (p Picker) Add(v *Visit, entered, back string, add func(id string) error) error {
	id, problem, err := p.Find(v, entered)
	if err != nil {
		return err
	}
	if problem != "" {
		return v.Refused(back, "Not added. This "+problem)
	}
	return add(id)
}

// found returns what could be meant by a text.
func (p Picker) found(v *Visit, entered string) (list []picked, err error) {
	if p.search == "" {
		return All[picked](v, v.API(p.list))
	}
	if strings.TrimSpace(entered) == "" {
		_, err = v.Call("GET", v.API(p.list)+"?per_page=100", nil, &list)
		return list, err
	}
	var one picked // the search is for names; slugs and ids can be others
	if _, err := v.Call("GET", v.API(p.list, entered), nil, &one); err == nil {
		list = append(list, one)
	} else if core.KindOf(err) != core.NotFound {
		return nil, err
	}
	var more []picked
	_, err = v.Call("GET", v.API(p.list)+"?"+url.Values{p.search: {entered}, "per_page": {"100"}}.Encode(), nil, &more)
	return append(list, more...), err
}

// Find returns the id of the thing that a person entered: its id, name, slug or email, or a part that only one of them
// has. Otherwise problem says which there are.
func (p Picker) Find(v *Visit, entered string) (id, problem string, err error) {
	entered = strings.TrimSpace(entered)
	if entered == "" {
		return "", "can't be blank", nil
	}
	if id, ok := core.ParseID(entered); ok {
		return id, "", nil // the API says what is wrong with it
	}
	list, err := p.found(v, entered)
	if err != nil {
		return "", "", err
	}
	var near []picked
	for _, item := range list {
		if item.is(entered) {
			return item.ID, "", nil
		}
		if item.matches(entered) {
			near = append(near, item)
		}
	}
	if len(near) == 1 {
		return near[0].ID, "", nil
	}
	problem = fmt.Sprintf("is no %s: %q", p.what, core.Cut(entered, 100))
	for i, item := range near[:min(len(near), 5)] {
		if i == 0 {
			problem = fmt.Sprintf("is several %ss: ", p.what)
		} else {
			problem += ", "
		}
		problem += item.text()
	}
	if len(near) > 5 {
		problem += fmt.Sprintf(" and %d more", len(near)-5)
	}
	return "", problem, nil
}
