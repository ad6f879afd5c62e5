package definition

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Command describes a command step.
type Command struct {
	// Script holds the commands, one per line; empty when plugins or hooks do the work.
	Script  string
	Plugins []Plugin
	// Agents are the agent query rules, each key=value.
	Agents []string
	Env    Env
	// ArtifactPaths are separated by semicolons.
	ArtifactPaths string

	// Parallelism, when set, creates that many jobs; zero creates one that never runs. At most one of
	// Parallelism and Matrix is set.
	Parallelism *int
	Matrix      *Matrix
	Concurrency *Concurrency

	// Priority and TimeoutInMinutes are nil for the defaults of the pipeline or organization.
	Priority             *int
	TimeoutInMinutes     *int
	SoftFail             SoftFail
	CancelOnBuildFailing bool
	Retry                Retry
}

// Concurrency limits how many jobs of a group run at the same time, across the organization.
type Concurrency struct {
	Group  string
	Limit  int
	Method ConcurrencyMethod
}

// ConcurrencyMethod is the order in which jobs of a group start.
type ConcurrencyMethod string

// Concurrency methods.
const (
	Ordered ConcurrencyMethod = "ordered" // in order of creation
	Eager   ConcurrencyMethod = "eager"   // as soon as possible, highest priority first
)

// maxConcurrencyGroup is the maximum length of a group name, in characters.
const maxConcurrencyGroup = 200

// command reads the attributes of a command step.
func (m *mapping) command() *Command {
	c := &Command{
		Script:               strings.Join(m.get("command", "commands", "script").texts(), "\n"),
		Plugins:              m.get("plugins").plugins(),
		Agents:               m.get("agents", "agent_query_rules").agents(),
		Env:                  m.get("env").env(),
		ArtifactPaths:        strings.Join(m.get("artifact_paths", "artifacts").texts(), ";"),
		Parallelism:          m.get("parallelism").integer(0, maxJobs),
		Matrix:               m.get("matrix").matrix(),
		Concurrency:          m.concurrency(),
		Priority:             m.get("priority").integer(minInteger, maxInteger),
		TimeoutInMinutes:     m.get("timeout_in_minutes", "timeout").integer(1, maxInteger),
		SoftFail:             m.get("soft_fail").softFail(),
		CancelOnBuildFailing: m.get("cancel_on_build_failing").boolean(false),
		Retry:                m.get("retry").retry(),
	}
	if c.Parallelism != nil && c.Matrix != nil {
		m.r.problem(m.key("parallelism"), "parallelism and matrix cannot stand together; add a dimension to the matrix instead")
	}
	if c.Matrix != nil {
		m.checkPlaceholders(c.Matrix)
	}
	return c
}

// concurrency reads the three attributes of a concurrency group. The first two require each other.
func (m *mapping) concurrency() *Concurrency {
	limit, group, method := m.get("concurrency"), m.get("concurrency_group"), m.get("concurrency_method")
	c := &Concurrency{Group: group.text(), Method: Ordered}
	if n := limit.integer(1, maxInteger); n != nil {
		c.Limit = *n
	}
	if word := method.oneOf(string(Ordered), string(Eager)); word != "" {
		c.Method = ConcurrencyMethod(word)
	}
	if n := utf8.RuneCountInString(c.Group); n > maxConcurrencyGroup {
		m.r.problem(group.node, "concurrency_group must be at most %d characters, found %d", maxConcurrencyGroup, n)
	}
	switch {
	case limit.pending():
		return nil
	case limit.set() && group.set():
		if group.is(yaml.ScalarNode) && c.Group == "" {
			group.must("a name")
		}
		return c
	case limit.set():
		m.r.problem(m.key("concurrency"), "concurrency needs a concurrency_group beside it")
	case group.set():
		m.r.problem(m.key("concurrency_group"), "concurrency_group needs a concurrency beside it")
	case method.set():
		m.r.problem(m.key("concurrency_method"), "concurrency_method needs a concurrency and a concurrency_group beside it")
	}
	return nil
}

// plugins reads a list of plugins or a mapping of sources to configurations. An item of the list is a source,
// or a mapping with one source as its key.
func (v value) plugins() []Plugin {
	if v.is(yaml.MappingNode) {
		return v.pluginMap()
	}
	var plugins []Plugin
	for _, item := range v.list("a list of plugins, or a mapping of plugins to their configuration") {
		switch {
		case item.is(yaml.ScalarNode) && item.node.Value != "":
			plugins = append(plugins, Plugin{Source: item.node.Value})
		case item.is(yaml.MappingNode):
			one := item.pluginMap()
			if len(one) != 1 && !v.r.aborted {
				v.r.problem(item.node, "a plugin must be a mapping with its source as the one key, found %d keys", len(one))
			}
			plugins = append(plugins, one...)
		default:
			item.name = "a plugin"
			item.must("its source, or a mapping from its source to its configuration")
		}
	}
	return plugins
}

func (v value) pluginMap() []Plugin {
	var plugins []Plugin
	for _, e := range v.mapping("").entries {
		plugins = append(plugins, Plugin{e.name, v.r.value(e.value, v.name).plain()})
	}
	return plugins
}
