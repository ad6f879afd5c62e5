package seal

import (
	"regexp"
	"testing"
)

func TestNewToken_IsPrefixAnd43LettersAndDigits(t *testing.T) {
	form := regexp.MustCompile(`^svcua_[0-9A-Za-z]{43}$`)
	seen := map[string]bool{}
	for range 2000 {
		token := NewToken("svcua_")
		if !form.MatchString(token) {
			t.Fatalf("the token %q has another form", token)
		}
		if seen[token] {
			t.Fatalf("the token %q came twice", token)
		}
		seen[token] = true
	}
}

func TestHashToken_IsSHA256InHex(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := HashToken("abc"); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}
