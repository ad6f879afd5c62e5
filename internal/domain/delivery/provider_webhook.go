package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/domain/notifications"
)

// webhook posts events as JSON. All versions of payloads are the same.
var webhook = &Provider{Names: listedNames, Request: webhookRequest, Pings: true, Tests: true}

// headerPrefixes are the prefixes of the headers of a webhook: ours, and the one that receivers already check.
var headerPrefixes = []string{"X-Service-", "X-Buildkite-"}

func webhookRequest(m *Message) (*Request, error) {
	var settings notifications.WebhookSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return nil, err
	}
	body, err := json.Marshal(m.Payload())
	if err != nil {
		return nil, err
	}
	r := &Request{
		URL:        settings.URL,
		Body:       body,
		SkipVerify: !settings.TLSVerify,
		Header:     http.Header{"Content-Type": {"application/json"}, "X-Buildkite-Request": {m.ID}},
	}
	for _, prefix := range headerPrefixes {
		r.Header.Set(prefix+"Event", string(m.Event.Name))
		r.Header.Set(prefix+"Delivery", m.ID)
		switch settings.TokenMode {
		case notifications.TokenSigns:
			r.Header.Set(prefix+"Signature", signature(settings.Token, m.SentAt, body))
		default:
			r.Header.Set(prefix+"Token", settings.Token)
			r.SecretHeaders = append(r.SecretHeaders, prefix+"Token")
		}
	}
	return r, nil
}

// signature returns the value of a signature header: when it was made, and the HMAC-SHA256 of that and the body.
func signature(token string, at time.Time, body []byte) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "timestamp=" + timestamp + ",signature=" + hex.EncodeToString(mac.Sum(nil))
}
