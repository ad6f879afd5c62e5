package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName matches a test in a document, or the beginning of several: TestHeld_….
var testName = regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z]\w*)(…?)`)

// testFunction matches the declaration of a test.
var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z]\w*)\(`)

func TestArchitecture_NamesTestsThatExist(t *testing.T) {
	var tests []string
	for _, root := range []string{".", "../cmd", "../api", "../interop", "../packaging"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range testFunction.FindAllSubmatch(source, -1) {
				tests = append(tests, string(m[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range testName.FindAllStringSubmatch(readText(t, "../ARCHITECTURE.md"), -1) {
		name, several := m[1], m[2] != ""
		if !slices.ContainsFunc(tests, func(test string) bool { return test == name || several && strings.HasPrefix(test, name) }) {
			t.Errorf("the document names %s, which does not exist", m[0])
		}
	}
}

func TestArchitecture_DescribesEveryPackage(t *testing.T) {
	text := readText(t, "../ARCHITECTURE.md")
	folders, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if name := filepath.Base(folder); !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the table of packages has no row for %s", folder)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
