// Package signing signs the steps of pipelines and verifies the signatures of jobs, in the form that published
// agents use: a detached JSON Web Signature over the command, variables, plugins, matrix and repository of a step.
//
// A key set is a JWKS file. Each key names its algorithm, and a signature names its key, so that a signature cannot
// choose how it is verified.
package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
)

// A Key signs steps.
type Key = jwk.Key

// Keys verify signatures.
type Keys = jwk.Set

// An algorithm is a supported signature algorithm.
type algorithm struct {
	name     string
	keyType  jwa.KeyType
	generate func() (any, error)
}

// algorithms are the supported ones. Symmetric algorithms are not: every agent that verifies could sign, too.
var algorithms = []algorithm{
	{"EdDSA", jwa.OKP(), func() (any, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}},
	{"ES256", jwa.EC(), func() (any, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
	{"ES512", jwa.EC(), func() (any, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) }},
	{"PS512", jwa.RSA(), func() (any, error) { return rsa.GenerateKey(rand.Reader, 3072) }},
}

// Algorithms returns the names of the supported algorithms, the default first.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

func algorithmNamed(name string) (algorithm, error) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name })
	if i < 0 {
		return algorithm{}, fmt.Errorf("the algorithm %q is not supported; use one of %s", name, strings.Join(Algorithms(), ", "))
	}
	return algorithms[i], nil
}

// Generate returns a new key pair as two JWKS documents.
func Generate(algorithm, id string) (private, public []byte, err error) {
	a, err := algorithmNamed(algorithm)
	if err != nil {
		return nil, nil, err
	}
	raw, err := a.generate()
	if err != nil {
		return nil, nil, err
	}
	key, err := jwk.Import(raw)
	if err != nil {
		return nil, nil, err
	}
	alg, _ := jwa.LookupSignatureAlgorithm(a.name)
	for name, value := range map[string]any{jwk.AlgorithmKey: alg, jwk.KeyIDKey: id, jwk.KeyUsageKey: jwk.ForSignature} {
		if err := key.Set(name, value); err != nil {
			return nil, nil, err
		}
	}
	publicKey, err := jwk.PublicKeyOf(key)
	if err != nil {
		return nil, nil, err
	}
	if private, err = document(key); err != nil {
		return nil, nil, err
	}
	public, err = document(publicKey)
	return private, public, err
}

// document returns a JWKS document with one key.
func document(key jwk.Key) ([]byte, error) {
	set := jwk.NewSet()
	if err := set.AddKey(key); err != nil {
		return nil, err
	}
	return json.MarshalIndent(set, "", "  ")
}

// ParseKeys reads a JWKS document whose keys verify signatures.
func ParseKeys(document []byte) (Keys, error) {
	set, err := jwk.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if set.Len() == 0 {
		return nil, errors.New("the key set is empty")
	}
	for i := range set.Len() {
		key, _ := set.Key(i)
		if err := checkKey(key); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	return set, nil
}

// checkKey makes sure that a key has an id and an algorithm that goes with its type.
func checkKey(key jwk.Key) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if id, _ := key.KeyID(); id == "" {
		return errors.New(`the key has no id ("kid")`)
	}
	alg, ok := key.Algorithm()
	if !ok {
		return errors.New(`the key has no algorithm ("alg")`)
	}
	a, err := algorithmNamed(alg.String())
	if err != nil {
		return err
	}
	if a.keyType != key.KeyType() {
		return fmt.Errorf("the algorithm %s needs a key of type %s, not %s", a.name, a.keyType, key.KeyType())
	}
	return nil
}

// ParseKey reads the private key with an id from a JWKS document. Without an id the document must have one key.
func ParseKey(document []byte, id string) (Key, error) {
	set, err := ParseKeys(document)
	if err != nil {
		return nil, err
	}
	key, _ := set.Key(0)
	if id != "" {
		var found bool
		if key, found = set.LookupKeyID(id); !found {
			return nil, fmt.Errorf("the key set has no key %q", id)
		}
	} else if set.Len() > 1 {
		return nil, errors.New("the key set has several keys; name one by its id")
	}
	if private, err := jwk.IsPrivateKey(key); err != nil || !private {
		return nil, errors.New("the key is a public key, which cannot sign")
	}
	return key, nil
}
