package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stackyard/internal/rules/definition"
)

func TestRun_CancelsItsJobsWhenInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipeline := "steps:\n  - label: slow\n    command: trap 'echo stopped > stopped.txt; exit 1' TERM; echo ready; while true; do sleep 0.1; done\n"
	if err := os.WriteFile(filepath.Join(dir, "pipeline.yml"), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command("run", "pipeline.yml")
	cmd.Dir = dir
	p := spawn(t, cmd)
	for !strings.HasSuffix(p.line(t), "│ ready") {
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if status := cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("it exited with %d", status)
	}
	if _, err := os.Stat(filepath.Join(dir, "stopped.txt")); err != nil {
		t.Errorf("the job was not canceled: %v", err)
	}
}

func TestLocalDefinition_RemovesAgentRulesAndSkipsOtherSteps(t *testing.T) {
	source := `
common: &common
  agents: {queue: big}
  command: make
agents: {queue: linux}
steps:
  - <<: *common
    key: a
  - &b
    key: b
    command: make b
    agents: [os=linux]
  - wait
  - group: Tests
    steps:
      - {key: c, command: make c, agents: {gpu: "yes"}}
      - {key: d, command: make d}
`
	for _, test := range []struct {
		only []string
		runs string
	}{{nil, "a b c d"}, {[]string{"b"}, "b"}, {[]string{"Tests"}, "c d"}, {[]string{"a", "d"}, "a d"}} {
		text, err := localDefinition([]byte(source), test.only)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := definition.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var runs []string
		each(parsed.Steps, func(s definition.Step) {
			if len(s.Command.Agents) > 0 {
				t.Errorf("%s has the rules %v", s.Key, s.Command.Agents)
			}
			if !s.Skip.On {
				runs = append(runs, s.Key)
			}
		})
		if got := strings.Join(runs, " "); got != test.runs || len(parsed.Agents) > 0 {
			t.Errorf("with %q it runs %q, want %q; rules %v", test.only, got, test.runs, parsed.Agents)
		}
	}
	if _, err := localDefinition([]byte(source), []string{"e"}); err == nil || !strings.Contains(err.Error(), `no step has the key or label "e"; steps: "a", "b"`) {
		t.Error(err)
	}
}

// each calls a function for each command step.
func each(steps []definition.Step, do func(definition.Step)) {
	for _, s := range steps {
		if s.Group != nil {
			each(s.Group.Steps, do)
		} else if s.Command != nil {
			do(s)
		}
	}
}

// The pipeline of this repository is valid.
func TestPipelineOfThisRepository_IsValid(t *testing.T) {
	source, err := os.ReadFile("../../.stackyard/pipeline.yml")
	if err != nil {
		t.Fatal(err)
	}
	if _, result := lint("pipeline.yml", source); len(result.Errors)+len(result.Warnings) > 0 {
		t.Error(result)
	}
}
