package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// keygen creates a key pair with our tool and returns its files.
func keygen(t *testing.T, algorithm string) (private, public string) {
	t.Helper()
	folder := t.TempDir()
	private, public = filepath.Join(folder, "private.json"), filepath.Join(folder, "public.json")
	if out, err := exec.Command(binary, "tool", "keygen", "--alg", algorithm, "--private-jwks-file", private, "--public-jwks-file", public).CombinedOutput(); err != nil {
		t.Fatalf("keygen: %v\n%s", err, out)
	}
	return private, public
}

// uploader is the configuration that uploads the file of the repository, signed by a key.
func uploader(t *testing.T, program, repo, private string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pipeline.yml")
	if err := os.WriteFile(file, []byte("steps:\n  - label: Upload\n    command: "+program+" pipeline upload pipeline.yml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "tool", "sign", file, "--jwks-file", private, "--repo", repo)
	cmd.Stderr = t.Output()
	signed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

// signedSteps use everything that signatures cover.
const signedSteps = `
env: {STAGE: prod}
steps:
  - label: Matrix
    command: ["test $STAGE = prod", "test $$CC = gcc-{{matrix}}"]
    env: {CC: "gcc-{{matrix}}"}
    matrix: ["12", 13]
  - group: Inner
    steps:
      - {label: Plugged, command: "test $$FROM_PLUGIN = yes-4", plugins: [{"file://PLUGIN#main": {times: 4, nested: {list: [1, true, 2.5]}}}]}
`

// TestSignatures_OfEitherAgentAreVerifiedByTheOther uploads with one agent and runs with the other.
func TestSignatures_OfEitherAgentAreVerifiedByTheOther(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		plugin, _ := repository(t, map[string]string{"hooks/environment": "#!/bin/bash\nexport FROM_PLUGIN=yes-$BUILDKITE_PLUGIN_COUNTER_TIMES\n"})
		// The name of its folder is a part of a plugin's variables.
		named := filepath.Join(t.TempDir(), "counter-buildkite-plugin")
		if err := os.Rename(plugin, named); err != nil {
			t.Fatal(err)
		}
		repo, _ := repository(t, map[string]string{"pipeline.yml": strings.ReplaceAll(signedSteps, "PLUGIN#", named+"#")})
		for _, algorithm := range []string{"EdDSA", "ES256", "PS512"} {
			private, public := keygen(t, algorithm)
			for uploads, runs := range map[string]string{"ours": "published", "published": "ours"} {
				if algorithm == "ES256" && uploads == "published" {
					continue // the published agent verifies with this algorithm, but does not sign with it
				}
				t.Run(algorithm+" signed by "+uploads, func(t *testing.T) {
					program := "stackyard agent"
					if uploads == "published" {
						program = "buildkite-agent"
					}
					slug := pipelineOf(t, client, "Signed "+algorithm+" "+uploads, repo, uploader(t, program, repo, private))
					first := getBuild(t, client, slug, 1).Jobs[0].ID
					start := map[string]func(args ...string) *agent{
						"ours":      func(args ...string) *agent { return startOurs(t, s, args...) },
						"published": func(args ...string) *agent { return startAgent(t, s, args...) },
					}
					start[uploads]("--acquire-job", first, "--signing-jwks-file", private, "--verification-jwks-file", public).exit(t)
					if j := getBuild(t, client, slug, 1).Jobs[0]; j.State != "passed" {
						t.Fatalf("the upload is %s:\n%s", j.State, logOf(t, s, j.ID))
					}
					runner := start[runs]("--verification-jwks-file", public)
					b := finished(t, client, slug, 1)
					if b.State != "passed" || len(b.Jobs) != 4 {
						for _, j := range b.Jobs {
							t.Logf("%s is %s:\n%s", j.Name, j.State, logOf(t, s, j.ID))
						}
						t.Fatalf("the build is %s", b.State)
					}
					runner.stop()
				})
			}
		}
	})
}

// TestSignatures_OfChangedStepsAreRefusedByBoth changes a signed configuration on the server.
func TestSignatures_OfChangedStepsAreRefusedByBoth(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		repo, _ := repository(t, map[string]string{"pipeline.yml": signedSteps})
		private, public := keygen(t, "EdDSA")
		changed := strings.ReplaceAll(uploader(t, "stackyard agent", repo, private), "pipeline.yml", "other.yml")
		for name, start := range map[string]func(args ...string) *agent{
			"ours":      func(args ...string) *agent { return startOurs(t, s, args...) },
			"published": func(args ...string) *agent { return startAgent(t, s, args...) },
		} {
			slug := pipelineOf(t, client, "Changed "+name, repo, changed)
			job := getBuild(t, client, slug, 1).Jobs[0].ID
			start("--acquire-job", job, "--verification-jwks-file", public).exit(t)
			b := getBuild(t, client, slug, 1)
			if j := b.Jobs[0]; b.State != "failed" || j.ExitStatus == nil || *j.ExitStatus != -1 {
				t.Errorf("%s: the build is %s, the job %+v:\n%s", name, b.State, j, logOf(t, s, job))
			}
		}
	})
}
