// Package kubetest stands in for a Kubernetes cluster where none can be built: an API server in memory, the
// part of the controller manager that makes pods of Jobs, and a node that runs the containers of pods as
// processes. It decides nothing for the code under test: that speaks to it with client-go, as to a cluster.
package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// An object is an object of the API, as JSON.
type object = map[string]any

// An API is an API server.
type API struct {
	URL string

	mu      sync.Mutex
	version int
	objects map[string]object // by resource/namespace/name
	history []event
	grown   chan struct{} // closed when the history grows
	calls   map[string]int
}

type event struct {
	version  int
	resource string
	kind     string // ADDED, MODIFIED or DELETED
	object   object
}

// NewAPI starts an API server for the duration of a test.
func NewAPI(t *testing.T) *API {
	a := &API{objects: map[string]object{}, grown: make(chan struct{}), version: 1, calls: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	a.URL = server.URL
	return a
}

// kinds are the kinds that the API server has, by resource.
var kinds = map[string]string{"pods": "Pod", "secrets": "Secret", "events": "Event", "jobs": "Job", "leases": "Lease"}

var groups = map[string]string{"jobs": "batch/v1", "leases": "coordination.k8s.io/v1"}

func groupOf(resource string) string {
	if group := groups[resource]; group != "" {
		return group
	}
	return "v1"
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	_, rest, found := strings.Cut(r.URL.Path, "/namespaces/")
	parts := strings.Split(rest, "/")
	if !found || len(parts) < 2 || kinds[parts[1]] == "" {
		fail(w, http.StatusNotFound, "NotFound", "no such path: "+r.URL.Path)
		return
	}
	namespace, resource, name := parts[0], parts[1], ""
	if len(parts) > 2 {
		name = parts[2]
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	query := r.URL.Query()
	a.mu.Lock()
	a.calls[r.Method+" "+resource]++
	a.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && query.Get("watch") != "":
		a.watch(w, r, resource, namespace, query.Get("labelSelector"), query.Get("resourceVersion"), query.Get("sendInitialEvents") != "")
	case r.Method == http.MethodGet && name == "":
		a.list(w, resource, namespace, query.Get("labelSelector"))
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.one(w, r.Method, resource, namespace, name, body)
	}
}

// Calls returns how often a resource was called with a method, such as "POST jobs".
func (a *API) Calls(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[what]
}

func (a *API) one(w http.ResponseWriter, method, resource, namespace, name string, body []byte) {
	key := resource + "/" + namespace + "/" + name
	existing, exists := a.objects[key]
	if method != http.MethodPost && !exists {
		fail(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", resource, name))
		return
	}
	switch method {
	case http.MethodGet:
		reply(w, http.StatusOK, existing)
	case http.MethodPost:
		var o object
		if err := json.Unmarshal(body, &o); err != nil {
			fail(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
		meta := metaOf(o)
		name, _ = meta["name"].(string)
		if key = resource + "/" + namespace + "/" + name; a.objects[key] != nil {
			fail(w, http.StatusConflict, "AlreadyExists", fmt.Sprintf("%s %q already exists", resource, name))
			return
		}
		meta["namespace"], meta["uid"] = namespace, fmt.Sprintf("uid-%d", a.version+1)
		meta["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		reply(w, http.StatusCreated, a.store(key, resource, "ADDED", o))
	case http.MethodPut:
		var o object
		if err := json.Unmarshal(body, &o); err != nil {
			fail(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
		if version := metaOf(o)["resourceVersion"]; version != nil && version != metaOf(existing)["resourceVersion"] {
			fail(w, http.StatusConflict, "Conflict", "the object has been modified")
			return
		}
		reply(w, http.StatusOK, a.store(key, resource, "MODIFIED", o))
	case http.MethodPatch:
		before, _ := json.Marshal(existing)
		merged, err := jsonpatch.MergePatch(before, body)
		var o object
		if err == nil {
			err = json.Unmarshal(merged, &o)
		}
		if err != nil {
			fail(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
		reply(w, http.StatusOK, a.store(key, resource, "MODIFIED", o))
	case http.MethodDelete:
		a.delete(key, resource, existing, body)
		reply(w, http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	}
}

// delete deletes an object. A pod is only marked: its node deletes it when its containers have ended.
func (a *API) delete(key, resource string, existing object, body []byte) {
	var options struct {
		GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
	}
	json.Unmarshal(body, &options)
	meta := metaOf(existing)
	if resource == "pods" && (options.GracePeriodSeconds == nil || *options.GracePeriodSeconds > 0) {
		grace := int64(30)
		if options.GracePeriodSeconds != nil {
			grace = *options.GracePeriodSeconds
		}
		changed := clone(existing)
		meta = metaOf(changed)
		if meta["deletionTimestamp"] == nil {
			meta["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		}
		meta["deletionGracePeriodSeconds"] = grace
		a.store(key, resource, "MODIFIED", changed)
		return
	}
	delete(a.objects, key)
	a.version++
	gone := clone(existing)
	metaOf(gone)["resourceVersion"] = strconv.Itoa(a.version)
	a.append(event{a.version, resource, "DELETED", gone})
	// The garbage collector deletes what the object owned.
	uid := meta["uid"]
	for other, o := range maps.Clone(a.objects) {
		owners, _ := metaOf(o)["ownerReferences"].([]any)
		if slices.ContainsFunc(owners, func(owner any) bool { return owner.(object)["uid"] == uid }) {
			a.delete(other, strings.SplitN(other, "/", 2)[0], o, nil)
		}
	}
}

func (a *API) store(key, resource, kind string, o object) object {
	if data, ok := o["stringData"].(object); ok { // the API server merges it into data, encoded; here it stays text
		delete(o, "stringData")
		merged, _ := o["data"].(object)
		if merged == nil {
			merged = object{}
		}
		maps.Copy(merged, encoded(data))
		o["data"] = merged
	}
	a.version++
	o["kind"], o["apiVersion"] = kinds[resource], groupOf(resource)
	metaOf(o)["resourceVersion"] = strconv.Itoa(a.version)
	a.objects[key] = o
	a.append(event{a.version, resource, kind, clone(o)})
	return o
}

func (a *API) append(e event) {
	a.history = append(a.history, e)
	close(a.grown)
	a.grown = make(chan struct{})
}

func (a *API) list(w http.ResponseWriter, resource, namespace, selector string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := []object{}
	for key, o := range a.objects {
		if strings.HasPrefix(key, resource+"/"+namespace+"/") && selects(selector, o) {
			items = append(items, o)
		}
	}
	reply(w, http.StatusOK, object{"kind": kinds[resource] + "List", "apiVersion": groupOf(resource), "metadata": object{"resourceVersion": strconv.Itoa(a.version)}, "items": items})
}

func (a *API) watch(w http.ResponseWriter, r *http.Request, resource, namespace, selector, from string, initial bool) {
	if initial { // an older API server; client-go then lists first
		fail(w, http.StatusBadRequest, "BadRequest", "sendInitialEvents is not supported")
		return
	}
	version, _ := strconv.Atoi(from)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	flush.Flush()
	encoder := json.NewEncoder(w)
	for {
		a.mu.Lock()
		start, _ := slices.BinarySearchFunc(a.history, version+1, func(e event, v int) int { return e.version - v })
		news, grown := slices.Clone(a.history[start:]), a.grown
		a.mu.Unlock()
		for _, e := range news {
			version = e.version
			if e.resource == resource && metaOf(e.object)["namespace"] == namespace && selects(selector, e.object) {
				if encoder.Encode(object{"type": e.kind, "object": e.object}) != nil {
					return
				}
			}
		}
		flush.Flush()
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// selects reports whether an object has the labels of a selector such as a=b,c=d.
func selects(selector string, o object) bool {
	labels, _ := metaOf(o)["labels"].(object)
	for term := range strings.SplitSeq(selector, ",") {
		name, value, _ := strings.Cut(term, "=")
		if term != "" && labels[name] != value {
			return false
		}
	}
	return true
}

func metaOf(o object) object {
	meta, ok := o["metadata"].(object)
	if !ok {
		meta = object{}
		o["metadata"] = meta
	}
	return meta
}

func clone(o object) (copied object) {
	text, _ := json.Marshal(o)
	json.Unmarshal(text, &copied)
	return copied
}

func reply(w http.ResponseWriter, status int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(o)
}

func fail(w http.ResponseWriter, status int, reason, message string) {
	reply(w, status, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status, "message": message})
}
