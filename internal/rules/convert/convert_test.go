package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/rules/definition"
)

var update = flag.Bool("update", false, "write the expected results")

func TestConvert_Files(t *testing.T) {
	for _, name := range []string{"woodpecker", "drone", "actions"} {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", name+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			result, err := Convert(source)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			fmt.Fprintf(&got, "# %s\n%s", result.Format, result.Pipeline)
			for _, n := range result.Notes {
				fmt.Fprintf(&got, "# line %d: %s\n", n.Line, n.Text)
			}
			path := filepath.Join("testdata", name+".want")
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || got.String() != string(want) {
				t.Errorf("%v; got\n%s", err, got.String())
			}
			parsed, err := definition.Parse([]byte(result.Pipeline))
			if err != nil || len(parsed.Warnings) > 0 {
				t.Errorf("the pipeline is not valid: %v, %v", err, parsed.Warnings)
			}
		})
	}
}

func TestConvert_KeepsOneWorkspace(t *testing.T) {
	result, err := Convert([]byte("steps:\n  build: {image: golang, commands: [make, make install]}\n  test: {image: golang, commands: make test}\n"))
	want := `steps:
  - label: build, test
    image: golang
    command:
      - |-
        echo '--- build'
        make
      - make install
      - |-
        echo '--- test'
        make test
`
	if err != nil || result.Pipeline != want || len(result.Notes) != 0 {
		t.Errorf("%v, %v, got\n%s", err, result.Notes, result.Pipeline)
	}
}

func TestConvert_SaysWhatItCannotRead(t *testing.T) {
	for source, want := range map[string]string{
		"":                       "not a YAML mapping",
		"- a":                    "not a YAML mapping",
		"a: [":                   "yaml:",
		"stages: [test]":         "looks like none of",
		"steps: []":              "no steps",
		"jobs: {a: {steps: []}}": "no steps",
		"jobs: {a: {steps: [{run: ls}]}}\n---\nkind: pipeline\nsteps: [{name: a, commands: ls}]": "mixes GitHub Actions and Drone",
		"x: &a [1]\nsteps: [*a]":                   "aliases",
		"steps: " + strings.Repeat(" ", maxSource): "at most 1048576",
	} {
		if _, err := Convert([]byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: the error is %v, want one with %q", source, err, want)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, name := range []string{"woodpecker", "drone", "actions"} {
		source, err := os.ReadFile(filepath.Join("testdata", name+".yml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		result, err := Convert(source)
		if err == nil && !strings.Contains(result.Pipeline, "steps:") {
			t.Errorf("a pipeline without steps: %s", result.Pipeline)
		}
	})
}
