package rfb

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"testing"
)

func TestAnswer_IsThatOfVNC(t *testing.T) {
	challenge, _ := hex.DecodeString("00112233445566778899aabbccddeeff")
	first, again := answer("secret", challenge), answer("secret", challenge)
	if !bytes.Equal(first, again) || bytes.Equal(first, answer("Secret", challenge)) || len(first) != 16 {
		t.Errorf("the answer is %x, then %x", first, again)
	}
	if !bytes.Equal(answer("eightchars", challenge), answer("eightcha", challenge)) {
		t.Error("more than eight characters count")
	}
}

func TestHandshake_ChecksThePassword(t *testing.T) {
	for password, want := range map[string]error{"secret": nil, "other": errPassword} {
		server, client := net.Pipe()
		admitted := make(chan error, 1)
		go func() {
			admitted <- admit(server, "secret")
			server.Close()
		}()
		err := Server{Password: password}.SignIn(client)
		client.Close()
		if got := <-admitted; !errors.Is(got, want) || (err == nil) != (want == nil) {
			t.Errorf("with the password %q the server said %v and the client %v", password, got, err)
		}
	}
}

// readWriter has input and drops output.
type readWriter struct{ io.Reader }

func (readWriter) Write(b []byte) (int, error) { return len(b), nil }

func FuzzHandshake(f *testing.F) {
	f.Add([]byte("RFB 003.008\n\x01\x01\x00\x00\x00\x00"))
	f.Add([]byte("RFB 003.889\n\x02\x1e\x02"))
	f.Add([]byte("RFB 003.008\n\x00\xff\xff\xff\xffno"))
	f.Fuzz(func(t *testing.T, input []byte) {
		Server{Password: "x"}.SignIn(readWriter{bytes.NewReader(input)})
		if err := admit(readWriter{bytes.NewReader(input)}, "secret"); err == nil {
			t.Errorf("%q is admitted", input)
		}
	})
}
