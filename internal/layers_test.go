// Package internal_test checks the structure of the source tree.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists the layers, or single packages of layers, that each layer imports. Tests are exempt: they start the server they test.
var allowed = map[string][]string{
	"app":      {"app", "domain", "rules", "platform"},
	"domain":   {"domain", "rules", "platform"},
	"rules":    {"rules", "platform"},
	"platform": {"platform"},
	"clients":  {"clients", "platform/sourcehost", "platform/rfb", "rules/message"},
}

func TestLayers_ImportDownwardsOnly(t *testing.T) {
	seen := map[string]bool{}
	for path, layer := range goFiles(t) {
		seen[layer] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			rest, ours := strings.CutPrefix(imported, "stackyard/internal/")
			if !ours {
				continue
			}
			target, _, _ := strings.Cut(rest, "/")
			if !slices.Contains(allowed[layer], target) && !slices.Contains(allowed[layer], rest) {
				t.Errorf("%s imports %s: layer %q must not import layer %q", path, imported, layer, target)
			}
		}
	}
	for layer := range allowed {
		if !seen[layer] {
			t.Errorf("no files found in layer %q", layer)
		}
	}
}

// goFiles returns the Go files below internal with the layer of each, without tests and test helpers.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasSuffix(entry.Name(), "test") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		layer, _, nested := strings.Cut(filepath.ToSlash(path), "/")
		if !nested {
			t.Errorf("%s is in no layer", path)
		}
		files[path] = layer
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
