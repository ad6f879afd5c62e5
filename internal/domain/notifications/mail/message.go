package mail

import (
	"bytes"
	"fmt"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"time"
)

// A Message is an e-mail.
type Message struct {
	// ID identifies the message, and Thread what it is about: mail programs show messages with the same one together.
	ID, Thread string
	Host       string // of the installation, for the ids
	To         string // an address without a name
	Subject    string
	Text, HTML string
	Date       time.Time
}

// CheckAddress returns what is wrong with an address, "" for one that mail can be sent to. It takes plain addresses
// only, as SMTP does.
func CheckAddress(text string) string {
	parsed, err := parseAddress(text)
	if err != nil || parsed.Address != text {
		return "must be an e-mail address, such as team@example.com"
	}
	return ""
}

// maxAddress is the length of the longest address that SMTP knows, in bytes.
const maxAddress = 254

func parseAddress(text string) (*mail.Address, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return nil, err
	}
	if len(parsed.Address) > maxAddress || strings.ContainsAny(parsed.Address, " \t\r\n<>\"") {
		return nil, fmt.Errorf("the address %.300q cannot be used", parsed.Address)
	}
	return parsed, nil
}

// encode returns the message as it is sent.
func (m *Message) encode(from *mail.Address) ([]byte, error) {
	if wrong := CheckAddress(m.To); wrong != "" {
		return nil, fmt.Errorf("the recipient %.300q %s", m.To, wrong)
	}
	var b bytes.Buffer
	body := multipart.NewWriter(&b)
	for _, header := range [][2]string{
		{"From", from.String()},
		{"To", (&mail.Address{Address: m.To}).String()},
		{"Subject", encodeText(m.Subject)},
		{"Date", m.Date.Format(time.RFC1123Z)},
		{"Message-ID", "<" + m.ID + "@" + m.Host + ">"},
		{"References", "<" + m.Thread + "@" + m.Host + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", `multipart/alternative; boundary="` + body.Boundary() + `"`},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", header[0], header[1])
	}
	b.WriteString("\r\n")
	for _, part := range [][2]string{{"text/plain", m.Text}, {"text/html", m.HTML}} { // programs show the last one that they can
		w, err := body.CreatePart(textproto.MIMEHeader{
			"Content-Type":              {part[0] + "; charset=utf-8"},
			"Content-Transfer-Encoding": {"quoted-printable"},
		})
		if err != nil {
			return nil, err
		}
		lines := quotedprintable.NewWriter(w)
		if _, err := lines.Write([]byte(part[1])); err != nil {
			return nil, err
		}
		if err := lines.Close(); err != nil {
			return nil, err
		}
	}
	if err := body.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encodeText returns a text as headers have it, on lines that are not too long.
func encodeText(text string) string {
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", text), "?= =?", "?=\r\n =?")
}
