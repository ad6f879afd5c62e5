package seal

import (
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/core"
)

func TestHashPassword_IsCheckedByItsPasswordOnly(t *testing.T) {
	hash, err := HashPassword("correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s", hash)
	}
	if !CheckPassword(hash, "correct horse battery staple") {
		t.Error("its own password is refused")
	}
	for _, wrong := range []string{"", "correct horse battery stapl", "Correct horse battery staple", strings.Repeat("x", MaxPassword+1)} {
		if CheckPassword(hash, wrong) {
			t.Errorf("%.40q is accepted", wrong)
		}
	}
	if again, _ := HashPassword("correct horse battery staple"); again == hash {
		t.Error("the same password hashes to the same text: no salt")
	}
}

func TestHashPassword_RefusesEmptyAndOverlong(t *testing.T) {
	for _, password := range []string{"", strings.Repeat("x", MaxPassword+1)} {
		if _, err := HashPassword(password); core.KindOf(err) != core.Unprocessable {
			t.Errorf("%d bytes: %v", len(password), err)
		}
	}
	if _, err := HashPassword(strings.Repeat("x", MaxPassword)); err != nil {
		t.Errorf("the longest password: %v", err)
	}
}

// From the reference implementation: password "password", salt "somesalt".
func TestCheckPassword_KnowsHashesOfOthersAndOfOtherCosts(t *testing.T) {
	const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	if !CheckPassword(hash, "password") || CheckPassword(hash, "passwore") {
		t.Fatal("the reference hash is not understood")
	}
}

func TestCheckPassword_IsFalseForWhatIsNotAHash(t *testing.T) {
	for _, hash := range []string{
		"",
		"password",
		"$argon2id$",
		"$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=16$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=19$m=4294967295,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=19$m=19456,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=19$m=19456,t=2,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$",
		"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$!!!",
		"$argon2id$v=19$m=x,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
	} {
		if CheckPassword(hash, "password") || CheckPassword(hash, "") {
			t.Errorf("%q accepts a password", hash)
		}
	}
}

func TestCheckPassword_WaitsItsTurnInABurst(t *testing.T) {
	hash, err := HashPassword("x")
	if err != nil {
		t.Fatal(err)
	}
	for range cap(hashing) {
		hashing <- struct{}{}
	}
	responses := make(chan bool)
	var burst sync.WaitGroup
	for range 4 {
		burst.Go(func() { responses <- CheckPassword(hash, "x") })
	}
	select {
	case <-responses:
		t.Fatal("a hash was computed although all places were taken")
	default:
	}
	for range cap(hashing) {
		<-hashing
	}
	for range 4 {
		if !<-responses {
			t.Error("a sign-in that waited is refused")
		}
	}
	burst.Wait()
}

func BenchmarkCheckPassword(b *testing.B) {
	hash, err := HashPassword("correct horse battery staple")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		CheckPassword(hash, "correct horse battery staple")
	}
}
