package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

// A resource describes objects of the API that are listed, viewed, created, edited and deleted in the same way.
type resource struct {
	noun    string // for commands and messages: "secret"
	about   string // "secrets of a cluster"
	path    string // of the collection below the organization's path; for a clustered one, below the cluster's
	prefix  string // of the organization's path; "": /v2/organizations/
	cluster bool   // the objects belong to a cluster
	arg     string // name of the argument
	names   []string
	columns []shown
	lines   []shown
	inputs  []input

	creates     string // field that the argument of create sets; "": there is no create
	createPath  string // where create posts to; "": path
	createShort string
	editMethod  string                                                 // "": PATCH
	edit        func(r *remote, one string, body map[string]any) error // before the edit; may remove fields from body
	deleteShort string
	only        []string // commands to add to another group; nil: all
}

// shown is a field that is shown. A path leads into objects: provider.name.
type shown struct{ title, path string }

// An input is a flag that sets a field.
type input struct {
	flag, field, usage string
	kind               inputKind
	create, edit       bool // whether the commands have it; neither: both have
}

type inputKind int

const (
	textInput  inputKind = iota
	onOffInput           // a boolean
	fileInput            // text from a file that other users cannot see, or from standard input for -
	pairsInput           // KEY=VALUE, repeatable: an object
	listInput            // repeatable: a list of texts
	namesInput           // repeatable: an object with true for each name
)

// An object is an object of the API.
type object = map[string]any

func (res *resource) commands() []*cobra.Command {
	all := []*cobra.Command{res.listCommand(), res.viewCommand(), res.createCommand(), res.editCommand(), res.deleteCommand()}
	return slices.DeleteFunc(all, func(cmd *cobra.Command) bool {
		return cmd == nil || res.only != nil && !slices.Contains(res.only, cmd.Name())
	})
}

// group returns a command with the commands of the resource.
func (res *resource) group(others ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: res.noun, Short: "Manage " + res.about}
	cmd.AddCommand(res.commands()...)
	cmd.AddCommand(others...)
	return cmd
}

// remote makes a command call the server, in a cluster if the objects belong to one.
func (res *resource) remote(cmd *cobra.Command, run func(r *remote, collection string, args []string) error) *cobra.Command {
	if res.cluster {
		addClusterFlag(cmd)
	}
	return remoteCommand(cmd, func(r *remote, args []string) error {
		collection, err := res.collection(r, res.path)
		if err != nil {
			return err
		}
		return run(r, collection, args)
	})
}

// collection returns the path of a collection.
func (res *resource) collection(r *remote, path string) (string, error) {
	if res.cluster {
		c, err := r.cluster(r.cmd)
		if err != nil {
			return "", err
		}
		return r.under("/clusters/%"+path, c.ID)
	}
	full, err := r.under(path)
	if res.prefix != "" {
		full = res.prefix + strings.TrimPrefix(full, "/v2/organizations/")
	}
	return full, err
}

func (res *resource) listCommand() *cobra.Command {
	return res.remote(&cobra.Command{Use: "list", Short: "List " + res.about}, func(r *remote, collection string, _ []string) error {
		list, err := api.All[object](r.ctx, r.Client, collection+"?per_page=100", 10_000)
		if err != nil {
			return r.explain(err, "", nil)
		}
		var columns []column[object]
		for _, c := range res.columns {
			columns = append(columns, column[object]{c.title, func(o object) string { return r.text(o, c.path) }})
		}
		return printTable(r, list, "There are no "+res.about+".", columns...)
	})
}

// find returns the object that a name or an id names.
func (res *resource) find(r *remote, collection, name string) (object, error) {
	list, err := api.All[object](r.ctx, r.Client, collection+"?per_page=100", 10_000)
	if err != nil {
		return nil, r.explain(err, "", nil)
	}
	var found []object
	var known []string
	for _, o := range list.Items {
		for _, field := range append(res.names, "id") {
			text := r.text(o, field)
			if field != "id" {
				known = append(known, text)
			}
			if strings.EqualFold(text, name) && text != "" {
				found = append(found, o)
				break
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%s %q not found; %s", res.noun, name, elsewhere(name, known, "stackyard "+res.noun+" list"))
	}
	return nil, fmt.Errorf("%d objects are called %q; use the id of one, see stackyard %s list", len(found), name, res.noun)
}

func (res *resource) viewCommand() *cobra.Command {
	cmd := addWebFlag(&cobra.Command{Use: "view " + res.arg, Short: "Show a " + res.noun, Args: cmdline.Exactly(res.arg)})
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		o, err := res.find(r, collection, args[0])
		if err != nil {
			return err
		}
		got, err := api.One[object](r.ctx, r.Client, get, collection+"/"+res.segment(r, o), nil)
		if err != nil {
			return err
		}
		return res.print(r, got, line{})
	})
}

// segment returns what the path of an object ends with.
func (res *resource) segment(r *remote, o object) string {
	if res.prefix != "" { // suites are found by slug only
		return r.text(o, "slug")
	}
	return r.text(o, "id")
}

// print prints an object after a first line.
func (res *resource) print(r *remote, got api.Item[object], first line) error {
	lines := []line{first}
	for _, s := range res.lines {
		lines = append(lines, line{s.title, r.text(got.Value, s.path)})
	}
	return printItem(r, got.Raw, lines...)
}

func (res *resource) createCommand() *cobra.Command {
	if res.creates == "" {
		return nil
	}
	short := res.createShort
	if short == "" {
		short = "Create a " + res.noun
	}
	cmd := &cobra.Command{Use: "create " + strings.ToUpper(res.creates), Short: short, Args: cmdline.Exactly(strings.ToUpper(res.creates))}
	fields := res.addInputs(cmd, func(in input) bool { return in.create || !in.edit })
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		body[res.creates] = args[0]
		if res.createPath != "" {
			if collection, err = res.collection(r, res.createPath); err != nil {
				return err
			}
		}
		made, err := api.One[object](r.ctx, r.Client, post, collection, body)
		if err != nil {
			return err
		}
		return res.print(r, made, line{"Created", args[0]})
	})
}

func (res *resource) editCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "edit " + res.arg, Short: "Change the given attributes of a " + res.noun, Args: cmdline.Exactly(res.arg)}
	fields := res.addInputs(cmd, func(in input) bool { return in.edit || !in.create })
	if !cmd.Flags().HasFlags() {
		return nil
	}
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return cmdline.Usage(fmt.Errorf("nothing to change\nSee %s --help", cmd.CommandPath()))
		}
		o, err := res.find(r, collection, args[0])
		if err != nil {
			return err
		}
		one := collection + "/" + res.segment(r, o)
		if res.edit != nil {
			if err := res.edit(r, one, body); err != nil {
				return err
			}
		}
		method := res.editMethod
		if method == "" {
			method = patch
		}
		if len(body) == 0 {
			method = get
		}
		var sent any
		if len(body) > 0 {
			sent = body
		}
		changed, err := api.One[object](r.ctx, r.Client, method, one, sent)
		if err != nil {
			return err
		}
		return res.print(r, changed, line{"Changed", args[0]})
	})
}

func (res *resource) deleteCommand() *cobra.Command {
	short := res.deleteShort
	if short == "" {
		short = "Delete a " + res.noun
	}
	cmd := addYesFlag(&cobra.Command{Use: "delete " + res.arg, Short: short, Args: cmdline.Exactly(res.arg)})
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		o, err := res.find(r, collection, args[0])
		if err != nil {
			return err
		}
		name := r.text(o, res.names[0])
		if err := r.confirm("Delete the " + res.noun + " " + name); err != nil {
			return err
		}
		if err := r.Do(r.ctx, remove, collection+"/"+res.segment(r, o), nil, nil); err != nil {
			return err
		}
		return r.println("Deleted the " + res.noun + " " + plain(name) + ".")
	})
}

// addInputs adds the flags of some inputs, and returns a function that returns the fields that were given.
func (res *resource) addInputs(cmd *cobra.Command, wanted func(input) bool) func() (map[string]any, error) {
	flags := cmd.Flags()
	var inputs []input
	for _, in := range res.inputs {
		if !wanted(in) {
			continue
		}
		inputs = append(inputs, in)
		switch in.kind {
		case onOffInput:
			flags.Bool(in.flag, false, in.usage)
		case pairsInput, listInput, namesInput:
			flags.StringArray(in.flag, nil, in.usage)
		default:
			flags.String(in.flag, "", in.usage)
		}
	}
	return func() (map[string]any, error) {
		body := map[string]any{}
		for _, in := range inputs {
			if !flags.Changed(in.flag) {
				continue
			}
			value, err := in.value(cmd)
			if err != nil {
				return nil, err
			}
			body[in.field] = value
		}
		return body, nil
	}
}

// value returns the value of the flag.
func (in input) value(cmd *cobra.Command) (any, error) {
	flags := cmd.Flags()
	texts, _ := flags.GetStringArray(in.flag)
	switch in.kind {
	case onOffInput:
		return flags.GetBool(in.flag)
	case listInput:
		return texts, nil
	case pairsInput:
		given, err := cmdline.Pairs(in.flag, texts)
		values := object{}
		for name, text := range given {
			values[name] = jsonOrText(text)
		}
		return values, err
	case namesInput:
		values := object{}
		for _, name := range texts {
			values[name] = true
		}
		return values, nil
	case fileInput:
		text, err := readSecretFile(cmd, flags.Lookup(in.flag).Value.String())
		if err != nil {
			return nil, cmdline.Usage(fmt.Errorf("--%s: %w", in.flag, err))
		}
		if text == "" {
			return nil, cmdline.Usage(fmt.Errorf("--%s: %w", in.flag, errors.New("the file is empty")))
		}
		return text, nil
	}
	return flags.GetString(in.flag)
}

// jsonOrText returns true, false, numbers, lists and objects as JSON values, and all else as a text.
func jsonOrText(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return text
	}
	return value
}

// text formats a field of an object for people.
func (r *remote) text(o object, path string) string {
	var value any = o
	for name := range strings.SplitSeq(path, ".") {
		inner, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = inner[name]
	}
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil && strings.HasSuffix(path, "_at") {
			return r.when(&at)
		}
		return v
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var parts []string
		for _, part := range v {
			parts = append(parts, fmt.Sprint(part))
		}
		return strings.Join(parts, " ")
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if v[name] != nil && v[name] != false && v[name] != "" {
				parts = append(parts, fmt.Sprintf("%s=%v", name, v[name]))
			}
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint(value)
}
