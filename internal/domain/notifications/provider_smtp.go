package notifications

import "regexp"

// smtp sends e-mails about builds to the people who created them.
var smtp = &Provider{
	ID: "smtp", Name: "E-mail (SMTP)",
	Settings: []Setting{
		{
			Name: "server", Required: true, Doc: "Host and port of the SMTP server, such as smtp.example.com:587.",
			Kind: text{max: 260, pattern: regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`), form: "must be a host and a port, such as smtp.example.com:587"},
		},
		{Name: "tls", Kind: choice{"starttls", "tls", "none"}, Default: fixed("starttls"), Doc: "How the connection is encrypted: starttls and tls require encryption, none has none and sends no password."},
		{Name: "tls_verify", Kind: flag{}, Default: fixed(true), Doc: "Verify the TLS certificate."},
		{Name: "username", Kind: text{max: 255}, Doc: "User name at the server, if it wants one."},
		{Name: "password", Kind: text{max: 1024}, Show: Omitted, Doc: "Password at the server. It is never shown."},
		{Name: "from", Required: true, Doc: "Sender, such as ci@example.com or Stackyard <ci@example.com>.", Kind: sender{}},
	},
}

// SMTPSettings are the settings of e-mail.
type SMTPSettings struct {
	Server    string `json:"server"`
	TLS       string `json:"tls"`
	TLSVerify bool   `json:"tls_verify"`
	Username  string `json:"username"`
	Password  string `json:"password"`
	From      string `json:"from"`
}
