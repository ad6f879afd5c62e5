package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/clients/client"
)

func TestHosts_AreKeptWhereOnlyTheUserReadsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stackyard", "hosts.json")
	err := client.ChangeHosts(path, func(h *client.Hosts) error {
		h.Add("https://a", client.Login{AccessToken: "secret", Email: "ada@acme.test"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if found, err := os.Stat(name); err != nil || found.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, found.Mode().Perm(), err, want)
		}
	}
	h, err := client.LoadHosts(path)
	if err != nil || h.Current != "https://a" || h.Logins["https://a"].AccessToken != "secret" {
		t.Errorf("read back %+v, %v", h, err)
	}
}

func TestHosts_RemovingTheCurrentOneTurnsToAnother(t *testing.T) {
	h := &client.Hosts{Logins: map[string]client.Login{}}
	h.Add("https://b", client.Login{})
	h.Add("https://a", client.Login{})
	h.Remove("https://a")
	if h.Current != "https://b" {
		t.Errorf("the current server is %q", h.Current)
	}
	h.Remove("https://b")
	if h.Current != "" {
		t.Errorf("the current server is %q", h.Current)
	}
}

func TestChangeHosts_LosesNoneOfManyChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.json")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := client.ChangeHosts(path, func(h *client.Hosts) error {
				h.Add(fmt.Sprintf("https://%d", i), client.Login{})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if h, err := client.LoadHosts(path); err != nil || len(h.Logins) != 20 {
		t.Errorf("%d logins are left, %v", len(h.Logins), err)
	}
}

func TestLoadHosts_ExplainsHowToFixADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.LoadHosts(path); err == nil || !strings.Contains(err.Error(), "remove it and sign in again") {
		t.Errorf("error %v", err)
	}
}
