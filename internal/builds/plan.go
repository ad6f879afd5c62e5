package builds

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/core"
	"stackyard/internal/definition"
	"stackyard/internal/flow"
	"stackyard/internal/pipelines"
	"stackyard/internal/settings"
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
	own                          *plannedStep // what a job of a matrix has in place of its step's
	concurrency                  *definition.Concurrency
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

// Work is what a step asks for, apart from when it runs. The part that goes with its kind is set.
type Work struct {
	Command       string              `json:"command,omitempty"`
	Plugins       json.RawMessage     `json:"plugins,omitempty"`
	Agents        []string            `json:"agents,omitempty"`
	Env           map[string]string   `json:"env,omitempty"`
	ArtifactPaths string              `json:"artifact_paths,omitempty"`
	Manual        *definition.Manual  `json:"manual,omitempty"`
	Trigger       *definition.Trigger `json:"trigger,omitempty"`
	// Attributes are what only agents and notifications read.
	Attributes map[string]any `json:"attributes,omitempty"`
}

// The reasons of jobs that never run because of what was written.
const (
	branchMismatch  = "branch_mismatch"
	parallelismZero = "parallelism_zero"
	skipped         = "skipped" // where no reason was written
)

// A planner makes plans of the steps of one build.
type planner struct {
	build    *Build
	pipeline *pipelines.Pipeline
	settings settings.Settings
	defaults *definition.Pipeline // what steps fall back on
	// queues are the ids of the cluster's queues by key, the default one by "".
	queues  map[string]string
	plan    plan
	problem error
}

// draw makes a plan of steps.
func (p *planner) draw(steps []definition.Step) (plan, error) {
	p.plan = plan{steps: map[string]*plannedStep{}, jobs: map[string]*plannedJob{}}
	p.plan.specs = p.list(steps, "")
	return p.plan, p.problem
}

// list plans steps one by one; broken is why none of them runs, if there is a reason.
func (p *planner) list(steps []definition.Step, broken string) []flow.Spec {
	specs := make([]flow.Spec, 0, len(steps))
	for _, s := range steps {
		specs = append(specs, p.step(s, cmp.Or(broken, p.broken(s))))
	}
	return specs
}

// broken returns why a step does not run, or "".
func (p *planner) broken(s definition.Step) string {
	switch {
	case !s.Branches.Match(p.build.Branch):
		return branchMismatch
	case s.Skip.On:
		return cmp.Or(s.Skip.Reason, skipped)
	}
	return ""
}

func (p *planner) step(s definition.Step, broken string) flow.Spec {
	step := &flow.Step{ID: core.NewID(), Key: s.Key, Kind: s.Kind, AllowDependencyFailure: s.AllowDependencyFailure}
	planned := &plannedStep{label: s.Label, work: Work{Attributes: s.Attributes}}
	p.plan.steps[step.ID] = planned
	spec := flow.Spec{Step: step, DependsOn: s.DependsOn}
	switch s.Kind {
	case definition.KindGroup:
		spec.Members = p.list(s.Group.Steps, broken)
	case definition.KindWait:
		step.ContinueOnFailure = s.Wait.ContinueOnFailure
		spec.Jobs = p.single(flow.Waiter, broken)
	case definition.KindBlock, definition.KindInput:
		step.BlockedState = s.Manual.BlockedState
		planned.work.Manual = s.Manual
		spec.Jobs = p.single(flow.Manual, broken)
	case definition.KindTrigger:
		step.Async = s.Trigger.Async
		planned.work.Trigger = s.Trigger
		spec.Jobs = p.parallel(flow.Trigger, s.Trigger.Parallelism, broken, func(j *flow.Job, _ *plannedJob) {
			j.SoftFail = s.Trigger.SoftFail
		})
	case definition.KindCommand:
		spec.Jobs = p.command(s.Command, step, planned, broken)
	}
	return spec
}

// single plans the one job of a step that has no more.
func (p *planner) single(kind flow.JobType, broken string) []*flow.Job {
	return p.parallel(kind, nil, broken, func(*flow.Job, *plannedJob) {})
}

// parallel plans the jobs of a step that are all alike.
func (p *planner) parallel(kind flow.JobType, parallelism *int, broken string, each func(*flow.Job, *plannedJob)) []*flow.Job {
	count := 1
	if parallelism != nil {
		count = max(*parallelism, 1)
		if *parallelism == 0 {
			broken, parallelism = cmp.Or(broken, parallelismZero), nil
		}
	}
	jobs := make([]*flow.Job, count)
	for i := range jobs {
		j, planned := &flow.Job{ID: core.NewID(), Type: kind, BrokenReason: broken}, &plannedJob{index: i}
		if parallelism != nil {
			planned.parallelIndex, planned.parallelTotal = &i, &count
		}
		each(j, planned)
		jobs[i] = j
		p.plan.jobs[j.ID] = planned
	}
	return jobs
}

func (p *planner) command(c *definition.Command, step *flow.Step, planned *plannedStep, broken string) []*flow.Job {
	step.Retry, step.Concurrency, step.CancelOnBuildFailing = c.Retry, c.Concurrency, c.CancelOnBuildFailing
	planned.work.Command = c.Script
	planned.work.Plugins = plugins(c.Plugins)
	planned.work.Agents = agents(p.defaults.Agents, c.Agents)
	planned.work.Env = c.Env.Map()
	planned.work.ArtifactPaths = c.ArtifactPaths
	queueID := p.queue(planned.work.Agents)
	timeout := p.timeout(c.TimeoutInMinutes)
	priority := 0
	if first := cmp.Or(c.Priority, p.defaults.Priority); first != nil {
		priority = *first
	}
	return p.parallel(flow.Script, c.Parallelism, broken, func(j *flow.Job, planned *plannedJob) {
		j.SoftFail = c.SoftFail
		planned.priority, planned.queueID, planned.timeout, planned.concurrency = priority, queueID, timeout, c.Concurrency
	})
}

// plugins returns plugins as agents read them.
func plugins(list []definition.Plugin) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // they came from YAML, in the shapes that JSON has
	}
	return text
}

// agents returns agent query rules, with the default ones for keys that a step has no rule for.
func agents(defaults, own []string) []string {
	rules := slices.Clone(own)
	for _, rule := range defaults {
		key, _, _ := strings.Cut(rule, "=")
		if !slices.ContainsFunc(own, func(r string) bool { return strings.HasPrefix(r, key+"=") }) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// queue returns the id of the queue that agent query rules name, of the default one when they name
// none, "" when there is none. An unknown queue is a problem with the definition.
func (p *planner) queue(rules []string) string {
	key := ""
	for _, rule := range rules {
		if k, value, _ := strings.Cut(rule, "="); k == "queue" && value != "*" {
			key = value
		}
	}
	id, ok := p.queues[key]
	if !ok && key != "" && p.problem == nil {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(p.queues)), func(k string) bool { return k == "" })
		p.problem = core.Errorf(core.Unprocessable, "The cluster has no queue with the key %q; its queues are: %s", key, strings.Join(known, ", "))
	}
	return id
}

// timeout returns how many minutes a job may run, nil for as long as it likes: what the step says, or
// the pipeline, or the organization, and no more than the latter two allow.
func (p *planner) timeout(step *int) *int {
	timeout := cmp.Or(step, p.pipeline.DefaultTimeout, positive(p.settings.DefaultTimeout))
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
