package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/hookpayload"
)

type receivedView struct {
	ID      *string `json:"id" doc:"The delivery, as in the list of the pipeline's deliveries."`
	Message string  `json:"message"`
}

// receive stores what a source host sends. The answer does not depend on what is built.
func (s *Service) receive(r *route.Request) (receivedView, error) {
	key := r.PathValue("key")
	d := &Delivery{ID: core.NewID(), State: Pending, CreatedAt: s.clock()}
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		d.OrganizationID, d.PipelineID, err = pipelines.ByWebhookKey(q, key)
		return err
	})
	if err != nil {
		return receivedView{}, err
	}
	host, event, ok := hookpayload.HostOf(r.Header)
	if !ok {
		return receivedView{}, core.Errorf(core.BadRequest, "No header names the event; webhooks of GitHub, GitLab, Bitbucket, Gitea and Forgejo are understood")
	}
	body, err := r.ReadBody(hookpayload.MaxBody)
	if err != nil {
		return receivedView{}, err
	}
	if err := verify(host, r.Header, body, s.pipelines.SecretOfWebhook(key)); err != nil {
		return receivedView{}, err
	}
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return receivedView{}, core.Errorf(core.BadRequest, "The request body is not valid UTF-8")
	}
	d.Host, d.Event, d.Body, d.Headers = host, core.Cut(printable(event), maxHeader), string(body), keptHeaders(r.Header)
	d.DeliveryID = hookpayload.DeliveryID(host, r.Header)
	if d.DeliveryID == "" || signs(host) {
		// The delivery id is not signed: someone who replays a body could change it.
		sum := sha256.Sum256(body)
		d.Digest = hex.EncodeToString(sum[:])
	}
	return s.store(r, d)
}

func (s *Service) store(r *route.Request, d *Delivery) (v receivedView, err error) {
	var added bool
	id := d.ID
	err = s.db.Write(r.Context(), func(q *db.Q) (err error) {
		if added, err = add(q, d); err != nil || added {
			return err
		}
		id, err = sameAs(q, d)
		return err
	})
	if err != nil {
		return v, err
	}
	if !added {
		return receivedView{core.OrNull(id), "This delivery was received before, so it is not processed again"}, nil
	}
	return receivedView{&id, "Received"}, nil
}

// Limits of the headers that are kept.
const (
	maxHeaders = 40
	maxHeader  = 512 // bytes of a value
)

// secretHeaders are not kept.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", gitlabToken}

// keptHeaders returns the headers to show to people.
func keptHeaders(h http.Header) map[string]string {
	kept := map[string]string{}
	for name, values := range h {
		if slices.ContainsFunc(secretHeaders, func(s string) bool { return strings.EqualFold(s, name) }) || len(kept) >= maxHeaders {
			continue
		}
		kept[core.Cut(name, 100)] = core.Cut(printable(strings.Join(values, ", ")), maxHeader)
	}
	kept["Content-Type"] = core.Cut(printable(h.Get("Content-Type")), maxHeader) // which processing reads
	return kept
}

// printable returns text that both engines can store.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
