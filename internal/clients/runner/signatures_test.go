package runner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/signing"
)

// signedServer returns a server with a job of a signed step, and options of an agent that verifies it.
func signedServer(t *testing.T) (*fakeServer, func(*runner.Options)) {
	t.Helper()
	private, public, err := signing.Generate("EdDSA", "test")
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := signing.ParseKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	s := newFakeServer(t, command("echo reached"))
	signed, err := signing.Sign(t.Context(), json.RawMessage(`{"steps":[{"command":"echo reached"}]}`), key, "https://git.example.test/acme/hello.git")
	if err != nil {
		t.Fatal(err)
	}
	var pipeline struct{ Steps []map[string]any }
	if err := json.Unmarshal(signed, &pipeline); err != nil {
		t.Fatal(err)
	}
	s.job["step"] = pipeline.Steps[0]
	return s, func(o *runner.Options) { o.VerifyKeys = keys }
}

func TestSignatures_VerifiedStepsRun(t *testing.T) {
	t.Parallel()
	s, verifies := signedServer(t)
	wantResult(t, s.runJob(verifies), "0", "", "")
	if log := s.log(); !strings.Contains(log, "reached") {
		t.Errorf("log %s", log)
	}
}

func TestSignatures_ChangedStepsAreRefused(t *testing.T) {
	t.Parallel()
	s, verifies := signedServer(t)
	s.job["env"].(map[string]string)["SERVICE_COMMAND"] = "echo changed"
	wantResult(t, s.runJob(verifies), "-1", "", "signature_rejected")
	if log := s.log(); !strings.Contains(log, "The signature of the step was rejected: the command is not that of the signed step") || strings.Contains(log, "Running command") {
		t.Errorf("log %s", log)
	}
}

func TestSignatures_PolicyForUnsignedSteps(t *testing.T) {
	t.Parallel()
	s, verifies := signedServer(t)
	delete(s.job, "step")
	wantResult(t, s.runJob(verifies), "-1", "", "signature_rejected")
	if log := s.log(); !strings.Contains(log, "The step has no signature, and this agent runs signed steps only.") || strings.Contains(log, "reached") {
		t.Errorf("log %s", log)
	}
	s, verifies = signedServer(t)
	delete(s.job, "step")
	wantResult(t, s.runJob(verifies, func(o *runner.Options) { o.AllowNoSign = true }), "0", "", "")
	if log := s.log(); !strings.Contains(log, "The step has no signature; this agent runs it nevertheless") {
		t.Errorf("log %s", log)
	}
}
