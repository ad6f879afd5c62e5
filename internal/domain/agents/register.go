package agents

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// The limits of a registration, in characters.
const (
	maxName             = 255
	maxText             = 255
	maxOS               = 8 << 10
	maxTags             = 100
	maxTag              = 1024
	queueTag            = "queue"
	defaultPauseMinutes = 5 // minutes of an agent's first pause without a length
)

// registration is the body of a registration.
type registration struct {
	Name     string   `json:"name" doc:"Can contain the placeholders %hostname, %pid and %random. Defaults to a generated name."`
	Hostname string   `json:"hostname"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Version  string   `json:"version"`
	Build    string   `json:"build"`
	Tags     []string `json:"meta_data" doc:"Tags, each key=value. queue=KEY names the queue; without it the agent takes jobs of the cluster's default queue."`
	Priority string   `json:"priority" doc:"An integer. Agents with a higher priority get jobs first."`
	PID      int      `json:"pid"`
	Ignored  bool     `json:"ignore_in_dispatches" doc:"Whether the agent acquires one job itself and is offered none."`
}

// agent returns a new agent, or an Unprocessable error.
func (r *registration) agent() (*Agent, error) {
	a := &Agent{
		ID:       core.NewID(),
		Name:     r.expandName(),
		Hostname: r.Hostname,
		OS:       core.Cut(r.OS, maxOS),
		Arch:     core.Cut(r.Arch, maxText),
		Version:  core.Cut(r.Version, maxText),
		Build:    core.Cut(r.Build, maxText),
		Ignored:  r.Ignored,
		State:    NeverConnected,
		Pause:    Pause{Minutes: defaultPauseMinutes},
	}
	if n := utf8.RuneCountInString(a.Name); n > maxName {
		return nil, core.Errorf(core.Unprocessable, "The agent's name must have at most %d characters, not %d", maxName, n)
	}
	if n := utf8.RuneCountInString(a.Hostname); n > maxName {
		return nil, core.Errorf(core.Unprocessable, "The agent's hostname must have at most %d characters, not %d", maxName, n)
	}
	if r.Priority != "" {
		priority, err := strconv.ParseInt(strings.TrimSpace(r.Priority), 10, 32)
		if err != nil {
			return nil, core.Errorf(core.Unprocessable, "The agent's priority must be a whole number, not %q", core.Cut(r.Priority, 40))
		}
		p := int(priority)
		a.Priority = &p
	}
	return a, checkTags(r.Tags)
}

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return core.Errorf(core.Unprocessable, "An agent can have at most %d tags, not %d", maxTags, len(tags))
	}
	for _, tag := range tags {
		if n := utf8.RuneCountInString(tag); n > maxTag {
			return core.Errorf(core.Unprocessable, "A tag must have at most %d characters, not %d", maxTag, n)
		}
	}
	return nil
}

// queue returns the key of the queue in the tags, "" when there is none.
func (r *registration) queue() (string, error) {
	var key string
	for _, tag := range r.Tags {
		name, value, _ := strings.Cut(tag, "=")
		if name != queueTag || value == key {
			continue
		}
		if key != "" {
			return "", core.Errorf(core.Unprocessable, "An agent takes the jobs of one queue; the tags name %q and %q", key, value)
		}
		key = value
	}
	return key, nil
}

// assignQueue sets the queue of an agent and adds it to the agent's tags. Only agents of the service join hosted queues.
func (r *registration) assignQueue(q *db.Q, a *Agent, key string, hosted bool) error {
	c, err := clusters.ByID(q, a.OrganizationID, a.ClusterID)
	if err != nil {
		return err
	}
	find := clusters.QueueForAgents
	if hosted {
		find = clusters.HostedQueueForAgents
	}
	queue, err := find(q, c, key)
	if err != nil {
		return err
	}
	a.QueueID, a.QueueKey = queue.ID, queue.Key
	a.Tags = append([]string{}, r.Tags...)
	if tag := queueTag + "=" + queue.Key; !slices.Contains(a.Tags, tag) {
		a.Tags = append(a.Tags, tag)
	}
	return nil
}

// expandName returns the name of the agent with its placeholders replaced, or a default name.
func (r *registration) expandName() string {
	template := strings.TrimSpace(r.Name)
	if template == "" {
		template = "%hostname-%random"
		if r.Hostname == "" {
			template = "agent-%random"
		}
	}
	return strings.NewReplacer(
		"%hostname", r.Hostname,
		"%pid", fmt.Sprint(r.PID),
		"%random", strings.ToLower(rand.Text()[:8]),
	).Replace(template)
}
