// Package plan converts the steps of a pipeline definition into the steps and jobs of a build.
//
// It is pure: it evaluates conditions and branch filters, expands matrices and parallel steps, applies the defaults of
// the pipeline and resolves queues. The result has two parts: the specs that package flow needs, and what is stored
// beside them for agents and people ([Work]). It does not decide when jobs run.
package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// A Plan is the result of planning: specs for flow, and by their ids the rest of what is stored of steps and jobs.
type Plan struct {
	Specs []flow.Spec
	Steps map[string]*Step
	Jobs  map[string]*Job
}

// A Step is what is stored of a step besides its spec.
type Step struct {
	Label string
	Work  Work
}

// A Job is what is stored of a job besides its spec.
type Job struct {
	Index                        int // among the jobs of its step
	Priority                     int
	QueueID                      string   // empty: none
	Agents                       []string // agent query rules
	Timeout                      *int     // minutes; nil: none
	ParallelIndex, ParallelTotal *int
	Matrix                       any
	Variation                    *Variation // of a job of a matrix; nil: none
	Concurrency                  *definition.Concurrency
}

// Work is what a step does, apart from when it runs. The part for its kind is set.
type Work struct {
	If            string              `json:"if,omitempty"` // the condition as written
	Command       string              `json:"command,omitempty"`
	Plugins       json.RawMessage     `json:"plugins,omitempty"`
	Agents        []string            `json:"agents,omitempty"`
	Env           map[string]string   `json:"env,omitempty"`
	ArtifactPaths string              `json:"artifact_paths,omitempty"`
	Manual        *definition.Manual  `json:"manual,omitempty"`
	Trigger       *definition.Trigger `json:"trigger,omitempty"`
	// Upload is the id of the upload that added the step, if the upload has variables for all of its steps.
	Upload string `json:"upload,omitempty"`
	// Attributes are read by agents and notifications only.
	Attributes map[string]any `json:"attributes,omitempty"`
}

// The reasons why jobs never run.
const (
	BranchMismatch  = "branch_mismatch"
	ConditionFailed = "conditional_failed"
	Skipped         = "skipped" // unless the step gives a reason
)

// A Planner plans the steps of one build.
type Planner struct {
	Branch   string
	Defaults *definition.Pipeline // values for steps that have none of their own
	Context  *condition.Context   // what conditions refer to
	// Queues are the ids of the cluster's queues by key, the default queue by "".
	Queues map[string]string
	Upload string // the upload whose variables the steps have; empty: none
	// DefaultTimeout applies to steps without a timeout, in minutes; nil: none. MaximumTimeouts cap all timeouts; nil
	// ones are ignored.
	DefaultTimeout  *int
	MaximumTimeouts []*int

	plan       Plan
	conditions map[string]bool // results of evaluated conditions
	missing    []string        // keys of queues that do not exist
	weight     int             // of the jobs so far, in bytes
	shared     int             // weight of the pipeline's attributes, which are stored with each command step
}

// maxWeight bounds the texts of the jobs of a build or of one upload, in bytes. A step of a few lines can have
// thousands of jobs.
const maxWeight = 64 << 20

// Plan plans steps. The error lists every problem with them.
func (p *Planner) Plan(steps []definition.Step) (Plan, error) {
	p.plan = Plan{Steps: map[string]*Step{}, Jobs: map[string]*Job{}}
	p.conditions = map[string]bool{}
	p.shared = attributesWeight(attributes(p.Defaults.Attributes, nil))
	p.plan.Specs = p.list(steps, "")
	return p.plan, p.check()
}

// check returns the problems with the planned steps.
func (p *Planner) check() error {
	if p.weight > maxWeight {
		return core.Errorf(core.Unprocessable, "The texts of all jobs together, such as their commands, have more than %d bytes", maxWeight)
	}
	if len(p.missing) == 0 {
		return nil
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(p.Queues)), func(k string) bool { return k == "" })
	queue := "queue with the key "
	if len(p.missing) > 1 {
		queue = "queues with the keys "
	}
	return core.Errorf(core.Unprocessable, "The cluster has no %s%s; its queues are: %s", queue, strings.Join(p.missing, ", "), strings.Join(known, ", "))
}

// list plans steps. broken is the reason why none of them runs, "" when there is none.
func (p *Planner) list(steps []definition.Step, broken string) []flow.Spec {
	specs := make([]flow.Spec, 0, len(steps))
	for _, s := range steps {
		specs = append(specs, p.step(s, cmp.Or(broken, p.broken(s))))
	}
	return specs
}

// broken returns the reason why no job of a step runs, or "".
func (p *Planner) broken(s definition.Step) string {
	switch {
	case !s.Branches.Match(p.Branch):
		return BranchMismatch
	case !p.conditionHolds(s):
		return ConditionFailed
	case s.Kind == definition.KindGroup && s.Skip.On:
		return reason(s.Skip)
	}
	return ""
}

// reason returns the reason for a skipped job.
func reason(s definition.Skip) string {
	if !s.On {
		return ""
	}
	return cmp.Or(s.Reason, Skipped)
}

// jobTypes are the types of the jobs that steps make.
var jobTypes = map[definition.Kind]flow.JobType{
	definition.KindCommand: flow.Script,
	definition.KindWait:    flow.Waiter,
	definition.KindBlock:   flow.Manual,
	definition.KindInput:   flow.Manual,
	definition.KindTrigger: flow.Trigger,
}

func (p *Planner) step(s definition.Step, broken string) flow.Spec {
	step := &flow.Step{ID: core.NewID(), Key: s.Key, Kind: s.Kind, AllowDependencyFailure: s.AllowDependencyFailure}
	planned := &Step{Label: s.Label, Work: Work{If: s.If, Upload: p.Upload, Attributes: s.Attributes}}
	p.plan.Steps[step.ID] = planned
	spec := flow.Spec{Step: step, DependsOn: s.DependsOn}
	switch s.Kind {
	case definition.KindGroup:
		spec.Members = p.list(withNotify(s.Group.Steps, s.Attributes["notify"]), broken)
		return spec
	case definition.KindWait:
		step.ContinueOnFailure = s.Wait.ContinueOnFailure
	case definition.KindBlock, definition.KindInput:
		step.BlockedState, planned.Work.Manual = s.Manual.BlockedState, s.Manual
	case definition.KindTrigger:
		t := *s.Trigger
		t.SoftFail = eachOnce(t.SoftFail)
		s.Trigger = &t
		step.Async, planned.Work.Trigger = t.Async, &t
	case definition.KindCommand:
		c := *s.Command
		c.SoftFail = eachOnce(c.SoftFail)
		s.Command = &c
		p.command(&c, step, &planned.Work)
	}
	for i, t := range s.Expand() {
		if p.weight > maxWeight {
			break
		}
		spec.Jobs = append(spec.Jobs, p.job(s, planned, i, t, broken))
	}
	return spec
}

// command plans a command step apart from its jobs.
func (p *Planner) command(c *definition.Command, step *flow.Step, work *Work) {
	step.Retry, step.Concurrency, step.CancelOnBuildFailing = c.Retry, c.Concurrency, c.CancelOnBuildFailing
	work.Command, work.Env, work.ArtifactPaths = c.Script, c.Env.Map(), c.ArtifactPaths
	work.Agents, work.Plugins = agents(p.Defaults.Agents, c.Agents), plugins(c.Plugins)
	work.Attributes = attributes(p.Defaults.Attributes, work.Attributes)
	p.weight += p.shared // kept for each step
}

// job plans one job of a step.
func (p *Planner) job(s definition.Step, step *Step, index int, t definition.JobTemplate, broken string) *flow.Job {
	j := &flow.Job{
		ID:           core.NewID(),
		Type:         jobTypes[s.Kind],
		SoftFail:     t.SoftFail,
		BrokenReason: cmp.Or(broken, t.BrokenReason, reason(t.Skip)),
	}
	planned := &Job{Index: index, ParallelIndex: t.ParallelIndex, ParallelTotal: t.ParallelTotal, Matrix: t.Matrix}
	p.plan.Jobs[j.ID] = planned
	p.weight += len(t.Label)
	c := s.Command
	if c == nil {
		return j
	}
	work := step.Work
	if t.Matrix != nil {
		planned.Variation = p.vary(c, t)
		work = planned.Variation.Apply(work)
		p.weight += planned.Variation.weight() + valuesWeight(t.Matrix)
	}
	p.weight += work.Size()
	planned.QueueID, planned.Agents = p.queue(work.Agents), work.Agents
	planned.Timeout = p.timeout(c.TimeoutInMinutes)
	planned.Concurrency = c.Concurrency
	if first := cmp.Or(c.Priority, p.Defaults.Priority); first != nil {
		planned.Priority = *first
	}
	return j
}

// eachOnce removes duplicate exit statuses from a rule, which is stored for every job.
func eachOnce(s definition.SoftFail) definition.SoftFail {
	codes := slices.Clone(s.ExitStatus.Codes)
	slices.Sort(codes)
	s.ExitStatus.Codes = slices.Compact(codes)
	return s
}

// plugins returns plugins as agents read them. Agents expand short sources only in steps that they upload themselves,
// so they get full sources here.
func plugins(list []definition.Plugin) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	full := slices.Clone(list)
	for i := range full {
		full[i].Source = full[i].FullSource()
	}
	text, err := json.Marshal(full)
	if err != nil {
		panic(err) // values from YAML can always be encoded as JSON
	}
	return text
}

// agents returns the agent query rules of a step, and the default rules for keys that the step has no rule for.
func agents(defaults, own []string) []string {
	rules := slices.Clone(own)
	has := make(map[string]bool, len(own))
	for _, rule := range own {
		key, _, _ := strings.Cut(rule, "=")
		has[key] = true
	}
	for _, rule := range defaults {
		if key, _, _ := strings.Cut(rule, "="); !has[key] {
			rules = append(rules, rule)
		}
	}
	return rules
}

// queue returns the id of the queue that agent query rules select, or of the default queue when they select none, ""
// when there is none. It records queues that do not exist.
func (p *Planner) queue(rules []string) string {
	key := ""
	for _, rule := range rules {
		if k, value, _ := strings.Cut(rule, "="); k == "queue" && value != "*" {
			key = value
		}
	}
	id, ok := p.Queues[key]
	if quoted := strconv.Quote(key); !ok && key != "" && !slices.Contains(p.missing, quoted) && len(p.missing) < maxMissing {
		p.missing = append(p.missing, quoted)
	}
	return id
}

// maxMissing bounds the queues that an error names.
const maxMissing = 10

// timeout returns the timeout of a job in minutes, nil for none: that of the step or else the default, capped by the
// maximums.
func (p *Planner) timeout(step *int) *int {
	timeout := cmp.Or(step, p.DefaultTimeout)
	for _, maximum := range p.MaximumTimeouts {
		if maximum != nil && (timeout == nil || *timeout > *maximum) {
			timeout = maximum
		}
	}
	return timeout
}

// conditionHolds reports whether the condition of a step, if it has one, is true. A condition that many steps share is
// evaluated once.
func (p *Planner) conditionHolds(s definition.Step) bool {
	if s.If == "" {
		return true
	}
	holds, known := p.conditions[s.If]
	if !known {
		parsed, err := condition.Parse(s.If)
		if err != nil {
			panic(err) // checked when the definition was parsed
		}
		holds = parsed.Eval(p.Context)
		p.conditions[s.If] = holds
	}
	return holds
}
