package definition

// A Key is a key that a definition can have, for editors.
type Key struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`             // what it does
	Values []string `json:"values,omitempty"` // the usual ones
}

var booleans = []string{"true", "false"}

// stepKeys are the keys of steps of every kind.
var stepKeys = []Key{
	{Name: "key", Text: "Name for depends_on"},
	{Name: "label", Text: "Shown on the build; emoji shortcodes work"},
	{Name: "depends_on", Text: "Keys of steps that run before"},
	{Name: "allow_dependency_failure", Text: "Run even if a dependency failed", Values: booleans},
	{Name: "if", Text: "Condition, such as build.branch == \"main\""},
	{Name: "branches", Text: "Branch patterns, such as main release/*"},
	{Name: "if_changed", Text: "Globs of files; checked when steps are uploaded"},
}

func keysOf(first Key, more ...Key) []Key { return append(append([]Key{first}, stepKeys...), more...) }

var (
	skipKey   = Key{Name: "skip", Text: "true or a reason: the step does not run", Values: booleans}
	notifyKey = Key{Name: "notify", Text: "Who is notified of the result"}
	fieldsKey = Key{Name: "fields", Text: "What people fill in to unblock"}
	promptKey = Key{Name: "prompt", Text: "Question to the person who unblocks"}
	envKey    = Key{Name: "env", Text: "Environment variables"}
	agentsKey = Key{Name: "agents", Text: "Which agents run it, such as queue: linux"}
)

// Keys returns the keys that editors offer: those of the document under "pipeline", of steps under their kind, and of
// mappings inside them under the key that holds the mapping.
func Keys() map[string][]Key {
	manual := []Key{promptKey, fieldsKey,
		{Name: "blocked_state", Text: "State of the build while it is blocked", Values: []string{"passed", "failed", "running"}},
		{Name: "allowed_teams", Text: "Teams that can unblock"},
	}
	return map[string][]Key{
		"pipeline": {
			{Name: "steps", Text: "The steps, in order"}, {Name: "env", Text: "Environment variables of all steps"},
			{Name: "agents", Text: "Which agents run the steps"}, {Name: "notify", Text: "Who is notified of the build"},
			{Name: "priority", Text: "Jobs with a higher number run first"},
		},
		string(KindCommand): keysOf(Key{Name: "command", Text: "Shell commands, or a list of them"},
			agentsKey, envKey, skipKey, notifyKey,
			Key{Name: "artifact_paths", Text: "Files to keep, as globs"},
			Key{Name: "timeout_in_minutes", Text: "Time limit of a job"},
			Key{Name: "parallelism", Text: "How many equal jobs run"},
			Key{Name: "matrix", Text: "One job for each combination of values"},
			Key{Name: "retry", Text: "Automatic and manual retries"},
			Key{Name: "soft_fail", Text: "A failure does not fail the build", Values: booleans},
			Key{Name: "concurrency", Text: "How many jobs of the group run at a time"},
			Key{Name: "concurrency_group", Text: "Jobs with the same group wait for each other"},
			Key{Name: "concurrency_method", Text: "Order within the group", Values: []string{"ordered", "eager"}},
			Key{Name: "plugins", Text: "Plugins that the agent runs"},
			Key{Name: "priority", Text: "Jobs with a higher number run first"},
			Key{Name: "cancel_on_build_failing", Text: "Cancel when another job failed", Values: booleans},
			Key{Name: "secrets", Text: "Secrets of the cluster, as environment variables"},
		),
		string(KindWait):  keysOf(Key{Name: "wait", Text: "Wait for all steps above", Values: []string{"~"}}, Key{Name: "continue_on_failure", Text: "Go on after failures", Values: booleans}),
		string(KindBlock): keysOf(Key{Name: "block", Text: "Wait until a person unblocks"}, manual...),
		string(KindInput): keysOf(Key{Name: "input", Text: "Ask a person for values"}, manual...),
		string(KindTrigger): keysOf(Key{Name: "trigger", Text: "Slug of the pipeline to build"}, skipKey,
			Key{Name: "build", Text: "Branch, commit, message and more of the build"},
			Key{Name: "async", Text: "Go on without waiting for the build", Values: booleans},
			Key{Name: "soft_fail", Text: "A failure does not fail the build", Values: booleans}),
		string(KindGroup): keysOf(Key{Name: "group", Text: "Title of a group of steps"}, skipKey, notifyKey, Key{Name: "steps", Text: "The steps of the group"}),

		"build":     {{Name: "message", Text: "Message of the build"}, {Name: "branch", Text: "Branch to build"}, {Name: "commit", Text: "Commit to build"}, envKey, {Name: "meta_data", Text: "Values under keys"}},
		"retry":     {{Name: "automatic", Text: "When the job is retried by itself"}, {Name: "manual", Text: "Whether people can retry"}},
		"automatic": {{Name: "exit_status", Text: "Exit statuses, or * for any failure"}, {Name: "limit", Text: "How often"}, {Name: "signal", Text: "Signal that ended the job"}, {Name: "signal_reason", Text: "Why it was signaled", Values: []string{"agent_stop", "agent_lost", "cancel", "process_run_error"}}},
		"manual":    {{Name: "allowed", Text: "Whether people can retry", Values: booleans}, {Name: "permit_on_passed", Text: "Also after it passed", Values: booleans}, {Name: "reason", Text: "Shown when they cannot"}},
		"matrix":    {{Name: "setup", Text: "The values of each dimension"}, {Name: "adjustments", Text: "Changes of single combinations"}},
		"fields":    {{Name: "text", Text: "Label of a text field"}, {Name: "select", Text: "Label of a choice"}, {Name: "key", Text: "Key of the meta-data"}, {Name: "hint", Text: "Help below the field"}, {Name: "required", Text: "Whether it must be filled in", Values: booleans}, {Name: "default", Text: "Value at first"}, {Name: "options", Text: "What can be chosen"}, {Name: "format", Text: "Regular expression of the text"}, {Name: "multiple", Text: "Whether several can be chosen", Values: booleans}},
		"options":   {{Name: "label", Text: "What people see"}, {Name: "value", Text: "What the build gets"}},
	}
}
