package identity

import (
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/seal"
)

// maxDeclared is the maximum length of the description and of the value of a token in an organization file.
const maxDeclared = 255

// CheckDeclared reports errors in the description and the value of a token in an organization file. noun names it:
// "an agent token".
func CheckDeclared(c *core.Complaints, line int, noun, description, value string) {
	if strings.TrimSpace(description) == "" || utf8.RuneCountInString(description) > maxDeclared {
		c.Add(line, "%s needs a description of 1 to %d characters", noun, maxDeclared)
	}
	if len(value) > maxDeclared || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		c.Add(line, "a token must have at most %d characters and no spaces", maxDeclared)
	}
}

// A DeclaredToken is an access token or agent token in an organization file, with functions that read and write
// tokens of its kind. T is the stored token.
type DeclaredToken[T any] struct {
	Line        int
	ID          string // "": any
	Value       string // "": generated once
	Description string

	Kind   string // in the list of changes: "agent_token"
	Name   string // in the list of changes: "acme/Default/boot"
	Noun   string // in complaints: "agent token"
	Owner  string // in complaints: "another cluster"
	Prefix string // of generated values

	// ByHash finds a token of any owner, ByDescription one of the owner in the file. The error is NotFound if
	// there is none.
	ByHash        func(hash string) (T, error)
	ByDescription func() (T, error)
	// Owned returns the id of a token and whether it belongs to the owner in the file.
	Owned  func(T) (id string, owned bool)
	FreeID func(given string) (id string, free bool, err error)
	// Merge writes the fields that the file gives into a token; hash is "" if the file gives no value.
	Merge  func(t *T, hash string)
	Same   func(a, b T) bool
	Insert func(id string, t T) error
	Update func(t, before T) error
}

// Apply creates or updates the token. The value identifies it if the file gives one, else the description.
func (d DeclaredToken[T]) Apply(in Applying) error {
	known, err := d.find()
	if core.KindOf(err) == core.NotFound {
		return d.create(in)
	}
	if err != nil {
		return err
	}
	id, owned := d.Owned(known)
	if !owned {
		in.Complaints.Add(d.Line, "this token already belongs to %s", d.Owner)
		return nil
	}
	if given, ok := core.ParseID(d.ID); ok && given != id {
		in.Complaints.Add(d.Line, "the %s %q exists with the id %s, which cannot be changed", d.Noun, d.Description, id)
		return nil
	}
	wanted := known
	d.Merge(&wanted, d.hash())
	if d.Same(wanted, known) {
		return nil
	}
	in.Changes.Changed(d.Kind, d.Name)
	return d.Update(wanted, known)
}

func (d DeclaredToken[T]) find() (T, error) {
	if d.Value != "" {
		known, err := d.ByHash(d.hash())
		if core.KindOf(err) != core.NotFound {
			return known, err
		}
	}
	return d.ByDescription()
}

func (d DeclaredToken[T]) create(in Applying) error {
	id, free, err := d.FreeID(d.ID)
	if err != nil {
		return err
	}
	if !free {
		in.Complaints.Add(d.Line, "the id %s belongs to another %s", id, d.Noun)
		return nil
	}
	in.Changes.Created(d.Kind, d.Name)
	if d.Value == "" {
		d.Value = seal.NewToken(d.Prefix)
		in.Changes.Token(d.Kind, d.Name, d.Value)
	}
	var t T
	d.Merge(&t, d.hash())
	return d.Insert(id, t)
}

// hash returns the hash of the value, or "" if there is none.
func (d DeclaredToken[T]) hash() string {
	if d.Value == "" {
		return ""
	}
	return seal.HashToken(d.Value)
}
