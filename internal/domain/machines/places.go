package machines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/rfb"
)

// A Place is a machine that the remote provider runs agents on.
type Place struct {
	Name     string
	Address  string // host:port
	User     string
	Platform clusters.Platform
	Capacity int    // agents at once
	Program  string // stackyard on the machine
	Folder   string // of agents; "": in the home directory
	// VNC is the desktop, as the machine itself reaches it; the address is "" if there is none.
	VNC rfb.Server

	key      ssh.Signer
	hostKeys []ssh.PublicKey
}

// placesFile is the file that lists the machines.
type placesFile struct {
	Machines []placeEntry `yaml:"machines"`
}

type placeEntry struct {
	Name     string            `yaml:"name"`
	Address  string            `yaml:"address"`
	User     string            `yaml:"user"`
	KeyFile  string            `yaml:"key_file"`
	HostKeys []string          `yaml:"host_keys"`
	Platform clusters.Platform `yaml:"platform"`
	Capacity *int              `yaml:"capacity"`
	Program  string            `yaml:"program"`
	Folder   string            `yaml:"folder"`
	VNC      struct {
		Address      string `yaml:"address"`
		PasswordFile string `yaml:"password_file"`
	} `yaml:"vnc"`
}

const (
	maxPlaces    = 500
	maxCapacity  = 100
	maxPlaceFile = 1 << 20
	maxKeyFile   = 64 << 10
)

var placeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// ReadPlaces reads the file that lists the machines of the remote provider. It returns all errors at once.
func ReadPlaces(path string) ([]Place, error) {
	text, err := readBounded(path, maxPlaceFile)
	if err != nil {
		return nil, err
	}
	var file placesFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n := len(file.Machines); n == 0 || n > maxPlaces {
		return nil, fmt.Errorf("%s: lists %d machines; list 1 to %d under \"machines\"", path, n, maxPlaces)
	}
	var places []Place
	var errs []error
	names := map[string]bool{}
	for i, entry := range file.Machines {
		p, problems := entry.place(filepath.Dir(path))
		if names[p.Name] {
			problems = append(problems, errors.New("another machine has the same name"))
		}
		names[p.Name] = true
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("%s: machine %d %q: %w", path, i+1, entry.Name, problem))
		}
		places = append(places, p)
	}
	return places, errors.Join(errs...)
}

// place returns the machine of an entry, and what is wrong with it. Files are relative to a folder.
func (e placeEntry) place(folder string) (p Place, problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	p = Place{Name: e.Name, Address: e.Address, User: e.User, Platform: e.Platform, Capacity: 1, Program: e.Program, Folder: e.Folder}
	if !placeName.MatchString(p.Name) {
		bad("name must have lower-case letters, digits, dots and hyphens")
	}
	if _, _, err := net.SplitHostPort(p.Address); err != nil {
		p.Address = net.JoinHostPort(strings.Trim(p.Address, "[]"), "22")
	}
	if host, _, err := net.SplitHostPort(p.Address); err != nil || host == "" {
		bad("address: %q is not a host such as mac-1.example.com or 10.0.0.5:22", e.Address)
	}
	if p.User == "" {
		bad("user is required")
	}
	if p.Platform == "" {
		p.Platform = clusters.Linux
	}
	if !slices.Contains(p.Platform.Values(), string(p.Platform)) {
		bad("platform: %q is not one of %s", p.Platform, strings.Join(p.Platform.Values(), ", "))
	}
	if e.Capacity != nil {
		p.Capacity = *e.Capacity
	}
	if p.Capacity < 1 || p.Capacity > maxCapacity {
		bad("capacity: %d is not a number from 1 to %d", p.Capacity, maxCapacity)
	}
	if p.Program == "" {
		p.Program = "stackyard"
	}
	var err error
	if p.key, err = readKey(folder, e.KeyFile); err != nil {
		problems = append(problems, err)
	}
	for _, text := range e.HostKeys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			bad("host_keys: %q is not a public key such as \"ssh-ed25519 AAAA…\"", text)
			continue
		}
		p.hostKeys = append(p.hostKeys, key)
	}
	if len(e.HostKeys) == 0 {
		bad("host_keys is required; ssh-keyscan shows the keys of a host")
	}
	problems = append(problems, e.desktop(folder, &p)...)
	return p, problems
}

// desktop sets the desktop of a machine.
func (e placeEntry) desktop(folder string, p *Place) (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	p.VNC.Address = e.VNC.Address
	switch {
	case p.VNC.Address == "" && e.VNC.PasswordFile != "":
		bad("vnc: address is required")
	case p.VNC.Address == "":
	case p.Platform != clusters.MacOS:
		bad("vnc: only machines with the platform macos have desktops")
	default:
		if _, _, err := net.SplitHostPort(p.VNC.Address); err != nil && !strings.HasPrefix(p.VNC.Address, "/") {
			bad("vnc: address: %q is neither an address such as 127.0.0.1:5900 nor an absolute path", p.VNC.Address)
		}
	}
	if e.VNC.PasswordFile != "" {
		text, err := readSecret(folder, e.VNC.PasswordFile)
		if err != nil {
			bad("vnc: password_file: %w", err)
		}
		p.VNC.Password = strings.TrimSpace(string(text))
	}
	return problems
}

// readKey reads the private key with which the server signs in.
func readKey(folder, path string) (ssh.Signer, error) {
	if path == "" {
		return nil, errors.New("key_file is required")
	}
	text, err := readSecret(folder, path)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("key_file: %s: %w", path, err)
	}
	return key, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(folder, path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if about.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by other users; run chmod 600 on it", path)
	}
	return readBounded(path, maxKeyFile)
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return text, err
}
