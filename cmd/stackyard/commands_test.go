package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// testedInGo are the commands whose failures are tested in Go, because they need more than a script can start.
var testedInGo = map[string]string{
	"agent": "agent_test.go", "machine": "hosted_remote_test.go", "run": "run_test.go", "serve": "serve_test.go", "up": "up_test.go",
}

// Every command has a script in which it works or at least runs, and one in which it fails with a text that is checked.
func TestEveryCommand_HasAScript(t *testing.T) {
	scripts := readAll(t, "testdata/*/*.txtar")
	tests := readAll(t, "*_test.go")
	for _, name := range commandNames(root(), "") {
		words := regexp.QuoteMeta(name)
		fails := regexp.MustCompile(`(?m)^exits [1-9][0-9]* stackyard ` + words + `( .*)?\n(stdout|stderr) `)
		if !fails.MatchString(scripts) && testedInGo[name] == "" {
			t.Errorf("no script in testdata expects a failure of stackyard %s and its text", name)
		}
		works := regexp.MustCompile(`(?m)(exec |[^s] |\()(stackyard|buildkite-agent) ` + words + `\b`)
		quoted := `"` + strings.ReplaceAll(name, " ", `", "`) + `"`
		if !works.MatchString(scripts) && !works.MatchString(tests) && !strings.Contains(tests, quoted) && !strings.Contains(tests, name) {
			t.Errorf("no test runs stackyard %s", name)
		}
	}
}

// Every command says in one line what it does, and names its arguments.
func TestEveryCommand_HasHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || cmd.Short[:1] != strings.ToUpper(cmd.Short[:1]) {
			t.Errorf("%s: the short help is %q", path, cmd.Short)
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len(line) > 120 {
				t.Errorf("%s: the line is too long: %s", path, line)
			}
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			if line != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example is not indented: %s", path, line)
			}
		}
		for _, c := range cmd.Commands() {
			if c.Name() != "completion" && c.Name() != "help" && !c.Hidden {
				check(c)
			}
		}
	}
	check(root())
}

// commandNames returns the names of the commands that can be run, without that of the program.
func commandNames(cmd *cobra.Command, prefix string) (names []string) {
	for _, c := range cmd.Commands() {
		name := strings.TrimSpace(prefix + " " + c.Name())
		if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		if !c.HasSubCommands() || name == "agent" || name == "stack" {
			names = append(names, name)
		}
		names = append(names, commandNames(c, name)...)
	}
	return names
}

// readAll returns the content of all files that match a pattern.
func readAll(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
