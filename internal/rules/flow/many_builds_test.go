package flow

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	// maxDepth is how many builds trigger one another in a row, and maxCrowd how many there are. Trigger
	// jobs that would start more fail.
	maxDepth = 4
	maxCrowd = 16
)

// A crowd is builds of random pipelines that trigger one another and share concurrency groups.
type buildSet struct {
	*organization
	t         *rapid.T
	pipelines []*list
	drives    []*drive
	depth     map[*drive]int
	children  map[string]*drive // by the trigger job that started them
}

func newCrowd(t *rapid.T, draw *drawer) *buildSet {
	c := &buildSet{organization: &organization{}, t: t, depth: map[*drive]int{}, children: map[string]*drive{}}
	for range draw.crowded {
		draw.steps = 0
		l := &list{}
		draw.fill(l, "", rapid.IntRange(1, 4).Draw(t, "steps"), nil, 1)
		c.pipelines = append(c.pipelines, l)
	}
	return c
}

// start adds a build of a pipeline, at a place in line.
func (c *buildSet) start(pipeline int, place string, depth int) *drive {
	d := driveIn(c.newBuild(place), c.t, c.pipelines[pipeline])
	c.drives = append(c.drives, d)
	c.depth[d] = depth
	return d
}

// A deed is something that can happen next.
type setAction struct {
	name string
	do   func()
}

// deeds returns all that can happen next, in any of the builds.
func (c *buildSet) deeds() (deeds []setAction) {
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
				deeds = append(deeds, setAction{fmt.Sprintf("%s %s of build %d", name, d.steps[j.StepID].Key, i), do})
			}
		}
	}
	return deeds
}

// triggers returns what can happen to a trigger job. While its build goes on that is nothing.
func (c *buildSet) triggers(d *drive, j *Job) (string, func()) {
	id, child := j.ID, c.children[j.ID]
	event := func(name string, event func(*Run) error) (string, func()) {
		return name, func() { d.event(name, event) }
	}
	switch {
	case j.State == Scheduled && (c.depth[d] == maxDepth || len(c.drives) >= maxCrowd):
		return event("refuse a child to", func(r *Run) error { return r.ChildFinished(id, false) })
	case j.State == Scheduled:
		return "create a child of", func() { c.trigger(d, j) }
	case j.State == Running && child.build.State.Ended():
		passed := child.build.State == BuildPassed || child.build.State == BuildNotRun
		return event("tell", func(r *Run) error { return r.ChildFinished(id, passed) })
	case j.State == Canceled && child != nil && !child.build.State.Ended() && child.build.State != BuildCanceling:
		return "abandon the child of", func() { child.event("abandon", (*Run).CancelBuild) }
	}
	return "", nil
}

// trigger starts the build of a trigger job: at the place of the build that waits for it.
func (c *buildSet) trigger(d *drive, j *Job) {
	p := d.plans[d.steps[j.StepID].Key]
	place := d.place
	if p.async {
		place = ""
	}
	c.children[j.ID] = c.start(p.target, place, c.depth[d]+1)
	d.event("create a child", func(r *Run) error { return r.ChildCreated(j.ID) })
}

// happen lets one of the things happen that can.
func (c *buildSet) happen(deeds []setAction) {
	deeds[rapid.IntRange(0, len(deeds)-1).Draw(c.t, "next")].do()
}

// finish lets things happen, in a random order, until nothing can happen any more. Then all builds
// must be over.
func (c *buildSet) finish() {
	for deeds := c.deeds(); len(deeds) > 0; deeds = c.deeds() {
		c.happen(deeds)
	}
	for i, d := range c.drives {
		if !d.build.State.Ended() {
			c.t.Fatalf("build %d is stuck in %s:\n%s", i, d.build.State, c)
		}
		d.check("all")
	}
}

// String shows the builds and what their jobs wait for.
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

// TestProperty_NoBuildOfACrowdIsStuck lets several builds run at the same time, with all that people do
// to them, and others come while they do. Whatever happens, something can happen next until all of them
// are over.
func TestProperty_NoBuildOfACrowdIsStuck(t *testing.T) {
	cases, builds, events := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := drawer{t: t, flags: true, crowded: rapid.IntRange(1, 3).Draw(t, "pipelines")}
		c := newCrowd(t, &draw)
		c.start(0, "", 0)
		for range rapid.IntRange(0, 60).Draw(t, "disturbances") {
			switch deeds := c.deeds(); {
			case len(c.drives) < maxCrowd && draw.chance(10, "another build"):
				c.start(rapid.IntRange(0, draw.crowded-1).Draw(t, "pipeline"), "", 0)
			case len(deeds) > 0 && draw.chance(80, "as planned"):
				c.happen(deeds)
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
	t.Logf("%d crowds, %d builds, %d events", cases, builds, events)
}
