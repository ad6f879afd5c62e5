package pipelines

import (
	"encoding/hex"
	"errors"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// WebhookURL returns the URL to which the source host sends a pipeline's events. It cannot be guessed; the host also
// signs what it sends with [Service.WebhookSecret].
func (s *Service) WebhookURL(p *Pipeline) string {
	return s.public.To("hooks", p.Provider, p.webhookKey)
}

// WebhookSecret returns the secret with which the source host signs the events of a pipeline. It is derived from the
// installation's key, so it is not stored.
func (s *Service) WebhookSecret(p *Pipeline) string { return s.SecretOfWebhook(p.webhookKey) }

// SecretOfWebhook is WebhookSecret for the pipeline with a key in its webhook_url.
func (s *Service) SecretOfWebhook(key string) string {
	return hex.EncodeToString(s.key.Derive("webhook:" + key)[:20])
}

// ByWebhookKey returns the organization and the id of the pipeline with a key in its webhook_url, or a NotFound error.
func ByWebhookKey(q *db.Q, key string) (orgID, id string, err error) {
	err = q.QueryRow(`SELECT organization_id, id FROM pipelines WHERE webhook_key = $1 AND deleted_at IS NULL`, key).Scan(&orgID, &id)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noPipeline)
	}
	return orgID, id, err
}

// Flag returns a provider setting that is a boolean; its default if the provider does not have it.
func (p *Pipeline) Flag(name string) bool {
	on, _ := p.providerSetting(name).(bool)
	return on
}

// Text returns a provider setting that is a string; its default if the provider does not have it.
func (p *Pipeline) Text(name string) string {
	text, _ := p.providerSetting(name).(string)
	return text
}

func (p *Pipeline) providerSetting(name string) any {
	if value, ok := p.ProviderSettings.On(p.Provider, p.Repository)[name]; ok {
		return value
	}
	for _, prop := range properties {
		if prop.name == name {
			return prop.unset
		}
	}
	return nil
}
