// Package client stores the servers that the user has signed in to (hosts.go), signs in with the device authorization grant
// (login.go), and connects remote sessions (tunnel.go). Package stackyard/api calls the servers.
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

// Hosts are the servers that the user has signed in to from this machine. They are stored in a file that only
// the user can read.
type Hosts struct {
	// Current is the URL of the default server.
	Current string           `json:"current"`
	Logins  map[string]Login `json:"logins"` // by URL
}

// A Login holds the tokens for a server.
type Login struct {
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	Expiry       time.Time `json:"expiry,omitzero"` // zero: the access token does not expire
	Email        string    `json:"email"`
}

// HostsFile returns the path of hosts.json in STACKYARD_CONFIG_DIR, or in the user's configuration directory.
func HostsFile() (string, error) {
	if dir := os.Getenv("STACKYARD_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "hosts.json"), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration directory: %w; set STACKYARD_CONFIG_DIR", err)
	}
	return filepath.Join(dir, "stackyard", "hosts.json"), nil
}

// LoadHosts reads a hosts file. A missing file means no hosts.
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

// URLs returns the sorted URLs of the servers.
func (h *Hosts) URLs() []string { return slices.Sorted(maps.Keys(h.Logins)) }

// Add adds a login and makes its server the current one.
func (h *Hosts) Add(url string, login Login) {
	h.Logins[url] = login
	h.Current = url
}

// Remove removes a login. If its server was current, another one becomes current.
func (h *Hosts) Remove(url string) {
	delete(h.Logins, url)
	if h.Current == url {
		h.Current = ""
		if rest := h.URLs(); len(rest) > 0 {
			h.Current = rest[0]
		}
	}
}

// ChangeHosts changes a hosts file. It locks the file against concurrent changes.
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

// save replaces the file atomically.
func (h *Hosts) save(path string) error {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	// CreateTemp creates a file that only the user can read.
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
