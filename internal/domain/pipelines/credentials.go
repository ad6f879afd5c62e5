package pipelines

import (
	"context"
	"fmt"
	"strings"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/sourcehost"
)

// sealContext binds the sealed URL of the repository to its row.
func (p *Pipeline) sealContext() string { return "pipeline_repository:" + p.ID }

// sealCredentials moves the credentials of the repository's URL, as it was given, to where only checkouts find
// them. A URL that is the one shown keeps the credentials there are, because clients send back what they read; an
// empty user name, as in https://@host/path, takes them away. Credentials never move to another URL.
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
		if err := sealNew(&sealed, given, key, p.sealContext()); err != nil {
			return fmt.Errorf("seal the repository URL of pipeline %s: %w", p.ID, err)
		}
	}
	p.Repository, p.sealedURL, p.sealedFor = shown, sealed, shown
	return nil
}

// CheckoutURL returns the URL of a pipeline's repository with the credentials that it was given with. It is for
// whoever checks out the code, and for nobody else.
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

// SealCredentials seals the credentials in repository URLs of pipelines that were saved before they were sealed. It
// is called at every start, and finds nothing after the first.
func SealCredentials(ctx context.Context, d *db.DB, key seal.Key) error {
	// All of these have credentials, or a query, or look as if they had.
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
