package agentcli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"stackyard/internal/clients/runner/signing"
)

// maxKeyFile is the maximum size of a file with keys in bytes.
const maxKeyFile = 1 << 20

// signingKey reads the key of --signing-jwks-file.
func (p *agentParser) signingKey() signing.Key {
	file := p.values["signing-jwks-file"]
	if file == "" {
		return nil
	}
	key, err := readSigningKey(file, p.values["signing-jwks-key-id"])
	if err != nil {
		p.wrong("signing-jwks-file", "%v", err)
		return nil
	}
	return key
}

// verifyKeys reads the keys of --verification-jwks-file.
func (p *agentParser) verifyKeys() signing.Keys {
	file := p.values["verification-jwks-file"]
	if file == "" {
		return nil
	}
	text, err := readKeyFile(file)
	if err == nil {
		var keys signing.Keys
		if keys, err = signing.ParseKeys(text); err == nil {
			return keys
		}
	}
	p.wrong("verification-jwks-file", "%s: %v", file, err)
	return nil
}

// oneOf returns a value that must be one of the words.
func (p *agentParser) oneOf(flag string, words ...string) string {
	if !slices.Contains(words, p.values[flag]) {
		p.wrong(flag, "%q is not one of %s", p.values[flag], strings.Join(words, ", "))
	}
	return p.values[flag]
}

// readSigningKey reads a private key from a JWKS file.
func readSigningKey(file, id string) (signing.Key, error) {
	text, err := readKeyFile(file)
	if err != nil {
		return nil, err
	}
	key, err := signing.ParseKey(text, id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

func readKeyFile(file string) ([]byte, error) {
	about, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() || about.Size() > maxKeyFile {
		return nil, fmt.Errorf("%s is not a file with keys", file)
	}
	return os.ReadFile(file)
}
