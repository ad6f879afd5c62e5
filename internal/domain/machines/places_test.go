package machines

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"stackyard/internal/domain/clusters"
)

// placeFolder returns a folder with the key "key", and the public key.
func placeFolder(t *testing.T) (folder, public string) {
	t.Helper()
	folder = t.TempDir()
	key, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"key": 0o600, "open": 0o644} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "vnc"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(host)))
}

func read(t *testing.T, folder, text string) ([]Place, error) {
	t.Helper()
	path := filepath.Join(folder, "machines.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadPlaces(path)
}

func TestReadPlaces_ReturnsTheMachines(t *testing.T) {
	folder, public := placeFolder(t)
	places, err := read(t, folder, `
machines:
  - {name: box, address: 10.0.0.5, user: ci, key_file: key, host_keys: ["`+public+`"]}
  - name: mac-1
    address: "[fd00::1]:2222"
    user: ci
    key_file: `+folder+`/key
    host_keys: ["`+public+`"]
    platform: macos
    capacity: 2
    program: ~/bin/stackyard
    folder: /Volumes/ci
    vnc: {address: "127.0.0.1:5900", password_file: vnc}
`)
	if err != nil || len(places) != 2 {
		t.Fatalf("got %v, %v", places, err)
	}
	if p := places[0]; p.Address != "10.0.0.5:22" || p.Capacity != 1 || p.Platform != clusters.Linux || p.Program != "stackyard" || p.VNC.Address != "" {
		t.Errorf("the first is %+v", p)
	}
	if p := places[1]; p.Address != "[fd00::1]:2222" || p.Capacity != 2 || p.Platform != clusters.MacOS || p.VNC.Password != "secret" || p.VNC.Address != "127.0.0.1:5900" {
		t.Errorf("the second is %+v", p)
	}
}

func TestReadPlaces_ReportsEveryMistake(t *testing.T) {
	folder, public := placeFolder(t)
	const fine = "name: x, address: a, user: u, key_file: key, host_keys: [KEY]"
	for text, want := range map[string]string{
		"":                                   "lists 0 machines",
		"machines: []":                       "lists 0 machines",
		"machines: [{nmae: x}]":              "line 1: field nmae not found",
		"machines: [{name: X Y}]":            "name must have lower-case letters",
		"machines: [{name: x}]":              "host_keys is required; ssh-keyscan",
		"machines: [{name: y}]":              "key_file is required",
		"machines: [{name: z}]":              "user is required",
		"machines: [{name: z, address: ''}]": `address: "" is not a host`,
		"machines: [{" + fine + "}, {" + fine + "}]":                                        "another machine has the same name",
		"machines: [{" + strings.Replace(fine, "KEY", "none", 1) + "}]":                     `host_keys: "none" is not a public key`,
		"machines: [{" + strings.Replace(fine, "key_file: key", "key_file: no", 1) + "}]":   "no such file",
		"machines: [{" + strings.Replace(fine, "key_file: key", "key_file: vnc", 1) + "}]":  "key_file: vnc: ssh: no key found",
		"machines: [{" + strings.Replace(fine, "key_file: key", "key_file: open", 1) + "}]": "can be read by other users",
		"machines: [{" + fine + ", capacity: 0}]":                                           "capacity: 0 is not a number from 1 to 100",
		"machines: [{" + fine + ", platform: beos}]":                                        `platform: "beos" is not one of linux, macos`,
		"machines: [{" + fine + ", vnc: {address: '127.0.0.1:5900'}}]":                      "only machines with the platform macos",
		"machines: [{" + fine + ", platform: macos, vnc: {address: host}}]":                 `"host" is neither an address`,
		"machines: [{" + fine + ", vnc: {password_file: vnc}}]":                             "vnc: address is required",
	} {
		_, err := read(t, folder, strings.ReplaceAll(text, "KEY", "'"+public+"'"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestQuote_IsOneWordOfAShell(t *testing.T) {
	for word, want := range map[string]string{"a b": "'a b'", "it's": `'it'\''s'`, "~/x y": "~/'x y'", "$(id)": "'$(id)'"} {
		if got := quote(word); got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}
}
