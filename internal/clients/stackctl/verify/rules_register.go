package verify

import (
	"net/http"
	"strconv"
	"strings"
)

var authentication = Section{"Authentication", []Rule{
	{"auth.missing", "A call without a token returns 401, at every endpoint.", func(t *checker) {
		for _, e := range endpoints {
			r := t.request(e, t.name(), unknownJob(), e.example(unknownJob()))
			r.auth = ""
			t.refused(t.send(e, r), http.StatusUnauthorized)
		}
	}},
	{"auth.invalid", "A call with an unknown token returns 401, at every endpoint.", func(t *checker) {
		for _, e := range endpoints {
			r := t.request(e, t.name(), unknownJob(), e.example(unknownJob()))
			r.auth = "Token svcct_" + t.suffix
			t.refused(t.send(e, r), http.StatusUnauthorized)
		}
	}},
	{"auth.revoked", "A call with a revoked token returns 401.", func(t *checker) {
		path, token := t.makeToken(t.needFixture().clusterID)
		r := t.request(scheduledJobs, t.stack(), "", nil)
		r.auth = "Token " + token
		t.status(t.send(scheduledJobs, r), http.StatusOK)
		t.mustREST(http.MethodDelete, path, nil)
		t.server.sleep(t.ctx, 1) // a server may cache tokens for that long
		t.refused(t.send(scheduledJobs, r), http.StatusUnauthorized)
	}},
	{"auth.expired", "A call with an expired token returns 401.", func(t *checker) {
		t.skip("an agent token that is made for this would live for ten minutes")
	}},
	{"auth.cluster", "An agent token can access only the queues of its own cluster.", func(t *checker) {
		body := t.registration(t.name())
		body["queue_key"] = t.needFixture().queue
		r := t.request(register, t.name(), "", body)
		r.auth = "Token " + t.needOtherCluster().token
		t.refused(t.send(register, r), http.StatusNotFound)
	}},
	{"auth.suspended", "While the organization is temporarily unavailable, every call returns 503.", func(t *checker) {
		t.skip("no client can bring that about")
	}},
}}

// stackRecord is the shape of a registered stack.
var stackRecord = shape{
	"id": uuid, "organization_uuid": uuid, "key": text, "type": text, "cluster_queue_key": text,
	"metadata": stringMap, "last_connected_on": exactTime, "state": text,
}

var registration = Section{"Registration", []Rule{
	{"register.new", "Registering a new key returns 201.", func(t *checker) {
		t.status(t.register(t.registration(t.name())), http.StatusCreated)
	}},
	{"register.again", "Registering a key again returns 200 and updates the same stack.", func(t *checker) {
		key := t.newStack()
		first := t.register(t.registration(key))
		body := t.registration(key)
		body["metadata"] = fields{"version": "2"}
		second := t.status(t.register(body), http.StatusOK)
		t.is(second, "id", first.at("id"))
		t.is(second, "metadata", body["metadata"])
	}},
	{"register.record", "The response is the stack record with all its fields.", func(t *checker) {
		a := t.register(t.registration(t.name()))
		t.has(a, "", stackRecord)
		t.is(a, "state", "connected")
	}},
	{"register.echo", "The record contains key, type, queue and metadata as sent.", func(t *checker) {
		body := t.registration(t.name())
		a := t.register(body)
		t.is(a, "key", body["key"])
		t.is(a, "type", body["type"])
		t.is(a, "cluster_queue_key", body["queue_key"])
		t.is(a, "metadata", body["metadata"])
	}},
	{"register.default-queue", "The queue key __default__ means the cluster's default queue.", func(t *checker) {
		t.accepts("queue_key", defaultQueue)
	}},
	{"register.required", "key, type, queue_key and metadata are required: 422 without one of them, and for null.", func(t *checker) {
		for _, field := range []string{"key", "type", "queue_key", "metadata"} {
			body := t.registration(t.name())
			delete(body, field)
			t.refused(t.register(body), http.StatusUnprocessableEntity)
			t.refuses(field, nil)
		}
	}},
	{"register.key-characters", "A key consists of alphanumerics, underscores and dashes: 422 for others.", func(t *checker) {
		t.accepts("key", t.name()+"_AZ-az_09")
		for _, wrong := range []string{".", " ", "/", "é", "\n"} {
			t.refuses("key", t.name()+wrong)
		}
	}},
	{"register.key-length", "A key has at most 80 bytes: 422 for 81.", func(t *checker) {
		t.accepts("key", pad(t.name(), 80))
		t.refuses("key", pad(t.name(), 81))
	}},
	{"register.type", "The type is kubernetes, elastic or custom: 422 for others.", func(t *checker) {
		for _, right := range []string{"kubernetes", "elastic", "custom"} {
			t.accepts("type", right)
		}
		t.refuses("type", "handmade")
	}},
	{"register.metadata-keys", "Metadata has at most 100 keys: 422 for 101.", func(t *checker) {
		t.accepts("metadata", manyKeys(100))
		t.refuses("metadata", manyKeys(101))
	}},
	{"register.metadata-key-length", "A key of the metadata has at most 64 characters, not bytes: 422 for 65.", func(t *checker) {
		t.accepts("metadata", fields{strings.Repeat("é", 64): ""})
		t.refuses("metadata", fields{strings.Repeat("k", 65): ""})
	}},
	{"register.metadata-value-length", "A value of the metadata has at most 256 characters, not bytes: 422 for 257.", func(t *checker) {
		t.accepts("metadata", fields{"k": strings.Repeat("é", 256)})
		t.refuses("metadata", fields{"k": strings.Repeat("v", 257)})
	}},
	{"register.metadata-flat", "Metadata is flat, and its values are strings: 422 for anything else.", func(t *checker) {
		for _, wrong := range []any{fields{"k": fields{}}, fields{"k": []string{}}, fields{"k": 1}, fields{"k": nil}, []string{}, "text"} {
			t.refuses("metadata", wrong)
		}
	}},
	{"register.unknown-queue", "A queue that the cluster does not have returns 404.", func(t *checker) {
		body := t.registration(t.name())
		body["queue_key"] = t.name()
		t.refused(t.register(body), http.StatusNotFound)
	}},
	{"register.malformed", "A body that is not a JSON object returns 400.", func(t *checker) {
		for _, wrong := range []string{"{", "[]", "nonsense"} {
			t.refused(t.call(register, "", "", wrong), http.StatusBadRequest)
		}
	}},
	{"register.first", "A key must be registered before any other endpoint uses it: 404.", func(t *checker) {
		for _, e := range keyedEndpoints {
			t.refused(t.call(e, t.name(), unknownJob(), e.example(unknownJob())), http.StatusNotFound)
		}
	}},
	{"register.quota", "Registering a stack beyond the organization's limit of active stacks returns 403.", checkQuota},
}}

// accepts expects that a registration with a value of a field succeeds.
func (t *checker) accepts(field string, value any) {
	body := t.registration(t.name())
	body[field] = value
	a := t.register(body)
	t.want(a, a.ok(), "the stack to be registered: status 201", "status %d", a.status)
}

// refuses expects that a registration with a value of a field fails.
func (t *checker) refuses(field string, value any) {
	body := t.registration(t.name())
	body[field] = value
	t.refused(t.register(body), http.StatusUnprocessableEntity)
}

// pad extends a key to a length in bytes.
func pad(key string, length int) string { return key + strings.Repeat("k", length-len(key)) }

func manyKeys(n int) fields {
	many := fields{}
	for i := range n {
		many[strconv.Itoa(i)] = ""
	}
	return many
}

// maxStacks limits how many stacks are registered to reach an organization's limit.
const maxStacks = 200

func checkQuota(t *checker) {
	if !t.Quota {
		t.skip("for a moment no other stack could register; allow that with --quota")
	}
	var mine []string
	defer func() {
		for _, key := range mine {
			t.deregister(key)
		}
	}()
	for range maxStacks {
		key := t.name()
		a := t.register(t.registration(key))
		if !a.ok() {
			t.refused(a, http.StatusForbidden)
			return
		}
		mine = append(mine, key)
	}
	t.skip("the organization may have more than %d stacks", maxStacks)
}

var deregistration = Section{"De-registration", []Rule{
	{"deregister.answer", "De-registering returns 204 without content.", func(t *checker) {
		a := t.status(t.deregister(t.newStack()), http.StatusNoContent)
		t.want(a, len(a.body) == 0, "no body", "%d bytes", len(a.body))
	}},
	{"deregister.gone", "A de-registered key returns 404 at every other endpoint.", func(t *checker) {
		key := t.newStack()
		t.deregister(key)
		for _, e := range keyedEndpoints {
			t.refused(t.call(e, key, unknownJob(), e.example(unknownJob())), http.StatusNotFound)
		}
	}},
	{"deregister.unknown", "De-registering a key that is not registered returns 404.", func(t *checker) {
		t.refused(t.deregister(t.name()), http.StatusNotFound)
	}},
	{"deregister.again", "A de-registered key can be registered again: 201.", func(t *checker) {
		key := t.newStack()
		t.deregister(key)
		t.status(t.register(t.registration(key)), http.StatusCreated)
	}},
}}
