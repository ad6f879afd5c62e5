package flow

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"stackyard/internal/rules/definition"
)

// A plan is a random step of a pipeline and the results of its jobs.
type plan struct {
	key      string
	kind     definition.Kind
	deps     []definition.Dependency
	allow    bool
	goesOn   bool
	broken   bool
	soft     definition.SoftFail
	rules    []definition.RetryRule
	limit    *definition.Concurrency
	members  []*plan
	uploads  [][]*plan // by the first job, while it runs for the first time
	fate     string    // of the first job: "", cancel, expire, timeout
	flagged  bool      // cancel_on_build_failing
	exits    [][]int   // by job and attempt; all later attempts pass
	target   int       // of a trigger: one of several pipelines
	async    bool
	position string

	// list is the list that contains the step, at index.
	list  *list
	index int
}

// A list contains the plans of the pipeline, of a group or of an upload.
type list struct {
	plans    []*plan
	group    *plan // nil unless the plans are its members
	uploader *plan // nil unless it uploaded the plans
}

// A drawer draws random pipelines.
type drawer struct {
	t     *rapid.T
	steps int
	// noConcurrency keeps all steps out of concurrency groups, noUploadedConcurrency only uploaded ones.
	noConcurrency, noUploadedConcurrency bool
	// flags allows cancel_on_build_failing.
	flags bool
	// pipelines is the number of pipelines that trigger steps can trigger; with 0, triggers need no target.
	// Steps of several pipelines prefer to run at the same time.
	pipelines int
}

func (d *drawer) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(d.t, what) < percent
}

// pipeline draws a pipeline.
func (d *drawer) pipeline() *list {
	l := &list{}
	d.fill(l, "", rapid.IntRange(1, 7).Draw(d.t, "steps"), nil, 0)
	return l
}

// fill draws the plans of a list. known are the keys that they may depend on.
func (d *drawer) fill(l *list, at string, n int, known []string, depth int) []string {
	var own []string
	for i := range n {
		d.steps++
		p := &plan{key: fmt.Sprintf("s%d", d.steps), list: l, index: i, position: position(at, i)}
		kinds := []definition.Kind{"command", "command", "command", "wait", "wait", "input", "trigger", "block"}
		if l.group == nil {
			kinds = append(kinds, "group")
		}
		p.kind = rapid.SampledFrom(kinds).Draw(d.t, "kind")
		l.plans = append(l.plans, p)
		if d.chance(25, "explicit") {
			p.deps = []definition.Dependency{}
			for range rapid.IntRange(0, 2).Draw(d.t, "dependencies") {
				key := "nobody"
				if pool := append(append([]string{}, known...), own...); len(pool) > 0 && !d.chance(5, "missing") {
					key = rapid.SampledFrom(pool).Draw(d.t, "on")
				}
				p.deps = append(p.deps, definition.Dependency{Step: key, AllowFailure: d.chance(25, "allow failure")})
			}
		}
		p.allow = d.chance(15, "allow")
		p.broken = d.chance(12, "broken")
		switch p.kind {
		case definition.KindWait:
			p.goesOn = d.chance(40, "continue on failure")
		case definition.KindGroup:
			inner := &list{group: p}
			members := d.fill(inner, p.position, rapid.IntRange(1, 4).Draw(d.t, "members"), append(append([]string{}, known...), own...), depth)
			own = append(own, members...)
			p.members = inner.plans
			p.broken = false
		case definition.KindCommand, definition.KindTrigger:
			d.work(p, depth)
			if p.kind == definition.KindCommand && !p.broken && depth < 2 && d.chance(20, "uploads") {
				for u := range rapid.IntRange(1, 2).Draw(d.t, "upload count") {
					inner := &list{uploader: p}
					// It may depend on its uploader, but not on earlier uploads: whether those are added
					// depends on more than this list.
					d.fill(inner, position(p.position, u), rapid.IntRange(1, 3).Draw(d.t, "uploaded"), append(append(append([]string{}, known...), own...), p.key), depth+1)
					p.uploads = append(p.uploads, inner.plans)
				}
			}
		}
		own = append(own, p.key)
	}
	return own
}

// work draws the results of a step's jobs.
func (d *drawer) work(p *plan, depth int) {
	status := rapid.SampledFrom([]int{0, 0, 0, 1, 2, -1})
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(d.t, "jobs") {
		p.exits = append(p.exits, rapid.SliceOfN(status, 1, 4).Draw(d.t, "exits"))
	}
	if d.chance(20, "soft fail") {
		p.soft = rapid.SampledFrom([]definition.SoftFail{{Always: true}, {ExitStatus: definition.ExitStatus{Codes: []int{1}}}}).Draw(d.t, "soft")
	}
	if p.kind == definition.KindTrigger {
		for _, exits := range p.exits { // a child passes or fails
			for i, status := range exits {
				exits[i] = status * status & 1
			}
		}
		if d.pipelines > 0 {
			p.target = rapid.IntRange(0, d.pipelines-1).Draw(d.t, "target")
			p.async = d.chance(20, "async")
		}
		return
	}
	if d.chance(30, "retries") {
		p.rules = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) definition.RetryRule {
			return definition.RetryRule{
				ExitStatus: rapid.SampledFrom([]definition.ExitStatus{{Any: true}, {Codes: []int{1}}, {Codes: []int{-1, 2}}}).Draw(t, "exit status"),
				Limit:      rapid.IntRange(0, 2).Draw(t, "limit"),
			}
		}), 1, 2).Draw(d.t, "rules")
	}
	p.flagged = d.flags && d.chance(20, "flagged")
	if d.chance(15, "fate") {
		p.fate = rapid.SampledFrom([]string{"cancel", "expire", "timeout"}).Draw(d.t, "fate of the first job")
	}
	limited := 20
	if d.pipelines > 0 {
		limited = 60
	}
	if !d.noConcurrency && (depth == 0 || !d.noUploadedConcurrency) && d.chance(limited, "limited") {
		p.limit = &definition.Concurrency{
			Group:  rapid.SampledFrom([]string{"red", "blue"}).Draw(d.t, "group"),
			Limit:  rapid.IntRange(1, 2).Draw(d.t, "limit"),
			Method: rapid.SampledFrom([]definition.ConcurrencyMethod{definition.Ordered, definition.Eager}).Draw(d.t, "method"),
		}
	}
}

// specs converts plans to new specs.
func specs(plans []*plan) (out []Spec) {
	for _, p := range plans {
		jobs := max(1, len(p.exits))
		jobType := map[definition.Kind]JobType{"command": Script, "trigger": Trigger, "wait": Waiter, "block": Manual, "input": Manual}[p.kind]
		if p.kind == definition.KindGroup {
			jobs = 0
		}
		spec := step(p.kind, p.key, jobType, jobs)
		spec.Step.AllowDependencyFailure = p.allow
		spec.Step.ContinueOnFailure = p.goesOn
		spec.Step.Retry.Automatic = p.rules
		spec.Step.Concurrency = p.limit
		spec.Step.CancelOnBuildFailing = p.flagged
		spec.Step.Async = p.async
		spec.DependsOn = p.deps
		spec.Members = specs(p.members)
		for _, j := range spec.Jobs {
			j.SoftFail = p.soft
			if p.broken {
				j.BrokenReason = "conditional_failed"
			}
		}
		out = append(out, spec)
	}
	return out
}

// walk visits plans, their members and uploads, at any depth.
func walk(plans []*plan, visit func(*plan)) {
	for _, p := range plans {
		visit(p)
		walk(p.members, visit)
		for _, upload := range p.uploads {
			walk(upload, visit)
		}
	}
}

// String shows a pipeline in the step language, for failure messages.
func (l *list) String() string {
	var b strings.Builder
	var write func(plans []*plan, indent string)
	write = func(plans []*plan, indent string) {
		for _, p := range plans {
			fmt.Fprintf(&b, "%s- %s %s", indent, p.kind, p.key)
			if p.deps != nil {
				fmt.Fprintf(&b, " depends on %v", p.deps)
			}
			for word, on := range map[string]bool{"allow_dependency_failure": p.allow, "continue_on_failure": p.goesOn, "broken": p.broken} {
				if on {
					fmt.Fprintf(&b, " %s", word)
				}
			}
			if p.exits != nil {
				fmt.Fprintf(&b, " exits %v soft %+v rules %+v fate %q", p.exits, p.soft, p.rules, p.fate)
			}
			if p.limit != nil {
				fmt.Fprintf(&b, " limit %+v", *p.limit)
			}
			if p.kind == definition.KindTrigger {
				fmt.Fprintf(&b, " target %d async %t", p.target, p.async)
			}
			b.WriteByte('\n')
			write(p.members, indent+"    ")
			for i, upload := range p.uploads {
				fmt.Fprintf(&b, "%s  upload %d:\n", indent, i)
				write(upload, indent+"    ")
			}
		}
	}
	write(l.plans, "")
	return b.String()
}
