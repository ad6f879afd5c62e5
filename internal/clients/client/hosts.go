package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Hosts are the servers that the user has signed in to from this machine. They are kept in one file
// that only the user can read.
type Hosts struct {
	// Current is the URL of the server that commands speak to when none is named.
	Current string           `json:"current"`
	Logins  map[string]Login `json:"logins"` // by URL
}

// A Login is what was obtained by signing in to a server.
type Login struct {
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	Expiry       time.Time `json:"expiry,omitzero"` // zero: the access token does not expire
	Email        string    `json:"email"`
}

// HostsFile is where the user's servers are remembered: hosts.json in the folder that
// STACKYARD_CONFIG_DIR names, or in the user's own folder for settings.
func HostsFile() (string, error) {
	if dir := os.Getenv("STACKYARD_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "hosts.json"), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of your settings: %w; STACKYARD_CONFIG_DIR can name one", err)
	}
	return filepath.Join(dir, "stackyard", "hosts.json"), nil
}

// LoadHosts reads a file of hosts. One that does not exist is empty.
func LoadHosts(path string) (*Hosts, error) {
	h := &Hosts{Logins: map[string]Login{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w); remove it and sign in again", path, err)
	}
	if h.Logins == nil {
		h.Logins = map[string]Login{}
	}
	return h, nil
}

// URLs returns the servers in order.
func (h *Hosts) URLs() []string { return slices.Sorted(maps.Keys(h.Logins)) }

// Add remembers a login and makes its server the current one.
func (h *Hosts) Add(url string, login Login) {
	h.Logins[url] = login
	h.Current = url
}

// Remove forgets a login. Another server, if there is one, becomes the current one.
func (h *Hosts) Remove(url string) {
	delete(h.Logins, url)
	if h.Current == url {
		h.Current = ""
		if rest := h.URLs(); len(rest) > 0 {
			h.Current = rest[0]
		}
	}
}

// ChangeHosts changes a file of hosts. Programs that change it at the same time take turns.
func ChangeHosts(path string, change func(*Hosts) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockedfile.MutexAt(path + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()
	h, err := LoadHosts(path)
	if err != nil {
		return err
	}
	if err := change(h); err != nil {
		return err
	}
	return h.save(path)
}

// save replaces the file, so that one who reads it never sees half of it.
func (h *Hosts) save(path string) error {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	// CreateTemp makes a file that only the user can read.
	f, err := os.CreateTemp(filepath.Dir(path), ".hosts-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
