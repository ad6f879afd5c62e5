package builds

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// A plan is what the steps of a definition become: what flow must know of them, and beside it, by
// their ids, the rest of what is kept of steps and jobs.
type plan struct {
	specs []flow.Spec
	steps map[string]*plannedStep
	jobs  map[string]*plannedJob
}

type plannedStep struct {
	label string
	work  Work
}

type plannedJob struct {
	index                        int // among the jobs of its step
	priority                     int
	queueID                      string
	timeout                      *int // minutes
	parallelIndex, parallelTotal *int
	matrix                       any
	own                          *variation // of a job of a matrix
	concurrency                  *definition.Concurrency
	rules                        dispatch.RuleSet
}

func (p *plannedJob) group() any {
	if p.concurrency == nil {
		return nil
	}
	return p.concurrency.Group
}

func (p *plannedJob) limit() any {
	if p.concurrency == nil {
		return nil
	}
	return p.concurrency.Limit
}

func (p *plannedJob) method() any {
	if p.concurrency == nil {
		return nil
	}
	return string(p.concurrency.Method)
}

func (p *plannedJob) place(b *Build) any {
	if p.concurrency == nil {
		return nil
	}
	return b.QueuePlace
}

// Work is what a step asks for, apart from when it runs. The part that goes with its kind is set.
type Work struct {
	If            string              `json:"if,omitempty"` // the condition as it was written
	Command       string              `json:"command,omitempty"`
	Plugins       json.RawMessage     `json:"plugins,omitempty"`
	Agents        []string            `json:"agents,omitempty"`
	Env           map[string]string   `json:"env,omitempty"`
	ArtifactPaths string              `json:"artifact_paths,omitempty"`
	Manual        *definition.Manual  `json:"manual,omitempty"`
	Trigger       *definition.Trigger `json:"trigger,omitempty"`
	// Upload is the upload that the step came with, if that has variables for all of its steps.
	Upload string `json:"upload,omitempty"`
	// Attributes are what only agents and notifications read.
	Attributes map[string]any `json:"attributes,omitempty"`
}

// The reasons of jobs that never run because of what was written.
const (
	BranchMismatch = "branch_mismatch"
	Skipped        = "skipped" // where no reason was written
)

// A planner makes plans of the steps of one build.
type planner struct {
	build    *Build
	pipeline *pipelines.Pipeline
	settings settings.Settings
	defaults *definition.Pipeline // what steps fall back on
	context  *condition.Context   // of conditions
	// queues are the ids of the cluster's queues by key, the default one by "".
	queues map[string]string
	upload string // the upload whose variables the steps have, if any

	plan       plan
	conditions map[string]bool // those that were evaluated
	missing    []string        // keys of queues that do not exist
	weight     int             // of the jobs so far, in bytes
	shared     int             // the weight of the attributes that command steps have of the pipeline
}

// maxWeight bounds the texts that the jobs of a build, or of one upload, show and keep, in bytes. A step
// of a few lines can make thousands of jobs.
const maxWeight = 64 << 20

// draw makes a plan of steps. The error tells of all that is wrong with them.
func (p *planner) draw(steps []definition.Step) (plan, error) {
	p.plan = plan{steps: map[string]*plannedStep{}, jobs: map[string]*plannedJob{}}
	p.conditions = map[string]bool{}
	p.shared = attributesWeight(attributes(p.defaults.Attributes, nil))
	p.plan.specs = p.list(steps, "")
	return p.plan, p.wrong()
}

// wrong returns what is wrong with the steps, if anything is.
func (p *planner) wrong() error {
	if p.weight > maxWeight {
		return core.Errorf(core.Unprocessable, "The texts of all jobs together, such as their commands, have more than %d bytes", maxWeight)
	}
	if len(p.missing) == 0 {
		return nil
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(p.queues)), func(k string) bool { return k == "" })
	queue := "queue with the key "
	if len(p.missing) > 1 {
		queue = "queues with the keys "
	}
	return core.Errorf(core.Unprocessable, "The cluster has no %s%s; its queues are: %s", queue, strings.Join(p.missing, ", "), strings.Join(known, ", "))
}

// list plans steps one by one; broken is why none of them runs, if there is a reason.
func (p *planner) list(steps []definition.Step, broken string) []flow.Spec {
	specs := make([]flow.Spec, 0, len(steps))
	for _, s := range steps {
		specs = append(specs, p.step(s, cmp.Or(broken, p.broken(s))))
	}
	return specs
}

// broken returns why no job of a step runs, or "".
func (p *planner) broken(s definition.Step) string {
	switch {
	case !s.Branches.Match(p.build.Branch):
		return BranchMismatch
	case !p.holds(s):
		return ConditionFailed
	case s.Kind == definition.KindGroup && s.Skip.On:
		return reason(s.Skip)
	}
	return ""
}

// reason returns why a job is skipped.
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

func (p *planner) step(s definition.Step, broken string) flow.Spec {
	step := &flow.Step{ID: core.NewID(), Key: s.Key, Kind: s.Kind, AllowDependencyFailure: s.AllowDependencyFailure}
	planned := &plannedStep{label: s.Label, work: Work{If: s.If, Upload: p.upload, Attributes: s.Attributes}}
	p.plan.steps[step.ID] = planned
	spec := flow.Spec{Step: step, DependsOn: s.DependsOn}
	switch s.Kind {
	case definition.KindGroup:
		spec.Members = p.list(s.Group.Steps, broken)
		return spec
	case definition.KindWait:
		step.ContinueOnFailure = s.Wait.ContinueOnFailure
	case definition.KindBlock, definition.KindInput:
		step.BlockedState, planned.work.Manual = s.Manual.BlockedState, s.Manual
	case definition.KindTrigger:
		t := *s.Trigger
		t.SoftFail = eachOnce(t.SoftFail)
		s.Trigger = &t
		step.Async, planned.work.Trigger = t.Async, &t
	case definition.KindCommand:
		c := *s.Command
		c.SoftFail = eachOnce(c.SoftFail)
		s.Command = &c
		p.command(&c, step, &planned.work)
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
func (p *planner) command(c *definition.Command, step *flow.Step, work *Work) {
	step.Retry, step.Concurrency, step.CancelOnBuildFailing = c.Retry, c.Concurrency, c.CancelOnBuildFailing
	work.Command, work.Env, work.ArtifactPaths = c.Script, c.Env.Map(), c.ArtifactPaths
	work.Agents, work.Plugins = agents(p.defaults.Agents, c.Agents), plugins(c.Plugins)
	work.Attributes = attributes(p.defaults.Attributes, work.Attributes)
	p.weight += p.shared // kept for each step
}

// job plans one job of a step.
func (p *planner) job(s definition.Step, step *plannedStep, index int, t definition.JobTemplate, broken string) *flow.Job {
	j := &flow.Job{
		ID:           core.NewID(),
		Type:         jobTypes[s.Kind],
		SoftFail:     t.SoftFail,
		BrokenReason: cmp.Or(broken, t.BrokenReason, reason(t.Skip)),
	}
	planned := &plannedJob{index: index, parallelIndex: t.ParallelIndex, parallelTotal: t.ParallelTotal, matrix: t.Matrix}
	p.plan.jobs[j.ID] = planned
	p.weight += len(t.Label)
	c := s.Command
	if c == nil {
		return j
	}
	work := step.work
	if t.Matrix != nil {
		planned.own = p.vary(c, t)
		work = planned.own.of(work)
		p.weight += planned.own.weight() + valuesWeight(t.Matrix)
	}
	p.weight += work.Size()
	planned.queueID, planned.rules = p.queue(work.Agents), dispatch.RuleSetOf(work.Agents)
	planned.timeout = p.timeout(c.TimeoutInMinutes)
	planned.concurrency = c.Concurrency
	if first := cmp.Or(c.Priority, p.defaults.Priority); first != nil {
		planned.priority = *first
	}
	return j
}

// eachOnce returns a rule that names each exit status once: it is written for every job.
func eachOnce(s definition.SoftFail) definition.SoftFail {
	codes := slices.Clone(s.ExitStatus.Codes)
	slices.Sort(codes)
	s.ExitStatus.Codes = slices.Compact(codes)
	return s
}

// plugins returns plugins as agents read them: agents that get their steps from here and not from an upload
// of their own expect full sources.
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
		panic(err) // they came from YAML, in the shapes that JSON has
	}
	return text
}

// agents returns agent query rules, with the default ones for keys that a step has no rule for.
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

// queue returns the id of the queue that agent query rules name, of the default one when they name
// none, "" when there is none. A queue that does not exist is noted.
func (p *planner) queue(rules []string) string {
	key := ""
	for _, rule := range rules {
		if k, value, _ := strings.Cut(rule, "="); k == "queue" && value != "*" {
			key = value
		}
	}
	id, ok := p.queues[key]
	if quoted := strconv.Quote(key); !ok && key != "" && !slices.Contains(p.missing, quoted) && len(p.missing) < maxMissing {
		p.missing = append(p.missing, quoted)
	}
	return id
}

// maxMissing bounds the queues that an error names.
const maxMissing = 10

// timeout returns how many minutes a job may run, nil for as long as it likes: what the step says, or
// the pipeline, and no more than the pipeline and the organization allow.
func (p *planner) timeout(step *int) *int {
	timeout := cmp.Or(step, p.pipeline.DefaultTimeout)
	for _, most := range []*int{p.pipeline.MaximumTimeout, positive(p.settings.MaximumTimeout)} {
		if most != nil && (timeout == nil || *timeout > *most) {
			timeout = most
		}
	}
	return timeout
}

// positive returns nil for 0.
func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
