package signing

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"stackyard/internal/clients/runner/environ"
)

const repository = "https://git.example.test/web.git"

// pair returns a key pair.
func pair(t *testing.T, algorithm, id string) (Key, Keys) {
	t.Helper()
	private, public, err := Generate(algorithm, id)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseKey(public, id); err == nil {
		t.Error("a public key signs")
	}
	return key, keys
}

const steps = `{"env":{"STAGE":"prod"},"steps":[
	{"command":["make","make {{matrix}}"],"env":{"CC":"gcc-{{matrix}}"},"matrix":["12",13],"plugins":[{"docker#v5":{"image":"node:{{matrix}}"}},"cache#v1"]},
	"wait",
	{"group":"Slow","steps":[{"command":"make slow"}]}]}`

// signedJob returns the job for the first step as a server sends it to an agent.
func signedJob(t *testing.T, key Key) Job {
	t.Helper()
	signed, err := Sign(t.Context(), json.RawMessage(steps), key, repository)
	if err != nil {
		t.Fatal(err)
	}
	var pipeline struct{ Steps []json.RawMessage }
	if err := json.Unmarshal(signed, &pipeline); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(pipeline.Steps[2]), `"signature"`) {
		t.Errorf("the step in the group is not signed: %s", pipeline.Steps[2])
	}
	env := environ.Environment{"STAGE": "prod", "CC": "gcc-13", "OTHER": "value"}
	env.SetService("REPO", repository)
	env.SetService("COMMAND", "make\nmake 13")
	env.SetService("PLUGINS", `[{"github.com/buildkite-plugins/docker-buildkite-plugin#v5":{"image":"node:13"}},{"github.com/buildkite-plugins/cache-buildkite-plugin#v1":null}]`)
	return Job{Step: pipeline.Steps[0], Matrix: map[string]string{"": "13"}, Env: env}
}

func TestVerify_AcceptsWhatWasSignedWithEachAlgorithm(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms() {
		key, keys := pair(t, algorithm, "one")
		job := signedJob(t, key)
		if err := Verify(t.Context(), job, keys); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		_, others := pair(t, algorithm, "one")
		if err := Verify(t.Context(), job, others); err == nil {
			t.Errorf("%s: another key with the same id verifies it", algorithm)
		}
	}
}

func TestVerify_RefusesWhatWasChanged(t *testing.T) {
	t.Parallel()
	key, keys := pair(t, "EdDSA", "one")
	replace := func(old, new string) func(*Job) {
		return func(j *Job) { j.Step = json.RawMessage(strings.ReplaceAll(string(j.Step), old, new)) }
	}
	set := func(name, value string) func(*Job) { return func(j *Job) { j.Env.Set(name, value) } }
	for name, change := range map[string]func(*Job){
		"command of the step":         replace("make {{matrix}}", "evil {{matrix}}"),
		"command of the job":          set("SERVICE_COMMAND", "evil"),
		"command under one name":      func(j *Job) { j.Env["SERVICE_COMMAND"] = "evil" },
		"repository":                  set("SERVICE_REPO", "https://git.example.test/evil.git"),
		"variable of the step":        set("CC", "evil"),
		"missing variable":            func(j *Job) { delete(j.Env, "CC") },
		"variable of the pipeline":    set("STAGE", "dev"),
		"plugins of the job":          set("SERVICE_PLUGINS", `[{"evil#v1":null}]`),
		"no plugins":                  set("SERVICE_PLUGINS", ""),
		"plugins of the step":         replace("docker", "evil"),
		"value outside of the matrix": func(j *Job) { j.Matrix = map[string]string{"": "99"} },
		"another value of the matrix": func(j *Job) { j.Matrix = map[string]string{"": "12"} },
		"no value of the matrix":      func(j *Job) { j.Matrix = nil },
		"matrix":                      replace(`"12"`, `"99"`),
		"signed fields":               replace(`"command",`, ``),
		"algorithm":                   replace(`"EdDSA"`, `"none"`),
		"added secret":                replace(`"signature":`, `"secrets":["DEPLOY"],"signature":`),
	} {
		job := signedJob(t, key)
		change(&job)
		if err := Verify(t.Context(), job, keys); err == nil || errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestVerify_FindsMissingSignatures(t *testing.T) {
	t.Parallel()
	_, keys := pair(t, "EdDSA", "one")
	for _, step := range []string{``, `{}`, `{"command":"make"}`, `{"command":"make","signature":null}`} {
		if err := Verify(t.Context(), Job{Step: json.RawMessage(step)}, keys); !errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: got %v", step, err)
		}
	}
}

func TestParseKeys_RefusesUnsafeKeys(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`[]`:          "not a JSON Web Key Set",
		`{"keys":[]}`: "the key set is empty",
		`{"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"HS512","kid":"a"}]}`:                                                    `the algorithm "HS512" is not supported; use one of EdDSA`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"MUsoeUnzozZfO3mdN-2Wc1Xe6KxrtE7a0IvXVtbfrKs","kid":"a"}]}`:               `no algorithm`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"MUsoeUnzozZfO3mdN-2Wc1Xe6KxrtE7a0IvXVtbfrKs","alg":"EdDSA"}]}`:           `no id`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"MUsoeUnzozZfO3mdN-2Wc1Xe6KxrtE7a0IvXVtbfrKs","alg":"ES256","kid":"a"}]}`: `needs a key of type EC, not OKP`,
	} {
		if _, err := ParseKeys([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", document, err)
		}
	}
}

func TestSignFile_RefusesVariables(t *testing.T) {
	t.Parallel()
	key, _ := pair(t, "EdDSA", "one")
	if _, err := SignFile(t.Context(), []byte("steps: [{command: make $TARGET}]"), key, repository); err == nil || !strings.Contains(err.Error(), "$TARGET") {
		t.Errorf("got %v", err)
	}
	signed, err := SignFile(t.Context(), []byte("# a comment\nsteps:\n  - command: make\n    timeout_in_minutes: 5\n"), key, repository)
	if err != nil || !strings.Contains(string(signed), "signed_fields:") || !strings.Contains(string(signed), "timeout_in_minutes: 5") {
		t.Errorf("%v\n%s", err, signed)
	}
}

func FuzzVerify(f *testing.F) {
	_, public, err := Generate("EdDSA", "one")
	if err != nil {
		f.Fatal(err)
	}
	keys, err := ParseKeys(public)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"command":"make","signature":{"value":"a..b","algorithm":"EdDSA","signed_fields":["command","env","plugins","matrix","repository_url"]}}`)
	f.Add(`{"matrix":{"setup":{"a":[1]},"adjustments":[{"with":{"a":2}}]},"signature":{}}`)
	f.Fuzz(func(t *testing.T, step string) {
		if Verify(t.Context(), Job{Step: json.RawMessage(step), Env: environ.Environment{}}, keys) == nil {
			t.Errorf("verified %s", step)
		}
	})
}
