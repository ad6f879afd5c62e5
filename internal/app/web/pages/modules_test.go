package pages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModules_AreThoseOfTheirPackages(t *testing.T) {
	sums, err := os.ReadFile("modules/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		known[filepath.Clean(name)] = sum
	}
	err = filepath.WalkDir("modules", func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel("modules", path)
		if err != nil || d.IsDir() || name == "SHA256SUMS" || name == "README.md" {
			return err
		}
		content, err := os.ReadFile(path)
		if sum := fmt.Sprintf("%x", sha256.Sum256(content)); err == nil && known[name] != sum {
			t.Errorf("%s is not the file of its package", name)
		}
		delete(known, name)
		return err
	})
	if err != nil || len(known) > 0 {
		t.Errorf("missing: %v, %v", known, err)
	}
}
