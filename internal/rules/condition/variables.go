package condition

import (
	"maps"
	"slices"
)

// A field reads a value from a part of the context.
type field[T any] struct {
	typ  valueType
	read func(*T) operand
}

// variables are available in every condition.
var variables = func() map[string]field[Context] {
	all := map[string]field[Context]{}
	addFields(all, "build.", func(c *Context) *Build { return &c.Build }, buildFields)
	addFields(all, "build.author.", func(c *Context) *Person { return c.Build.Author }, personFields)
	addFields(all, "build.creator.", func(c *Context) *Person { return c.Build.Creator }, personFields)
	addFields(all, "build.pull_request.", func(c *Context) *PullRequest { return c.Build.PullRequest }, pullRequestFields)
	addFields(all, "build.merge_queue.", func(c *Context) *MergeQueue { return c.Build.MergeQueue }, mergeQueueFields)
	addFields(all, "pipeline.", func(c *Context) *Pipeline { return &c.Pipeline }, pipelineFields)
	addFields(all, "organization.", func(c *Context) *Organization { return &c.Organization }, organizationFields)
	return all
}()

// notificationVariables are available only in conditions of notifications.
var notificationVariables = func() map[string]field[Context] {
	all := map[string]field[Context]{}
	addFields(all, "pipeline.", func(c *Context) *Pipeline { return &c.Pipeline }, outcomeFields)
	addFields(all, "step.", func(c *Context) *Step { return c.Step }, stepFields)
	return all
}()

// variableNames contains the names of both, for suggestions.
var variableNames = slices.Concat(slices.Sorted(maps.Keys(variables)), slices.Sorted(maps.Keys(notificationVariables)))

var buildFields = map[string]field[Build]{
	"id":            textField(func(b *Build) string { return b.ID }),
	"number":        {typeInteger, func(b *Build) operand { return operand{typ: typeInteger, number: b.Number} }},
	"branch":        textField(func(b *Build) string { return b.Branch }),
	"commit":        textField(func(b *Build) string { return b.Commit }),
	"tag":           nullableText(func(b *Build) *string { return b.Tag }),
	"message":       nullableText(func(b *Build) *string { return b.Message }),
	"source":        textField(func(b *Build) string { return b.Source }),
	"source_event":  nullableText(func(b *Build) *string { return b.SourceEvent }),
	"source_action": nullableText(func(b *Build) *string { return b.SourceAction }),
	"state":         textField(func(b *Build) string { return b.State }),
}

var personFields = map[string]field[Person]{
	"id":    textField(func(p *Person) string { return p.ID }),
	"name":  textField(func(p *Person) string { return p.Name }),
	"email": textField(func(p *Person) string { return p.Email }),
	"teams": nullableList(func(p *Person) []string { return p.Teams }),
}

var pullRequestFields = map[string]field[PullRequest]{
	"id":              textField(func(p *PullRequest) string { return p.ID }),
	"base_branch":     textField(func(p *PullRequest) string { return p.BaseBranch }),
	"draft":           nullableBool(func(p *PullRequest) *bool { return p.Draft }),
	"labels":          nullableList(func(p *PullRequest) []string { return p.Labels }),
	"label":           nullableText(func(p *PullRequest) *string { return p.Label }),
	"repository":      textField(func(p *PullRequest) string { return p.Repository }),
	"repository.fork": nullableBool(func(p *PullRequest) *bool { return p.Fork }),
}

var mergeQueueFields = map[string]field[MergeQueue]{
	"base_branch": textField(func(q *MergeQueue) string { return q.BaseBranch }),
	"base_commit": textField(func(q *MergeQueue) string { return q.BaseCommit }),
}

var pipelineFields = map[string]field[Pipeline]{
	"id":             textField(func(p *Pipeline) string { return p.ID }),
	"slug":           textField(func(p *Pipeline) string { return p.Slug }),
	"default_branch": textField(func(p *Pipeline) string { return p.DefaultBranch }),
	"repository":     textField(func(p *Pipeline) string { return p.Repository }),
}

var organizationFields = map[string]field[Organization]{
	"id":   textField(func(o *Organization) string { return o.ID }),
	"slug": textField(func(o *Organization) string { return o.Slug }),
}

var outcomeFields = map[string]field[Pipeline]{
	"started_passing": nullableBool(func(p *Pipeline) *bool { return p.StartedPassing }),
	"started_failing": nullableBool(func(p *Pipeline) *bool { return p.StartedFailing }),
}

var stepFields = map[string]field[Step]{
	"id":      textField(func(s *Step) string { return s.ID }),
	"key":     nullableText(func(s *Step) *string { return s.Key }),
	"label":   nullableText(func(s *Step) *string { return s.Label }),
	"type":    textField(func(s *Step) string { return s.Type }),
	"state":   textField(func(s *Step) string { return s.State }),
	"outcome": textField(func(s *Step) string { return s.Outcome }),
}

// addFields adds the fields of a part of the context to variables, with a prefix. They are null if the part is
// nil.
func addFields[T any](variables map[string]field[Context], prefix string, part func(*Context) *T, fields map[string]field[T]) {
	for suffix, f := range fields {
		variables[prefix+suffix] = field[Context]{f.typ, func(c *Context) operand {
			if p := part(c); p != nil {
				return f.read(p)
			}
			return operand{}
		}}
	}
}

func textField[T any](get func(*T) string) field[T] {
	return field[T]{typeText, func(part *T) operand { return operand{typ: typeText, text: get(part)} }}
}

func nullableText[T any](get func(*T) *string) field[T] {
	return field[T]{typeText, func(part *T) operand {
		if s := get(part); s != nil {
			return operand{typ: typeText, text: *s}
		}
		return operand{}
	}}
}

func nullableBool[T any](get func(*T) *bool) field[T] {
	return field[T]{typeBoolean, func(part *T) operand {
		if b := get(part); b != nil {
			return operand{typ: typeBoolean, boolean: *b}
		}
		return operand{}
	}}
}

func nullableList[T any](get func(*T) []string) field[T] {
	return field[T]{typeList, func(part *T) operand {
		if l := get(part); l != nil {
			return operand{typ: typeList, list: l}
		}
		return operand{}
	}}
}
