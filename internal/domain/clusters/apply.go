package clusters

import (
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Spec describes a cluster in the organization file. The name identifies the cluster.
type Spec struct {
	Line        int              `yaml:"-"`
	Name        string           `yaml:"name"`
	ID          string           `yaml:"id"`
	Default     *bool            `yaml:"default"`
	Hosted      *bool            `yaml:"hosted"`
	Queues      []QueueSpec      `yaml:"queues"`
	AgentTokens []AgentTokenSpec `yaml:"agent_tokens"`
}

// Check reports errors in the clusters of one organization.
func Check(c *core.Complaints, specs []Spec) {
	marked := 0
	for _, s := range specs {
		s.Check(c)
		if s.Default == nil || !*s.Default {
			continue
		}
		if marked++; marked > 1 {
			c.Add(s.Line, "an organization has at most one default cluster")
		}
	}
	core.ComplainTwice(c, specs, "cluster", func(s Spec) (int, string) { return s.Line, s.Name })
}

// Check reports errors in the spec that can be found without a database.
func (s Spec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	if strings.TrimSpace(s.Name) == "" || utf8.RuneCountInString(s.Name) > maxName {
		c.Add(s.Line, "a cluster needs a name of 1 to %d characters", maxName)
	}
	s.checkQueues(c)
	for _, t := range s.AgentTokens {
		t.Check(c)
	}
	core.ComplainTwice(c, s.AgentTokens, "agent token", func(t AgentTokenSpec) (int, string) { return t.Line, t.Description })
}

// Apply creates or updates clusters of an organization with their queues and agent tokens. It keeps what the
// specs do not name. The specs have passed Check.
//
// When a cluster gets its first queues and none is marked as the default, the queue with the key "default"
// becomes the default queue, or else the only queue.
func Apply(in identity.Applying, specs []Spec) error {
	a := applier{in}
	if err := in.Q.Lock("organizations", in.Org.ID); err != nil {
		return err
	}
	for _, spec := range specs {
		if err := a.cluster(spec); err != nil {
			return err
		}
	}
	return nil
}

// An applier applies one organization's part of a file.
type applier struct{ identity.Applying }

// name returns the name of something in a cluster in the list of changes.
func (a *applier) name(c Cluster, parts ...string) string {
	return strings.Join(append([]string{a.Org.Slug, c.Name}, parts...), "/")
}

func (a *applier) cluster(spec Spec) error {
	known, created, err := a.findOrCreate(spec)
	if err != nil || known == nil {
		return err
	}
	wanted := *known
	core.SetGiven(&wanted.Default, spec.Default)
	core.SetGiven(&wanted.Hosted, spec.Hosted)
	if wanted.Default && !known.Default {
		if err := a.clearDefault(); err != nil {
			return err
		}
	}
	if err := a.queues(&wanted, spec.Queues); err != nil {
		return err
	}
	if wanted != *known {
		if !created {
			a.Changes.Changed("cluster", a.name(wanted))
		}
		if err := updateCluster(a.Q, wanted); err != nil {
			return err
		}
	}
	for _, t := range spec.AgentTokens {
		if err := a.agentToken(wanted, t); err != nil {
			return err
		}
	}
	return nil
}

// findOrCreate returns the cluster of a spec. It returns nil after a complaint.
func (a *applier) findOrCreate(spec Spec) (c *Cluster, created bool, err error) {
	known, err := ByName(a.Q, a.Org.ID, spec.Name)
	if core.KindOf(err) == core.NotFound {
		c, err = a.newCluster(spec)
		return c, true, err
	}
	if err != nil {
		return nil, false, err
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "the cluster %q exists with the id %s, which cannot be changed", known.Name, known.ID)
		return nil, false, nil
	}
	known, err = Lock(a.Q, a.Org.ID, known.ID)
	return &known, false, err
}

func (a *applier) newCluster(spec Spec) (*Cluster, error) {
	id, ok, err := db.FreeID(a.Q, "clusters", spec.ID)
	if err != nil {
		return nil, err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another cluster", id)
		return nil, nil
	}
	c := Cluster{ID: id, OrganizationID: a.Org.ID, Name: spec.Name, CreatedAt: a.Now}
	a.Changes.Created("cluster", a.name(c))
	return &c, insertCluster(a.Q, c)
}

// clearDefault unmarks the organization's default cluster, so that another can become the default.
func (a *applier) clearDefault() error {
	c, err := Default(a.Q, a.Org.ID)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	c.Default = false
	a.Changes.Changed("cluster", a.name(c))
	return updateCluster(a.Q, c)
}
