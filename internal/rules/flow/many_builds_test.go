package flow

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	// maxDepth limits chains of triggered builds, maxBuilds the number of builds. Trigger jobs beyond them
	// fail.
	maxDepth  = 4
	maxBuilds = 16
)

// A buildSet is a set of builds of random pipelines that trigger each other and share concurrency groups.
type buildSet struct {
	*organization
	t         *rapid.T
	pipelines []*list
	drives    []*drive
	depth     map[*drive]int
	children  map[string]*drive // by the trigger job that started them
}

func newBuildSet(t *rapid.T, draw *drawer) *buildSet {
	c := &buildSet{organization: &organization{}, t: t, depth: map[*drive]int{}, children: map[string]*drive{}}
	for range draw.pipelines {
		draw.steps = 0
		l := &list{}
		draw.fill(l, "", rapid.IntRange(1, 4).Draw(t, "steps"), nil, 1)
		c.pipelines = append(c.pipelines, l)
	}
	return c
}

// start adds a build of a pipeline at a place of the concurrency queues.
func (c *buildSet) start(pipeline int, place string, depth int) *drive {
	d := driveIn(c.newBuild(place), c.t, c.pipelines[pipeline])
	c.drives = append(c.drives, d)
	c.depth[d] = depth
	return d
}

// A setAction is something that can happen next.
type setAction struct {
	name string
	do   func()
}

// actions returns everything that can happen next in any of the builds.
func (c *buildSet) actions() (actions []setAction) {
	for i, d := range c.drives {
		for _, id := range d.order {
			j := d.jobs[id]
			name, do := "", func() {}
			if j.Type == Trigger {
				name, do = c.triggers(d, j)
			} else if !j.State.Ended() {
				planned, event := d.next(j)
				name, do = planned, func() { d.event(planned, event) }
			}
			if name != "" {
				actions = append(actions, setAction{fmt.Sprintf("%s %s of build %d", name, d.steps[j.StepID].Key, i), do})
			}
		}
	}
	return actions
}

// triggers returns what can happen to a trigger job: nothing while its build is in progress.
func (c *buildSet) triggers(d *drive, j *Job) (string, func()) {
	id, child := j.ID, c.children[j.ID]
	event := func(name string, event func(*Run) error) (string, func()) {
		return name, func() { d.event(name, event) }
	}
	switch {
	case j.State == Scheduled && (c.depth[d] == maxDepth || len(c.drives) >= maxBuilds):
		return event("refuse a child to", func(r *Run) error { return r.ChildFinished(id, false) })
	case j.State == Scheduled:
		return "create a child of", func() { c.trigger(d, j) }
	case j.State == Running && child.build.State.Ended():
		passed := child.build.State == BuildPassed || child.build.State == BuildNotRun
		return event("report the child of", func(r *Run) error { return r.ChildFinished(id, passed) })
	case j.State == Canceled && child != nil && !child.build.State.Ended() && child.build.State != BuildCanceling:
		return "abandon the child of", func() { child.event("abandon", (*Run).CancelBuild) }
	}
	return "", nil
}

// trigger starts the build of a trigger job, at the place of the waiting build.
func (c *buildSet) trigger(d *drive, j *Job) {
	p := d.plans[d.steps[j.StepID].Key]
	place := d.place
	if p.async {
		place = ""
	}
	c.children[j.ID] = c.start(p.target, place, c.depth[d]+1)
	d.event("create a child", func(r *Run) error { return r.ChildCreated(j.ID) })
}

// runOne runs a random action.
func (c *buildSet) runOne(actions []setAction) {
	actions[rapid.IntRange(0, len(actions)-1).Draw(c.t, "next")].do()
}

// finish runs random actions until there are none. Then all builds must have ended.
func (c *buildSet) finish() {
	for actions := c.actions(); len(actions) > 0; actions = c.actions() {
		c.runOne(actions)
	}
	for i, d := range c.drives {
		if !d.build.State.Ended() {
			c.t.Fatalf("build %d is stuck in %s:\n%s", i, d.build.State, c)
		}
		d.check("all")
	}
}

// String lists the builds and the states of their jobs.
func (c *buildSet) String() string {
	var b strings.Builder
	for i, d := range c.drives {
		fmt.Fprintf(&b, "build %d at place %s is %s\n", i, d.place, d.build.State)
		for _, s := range d.visible() {
			for _, j := range d.newest(s.ID) {
				fmt.Fprintf(&b, "  %s %s: %s", s.Kind, s.Key, j.State)
				if s.Concurrency != nil {
					fmt.Fprintf(&b, " in %+v, queued %t", *s.Concurrency, j.Queued)
				}
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// TestProperty_ConcurrentBuildsNeverGetStuck runs several builds at the same time, with random actions of
// people, and starts others meanwhile. There is always a next action until all builds have ended.
func TestProperty_ConcurrentBuildsNeverGetStuck(t *testing.T) {
	cases, builds, events := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := drawer{t: t, flags: true, pipelines: rapid.IntRange(1, 3).Draw(t, "pipelines")}
		c := newBuildSet(t, &draw)
		c.start(0, "", 0)
		for range rapid.IntRange(0, 60).Draw(t, "disturbances") {
			switch actions := c.actions(); {
			case len(c.drives) < maxBuilds && draw.chance(10, "another build"):
				c.start(rapid.IntRange(0, draw.pipelines-1).Draw(t, "pipeline"), "", 0)
			case len(actions) > 0 && draw.chance(80, "as planned"):
				c.runOne(actions)
			default:
				c.drives[rapid.IntRange(0, len(c.drives)-1).Draw(t, "build")].disturb(&draw)
			}
		}
		c.finish()
		cases++
		builds += len(c.drives)
		for _, d := range c.drives {
			events += d.events
		}
	})
	t.Logf("%d cases, %d builds, %d events", cases, builds, events)
}
