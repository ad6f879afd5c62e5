package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

// A resource describes objects of the API that are listed, viewed, created, edited and deleted in the same way.
type resource struct {
	noun    string   // for commands and messages: "secret"
	called  string   // the API's name of an object; "": noun
	about   string   // "secrets of a cluster"
	none    string   // says that there are none; "": from about
	path    string   // of the collection below the organization's path; for a clustered one, below the cluster's
	prefix  string   // of the organization's path; "": /v2/organizations/
	cluster bool     // the objects belong to a cluster
	arg     string   // name of the argument
	names   []string // fields whose values name an object, besides id
	columns []shown
	lines   []shown
	inputs  []input

	creates     string // field that the argument of create sets; "": there is no create
	createPath  string // where create posts to; "": path
	createShort string
	editMethod  string                                                 // "": PATCH
	edit        func(r *remote, one string, body map[string]any) error // before the edit; may remove fields from body
	deleteShort string
	deletes     string            // what delete is called in its question, for example "De-register"; "": Delete
	document    string            // field that view prints alone with a flag of its name; "": none
	without     []string          // commands that the API has not
	example     map[string]string // of a command
	long        map[string]string // description of a command
}

// shown is a field that is shown. A path leads into objects: provider.name.
type shown struct {
	title, path string
	text        func(r *remote, o object) string // nil: the field as it is
}

// fields returns what is shown: the path of each field, and its title if it is another.
func fields(texts ...string) (all []shown) {
	for _, text := range texts {
		path, title, _ := strings.Cut(text, " ")
		all = append(all, shown{title: cmp.Or(title, path), path: path})
	}
	return all
}

// of returns what is shown of an object.
func (s shown) of(r *remote, o object) string {
	if s.text != nil {
		return s.text(r, o)
	}
	return r.text(o, s.path)
}

// An object is an object of the API.
type object = map[string]any

func (res *resource) commands() []*cobra.Command {
	all := []*cobra.Command{res.listCommand(), res.viewCommand(), res.createCommand(), res.editCommand(), res.deleteCommand()}
	all = slices.DeleteFunc(all, func(cmd *cobra.Command) bool {
		return cmd == nil || slices.Contains(res.without, cmd.Name())
	})
	for _, cmd := range all {
		cmd.Example, cmd.Long = res.example[cmd.Name()], res.long[cmd.Name()]
	}
	return all
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
		r.inCluster = c
		return r.under("/clusters/%"+path, c.ID)
	}
	full, err := r.under(path)
	if res.prefix != "" {
		full = res.prefix + strings.TrimPrefix(full, "/v2/organizations/")
	}
	return full, err
}

func (res *resource) listCommand() *cobra.Command {
	return res.remote(addWebFlag(&cobra.Command{Use: "list", Short: "List " + res.about}), func(r *remote, collection string, _ []string) error {
		if r.web {
			return r.openPage("")
		}
		list, err := api.All[object](r.ctx, r.Client, collection+"?per_page=100", 10_000)
		if err != nil {
			return r.explain(err, "", nil)
		}
		var columns []column[object]
		for _, c := range res.columns {
			columns = append(columns, column[object]{c.title, func(o object) string { return c.of(r, o) }})
		}
		return printTable(r, list, cmp.Or(res.none, "There are no "+res.about+"."), columns...)
	})
}

// isID matches the id of an object.
var isID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString

// find returns the object that a name or an id names.
func (res *resource) find(r *remote, collection, name string) (object, error) {
	if isID(name) && res.prefix == "" {
		got, err := api.One[object](r.ctx, r.Client, get, collection+"/"+name, nil)
		if refusal, ok := errors.AsType[*api.Error](err); ok && refusal.Status == http.StatusNotFound && strings.EqualFold(refusal.Message, "No "+cmp.Or(res.called, res.noun)+" found") {
			return nil, fmt.Errorf("%s %q not found; see stackyard %s list", res.noun, name, res.noun)
		}
		return got.Value, r.explain(err, "", nil)
	}
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
	cmd := addWebFlag(&cobra.Command{Use: "view " + res.arg, Aliases: []string{"show"}, Short: "Show " + res.one(), Args: cmdline.Exactly(res.arg)})
	if res.document != "" {
		cmd.Flags().Bool(res.document, false, "print only its "+res.document)
	}
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		o, err := res.find(r, collection, args[0])
		if err != nil {
			return err
		}
		got, err := api.One[object](r.ctx, r.Client, get, collection+"/"+res.segment(r, o), nil)
		if err != nil {
			return err
		}
		if alone := cmd.Flags().Lookup(res.document); alone != nil && alone.Changed {
			_, err := fmt.Fprint(r.out, got.Value[res.document])
			return err
		}
		return res.print(r, got, line{})
	})
}

// action adds a command that acts on the object that its argument names. one is the object's path.
func (res *resource) action(cmd *cobra.Command, act func(r *remote, one string, o object) error) *cobra.Command {
	cmd.Use += " " + res.arg
	cmd.Args = cmdline.Exactly(res.arg)
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		o, err := res.find(r, collection, args[0])
		if err != nil {
			return err
		}
		return act(r, collection+"/"+res.segment(r, o), o)
	})
}

// one returns the noun with its article.
func (res *resource) one() string {
	if strings.Contains("aeio", res.noun[:1]) {
		return "an " + res.noun
	}
	return "a " + res.noun
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
		lines = append(lines, line{s.title, s.of(r, got.Value)})
	}
	return printItem(r, got.Raw, lines...)
}

func (res *resource) createCommand() *cobra.Command {
	if res.creates == "" {
		return nil
	}
	short := res.createShort
	if short == "" {
		short = "Create " + res.one()
	}
	cmd := &cobra.Command{Use: "create " + strings.ToUpper(res.creates), Short: short, Args: cmdline.Exactly(strings.ToUpper(res.creates))}
	fields := res.addInputs(cmd, func(in input) bool { return in.create || !in.edit })
	return res.remote(cmd, func(r *remote, collection string, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		body[res.creates] = args[0]
		for _, in := range res.inputs {
			if _, ok := body[in.field]; in.blank && !ok {
				body[in.field] = ""
			}
		}
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
	cmd := &cobra.Command{Use: "edit " + res.arg, Aliases: []string{"update"}, Short: "Change the given attributes of " + res.one(), Args: cmdline.Exactly(res.arg)}
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
		short = "Delete " + res.one()
	}
	cmd := addYesFlag(&cobra.Command{Use: "delete", Aliases: strings.Fields("remove " + strings.ToLower(res.deletes)), Short: short})
	return res.action(cmd, func(r *remote, one string, o object) error {
		name := r.text(o, res.names[0])
		verb := cmp.Or(res.deletes, "Delete")
		if err := r.confirm(verb + " the " + res.noun + " " + name); err != nil {
			return err
		}
		if err := r.Do(r.ctx, remove, one, nil, nil); err != nil {
			return err
		}
		return r.println(strings.TrimSuffix(verb, "e") + "ed the " + res.noun + " " + plain(name) + ".")
	})
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
		if at, err := time.Parse(time.RFC3339, v); err == nil && (strings.HasSuffix(path, "_at") || strings.HasSuffix(path, "_on")) {
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
