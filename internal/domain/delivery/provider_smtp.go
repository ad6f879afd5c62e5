package delivery

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// smtp sends e-mails to the people who created builds, as the build states of the receiver say.
var smtp = &Provider{Names: switchNames, Wants: switchWants, Send: sendMail}

// failedStates are the states of jobs that a message lists.
var failedStates = []string{"failed", "timed_out", "expired"}

func sendMail(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.SMTPSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{Err: err, Permanent: true}
	}
	to, err := m.recipient(ctx)
	if err != nil {
		return Answer{Err: err}
	}
	if to == "" {
		return Answer{Status: http.StatusNoContent, Response: remark(http.StatusNoContent, "the build was not created by a member of the organization")}
	}
	b := m.report()
	err = m.service.DB.Read(ctx, func(q *db.Q) error {
		return b.LoadJobs(q, m.service.Builds, builds.JobFilter{States: failedStates}, mail.MaxJobs)
	})
	if err != nil {
		return Answer{Err: err}
	}
	facts := m.Event.Facts.Build
	subject, text, html, err := mail.About(b, facts != nil && facts.Fixed)
	if err != nil {
		return Answer{Err: err, Permanent: true}
	}
	server := mail.Server{
		Address: settings.Server, Username: settings.Username, Password: settings.Password,
		From: settings.From, TLS: mail.TLS(settings.TLS), SkipVerify: !settings.TLSVerify,
	}
	host, _, _ := strings.Cut(m.service.Public.Host(), ":")
	message := &mail.Message{
		ID: m.ID, Thread: b.ID, Host: host, To: to,
		Subject: subject, Text: text, HTML: html, Date: m.SentAt,
	}
	const accepted = 250 // by SMTP, which has the same classes of statuses as HTTP
	answer := Answer{Status: accepted, Request: &RequestRecord{
		Method: "MAIL", URL: "smtp://" + settings.Server, Body: text,
		Headers: map[string]string{"From": settings.From, "To": to, "Subject": subject},
	}}
	if failed, ok := errors.AsType[*mail.Error](server.Send(ctx, m.service.dialer, message)); ok {
		answer.Status, answer.Err, answer.Permanent = 0, failed, !failed.Retry
		if failed.Code != 0 { // the server works, but does not take this message now or ever
			answer.Status = http.StatusServiceUnavailable
		}
	}
	return answer
}

// recipient returns the address of the build's creator; empty: none, or one that has left the organization.
func (m *Message) recipient(ctx context.Context) (string, error) {
	if m.Target != nil {
		return m.Target.To, nil
	}
	by := m.Build.Creator
	if by == nil {
		return "", nil
	}
	_, err := m.service.Organizations.Member(ctx, m.Organization.ID, by.ID)
	if core.KindOf(err) == core.NotFound {
		return "", nil
	}
	return by.Email, err
}
