package pipelines

import (
	"context"
	"fmt"
	"strings"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/sourcehost"
)

// sealContext binds the encrypted repository URL to its row.
func (p *Pipeline) sealContext() string { return "pipeline_repository:" + p.ID }

// sealCredentials moves the credentials out of the given repository URL into the encrypted URL, which only
// checkouts read. If the URL equals the one shown, the stored credentials are kept, because clients send back
// what they read. An empty user name, as in https://@host/path, removes them. Credentials never move to another
// URL.
func (p *Pipeline) sealCredentials(key seal.Key) error {
	given, shown := p.Repository, sourcehost.WithoutCredentials(p.Repository)
	sealed := p.sealedURL
	if shown != p.sealedFor {
		sealed = ""
	}
	switch {
	case strings.Replace(given, "://@", "://", 1) != given:
		sealed = ""
	case given != shown:
		var err error
		if sealed, err = key.Reseal(sealed, given, p.sealContext()); err != nil {
			return fmt.Errorf("seal the repository URL of pipeline %s: %w", p.ID, err)
		}
	}
	p.Repository, p.sealedURL, p.sealedFor = shown, sealed, shown
	return nil
}

// CheckoutURL returns the URL of a pipeline's repository with its credentials. Use it only to check out the
// code.
func (s *Service) CheckoutURL(p *Pipeline) (string, error) {
	if p.sealedURL == "" {
		return p.Repository, nil
	}
	url, err := s.key.Open(p.sealedURL, p.sealContext())
	if err != nil {
		return "", fmt.Errorf("open the repository URL of pipeline %s: %w", p.ID, err)
	}
	return string(url), nil
}

// SealCredentials encrypts the credentials in repository URLs of pipelines that were saved by versions that did
// not encrypt them. It runs at every start and finds nothing after the first.
func SealCredentials(ctx context.Context, d *db.DB, key seal.Key) error {
	// The condition matches all URLs with credentials or a query, and some others.
	const suspect = `(repository LIKE '%@%' OR repository LIKE '%?%' OR repository LIKE '%#%')`
	const batch = 100
	for after := ""; ; {
		var found []*Pipeline
		err := d.Write(ctx, func(q *db.Q) (err error) {
			found, err = db.All(q, func(scan db.Scan) (*Pipeline, error) {
				p := &Pipeline{}
				return p, scan(&p.ID, &p.Repository)
			}, `
				SELECT id, repository FROM pipelines
				WHERE id > $1 AND sealed_repository_url IS NULL AND `+suspect+`
				ORDER BY id LIMIT $2`, after, batch)
			if err != nil {
				return err
			}
			for _, p := range found {
				given := p.Repository
				if sourcehost.WithoutCredentials(given) == given {
					continue
				}
				if err := p.sealCredentials(key); err != nil {
					return err
				}
				_, err := q.Exec(`UPDATE pipelines SET repository = $2, sealed_repository_url = $3, repository_folded = $4 WHERE id = $1 AND repository = $5`,
					p.ID, p.Repository, db.Text(p.sealedURL), strings.ToLower(p.Repository), given)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		after = found[len(found)-1].ID
	}
}
