package clusterpages

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) stackRoutes() []route.Route {
	const all = "/clusters/{cluster}/stacks"
	return []route.Route{
		s.get(all, pages.On(s.within, s.stacks)),
		s.get(all+"/{stack}", pages.On(loader[stack](s, "stacks", "stack"), s.stack)),
		s.post(all+"/{stack}/delete", s.deleteStack),
		s.post(all+"/{stack}/release/{job}", s.releaseJob),
	}
}

// A stack is a stack in a response.
type stack struct {
	ID           string            `json:"id"`
	Key          string            `json:"key"`
	Type         string            `json:"type"`
	QueueKey     string            `json:"cluster_queue_key"`
	MetaData     map[string]string `json:"metadata"`
	State        string            `json:"state"`
	RegisteredAt time.Time         `json:"registered_at"`
	SeenAt       *time.Time        `json:"last_connected_on"`
	Reserved     int               `json:"reserved_jobs_count"`
	Jobs         []struct {
		ID            string    `json:"id"`
		ReservedUntil time.Time `json:"reserved_until"`
	} `json:"reserved_jobs"`
}

// Keys returns the keys of the metadata, sorted.
func (s stack) Keys() []string { return slices.Sorted(maps.Keys(s.MetaData)) }

func (s *Site) stacks(v *pages.Visit, in inCluster) error {
	var list []stack
	if _, err := v.Call("GET", v.API("clusters", in.Cluster.ID, "stacks"), nil, &list); err != nil {
		return err
	}
	return in.show(v, http.StatusOK, "stacks", "stacks", "Stacks", struct {
		inCluster
		Stacks  []stack
		Command string
	}{in, list, "stackyard stack --endpoint " + s.Public.To("v3") + " --token TOKEN --key my-stack"})
}

func (s *Site) stack(v *pages.Visit, on resource[stack]) error {
	in, one := on.inCluster, on.it
	return in.show(v, http.StatusOK, "stack", "stacks", one.Key, struct {
		inCluster
		Stack  stack
		Delete pages.Confirm
	}{in, one, pages.Confirm{Summary: "Remove stack", Warning: "Its reservations are released, so that other stacks and agents can take the jobs. A stack that still runs registers again.",
		Form: pages.Form{ID: "delete", Action: in.At("stacks", one.ID, "delete"), Submit: "Remove " + one.Key, Danger: true}}})
}

func (s *Site) releaseJob(v *pages.Visit) error {
	id, stack := v.PathValue("cluster"), v.PathValue("stack")
	back := v.Place("clusters", id, "stacks", stack)
	_, err := v.Call("DELETE", v.API("clusters", id, "stacks", stack, "reserved-jobs", v.PathValue("job")), nil, nil)
	if core.KindOf(err) == core.NotFound {
		return v.Refused(back, "The stack has not reserved this job any more.")
	}
	if err != nil {
		return err
	}
	return v.Done(back, "Job released. Others can take it now.")
}

func (s *Site) deleteStack(v *pages.Visit) error {
	id := v.PathValue("cluster")
	return v.Act("DELETE", v.API("clusters", id, "stacks", v.PathValue("stack")), nil, v.Place("clusters", id, "stacks"), "Stack removed.")
}
