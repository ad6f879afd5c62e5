package seal_test

import (
	"testing"

	"stackyard/internal/platform/seal"
)

func TestSigner_ReturnsTheClaimsOfItsOwnTokensOnly(t *testing.T) {
	key := seal.NewKey()
	s := key.Signer("one")
	token := s.Token("x_", []byte("claims"))
	if claims, ok := s.Claims("x_", token, 6); !ok || string(claims) != "claims" {
		t.Fatalf("claims of %s: %q, %t", token, claims, ok)
	}
	changed := []byte(token)
	changed[5] ^= 1
	for name, check := range map[string]struct {
		signer seal.Signer
		token  string
		size   int
	}{
		"another purpose": {key.Signer("two"), token, 6},
		"another key":     {seal.NewKey().Signer("one"), token, 6},
		"another size":    {s, token, 5},
		"another prefix":  {s, "y" + token[1:], 6},
		"changed":         {s, string(changed), 6},
		"not base64":      {s, token + "!", 6},
		"too long":        {s, token + "A", 6},
		"empty":           {s, "x_", 6},
	} {
		if claims, ok := check.signer.Claims("x_", check.token, check.size); ok {
			t.Errorf("%s: got claims %q", name, claims)
		}
	}
}
