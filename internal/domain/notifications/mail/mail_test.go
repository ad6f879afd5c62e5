package mail_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"net/netip"
	"strings"
	"testing"

	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/mail/mailtest"
	"stackyard/internal/domain/notifications/report/reporttest"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/rules/flow"
)

var local = outbound.Dialer([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})

// failedMessage returns a message about a failed build.
func failedMessage(t *testing.T) *mail.Message {
	t.Helper()
	b := reporttest.Failed()
	b.Jobs = b.Jobs[2:3]
	subject, text, html, err := mail.About(b, false)
	if err != nil {
		t.Fatal(err)
	}
	return &mail.Message{ID: "m1", Thread: reporttest.BuildID, Host: "ci.example.test", To: "ada@acme.test", Subject: subject, Text: text, HTML: html, Date: reporttest.Start}
}

func TestSend_DeliversBothPartsOverTLS(t *testing.T) {
	for _, mode := range []mail.TLS{mail.StartTLS, mail.ImplicitTLS} {
		t.Run(string(mode), func(t *testing.T) {
			server := mailtest.Start(t, mode)
			s := mail.Server{Address: server.Address, Username: mailtest.Username, Password: mailtest.Password, From: "Stackyard <ci@acme.test>", TLS: mode, SkipVerify: true}
			if err := s.Send(t.Context(), local, failedMessage(t)); err != nil {
				t.Fatal(err)
			}
			got := server.Received()
			if len(got) != 1 || got[0].From != "ci@acme.test" || len(got[0].To) != 1 || got[0].To[0] != "ada@acme.test" || got[0].User != mailtest.Username {
				t.Fatalf("got %+v", got)
			}
			header, parts := decode(t, got[0].Body)
			for name, want := range map[string]string{
				"From": `"Stackyard" <ci@acme.test>`, "To": "<ada@acme.test>", "Subject": "[main] Web #7 failed",
				"Message-Id": "<m1@ci.example.test>", "References": "<" + reporttest.BuildID + "@ci.example.test>", "Auto-Submitted": "auto-generated",
			} {
				if header.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, header.Get(name), want)
				}
			}
			for _, text := range []string{"Web #7 failed on main", "https://ci.example.test/acme/web/builds/7", "Fix <it>", "Commit 7f26386599 · Ada · took 55s", "Test (exit status 2)", "#" + reporttest.TestJob} {
				if !strings.Contains(parts["text/plain"], text) {
					t.Errorf("the text lacks %q:\n%s", text, parts["text/plain"])
				}
			}
			for _, text := range []string{`<a href="https://ci.example.test/acme/web/builds/7"`, "Fix &lt;it&gt;", "#" + reporttest.TestJob + `"`, "color:#b3261e"} {
				if !strings.Contains(parts["text/html"], text) {
					t.Errorf("the page lacks %q:\n%s", text, parts["text/html"])
				}
			}
		})
	}
}

// decode reads a message as mail programs do, and returns its header and its parts by type.
func decode(t *testing.T, body []byte) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("the message is %s: %v", kind, err)
	}
	parts := make(map[string]string)
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return m.Header, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		parts[kind] = string(text)
	}
}

func TestSend_FailsForGoodOrForNow(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(server *mailtest.Server, s *mail.Server, m *mail.Message)
		retry      bool
	}{
		{"wrong password", "535", func(_ *mailtest.Server, s *mail.Server, _ *mail.Message) { s.Password = "wrong" }, false},
		{"certificate of nobody", "certificate", func(_ *mailtest.Server, s *mail.Server, _ *mail.Message) { s.SkipVerify = false }, false},
		{"password in the clear", "encrypted connection", func(_ *mailtest.Server, s *mail.Server, _ *mail.Message) { s.TLS = mail.NoTLS }, false},
		{"mailbox busy", "450", func(server *mailtest.Server, _ *mail.Server, _ *mail.Message) { server.Refuse(450) }, true},
		{"no such mailbox", "550", func(server *mailtest.Server, _ *mail.Server, _ *mail.Message) { server.Refuse(550) }, false},
		{"no server", "refused", func(server *mailtest.Server, _ *mail.Server, _ *mail.Message) { server.Close() }, true},
		{"bad sender", "is not an e-mail address", func(_ *mailtest.Server, s *mail.Server, _ *mail.Message) { s.From = "nobody" }, false},
		{"bad recipient", "must be an e-mail address", func(_ *mailtest.Server, _ *mail.Server, m *mail.Message) { m.To = "a@b.test>\r\nRCPT TO:<c@d.test" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := mailtest.Start(t, mail.StartTLS)
			s := mail.Server{Address: server.Address, Username: mailtest.Username, Password: mailtest.Password, From: "ci@acme.test", TLS: mail.StartTLS, SkipVerify: true}
			m := failedMessage(t)
			c.change(server, &s, m)
			err := s.Send(t.Context(), local, m)
			got, ok := errors.AsType[*mail.Error](err)
			if !ok || got.Retry != c.retry || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %v (retry %v), want %q", err, ok && got.Retry, c.want)
			}
			if n := len(server.Received()); n > 0 {
				t.Errorf("%d messages arrived", n)
			}
		})
	}
}

func TestSend_ReachesNoPrivateAddresses(t *testing.T) {
	server := mailtest.Start(t, mail.NoTLS)
	s := mail.Server{Address: server.Address, From: "ci@acme.test", TLS: mail.NoTLS}
	err := s.Send(t.Context(), outbound.Dialer(nil), failedMessage(t))
	if got, ok := errors.AsType[*mail.Error](err); !ok || got.Retry || !strings.Contains(err.Error(), "--outbound-allow") {
		t.Errorf("got %v", err)
	}
}

func TestSend_KeepsHeadersApart(t *testing.T) {
	server := mailtest.Start(t, mail.NoTLS)
	m := failedMessage(t)
	m.Subject = "é\r\nBcc: all@acme.test " + strings.Repeat("ü", 180)
	if err := (mail.Server{Address: server.Address, From: "ci@acme.test", TLS: mail.NoTLS}).Send(t.Context(), local, m); err != nil {
		t.Fatal(err)
	}
	body := server.Received()[0].Body
	header, _ := decode(t, body)
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	if err != nil || subject != m.Subject || header.Get("Bcc") != "" {
		t.Errorf("got %q, %v, Bcc %q", subject, err, header.Get("Bcc"))
	}
	for line := range bytes.Lines(body) {
		if len(line) > 998 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

func TestAbout_ReportsWhatHappened(t *testing.T) {
	for _, c := range []struct {
		state flow.BuildState
		fixed bool
		want  string
	}{
		{flow.BuildFailed, false, "[main] Web #7 failed"},
		{flow.BuildPassed, true, "[main] Web #7 is fixed"},
		{flow.BuildPassed, false, "[main] Web #7 passed"},
		{flow.BuildCanceled, false, "[main] Web #7 was canceled"},
		{flow.BuildFailing, false, "[main] Web #7 is failing"},
	} {
		b := reporttest.Failed()
		b.State, b.Jobs = c.state, nil
		subject, _, _, err := mail.About(b, c.fixed)
		if err != nil || subject != c.want {
			t.Errorf("got %q, %v, want %q", subject, err, c.want)
		}
	}
}

func FuzzCheckAddress(f *testing.F) {
	for _, text := range []string{"a@b.test", "A <a@b.test>", "a@b.test\r\nRCPT TO:<c@d.test>", `"a b"@c.test`, "ä@ö.test", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if mail.CheckAddress(text) == "" && strings.ContainsAny(text, " \r\n<>") {
			t.Errorf("%q passes", text)
		}
	})
}
