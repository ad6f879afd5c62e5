package pipelines

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/sourcehost"
)

// Foreign reports whether repository, a URL that can be empty, is not the pipeline's repository.
func (p *Pipeline) Foreign(repository string) bool {
	return repository != "" && !sourcehost.SameRepository(repository, p.Repository)
}

// CloneToken returns the token with which jobs of a pipeline clone its repository over https: the
// organization's token for the repository's host. Other repositories get none.
func (s *Service) CloneToken(ctx context.Context, p *Pipeline, repository string) (string, error) {
	if !strings.HasPrefix(repository, "https://") {
		return "", core.Errorf(core.Unprocessable, "There are tokens for repositories at https URLs only")
	}
	if p.Foreign(repository) {
		return "", core.Errorf(core.Forbidden, "There is a token for the pipeline's own repository only")
	}
	repo, err := sourcehost.ParseRepository(repository)
	if err != nil {
		return "", core.Errorf(core.Unprocessable, "%s", err)
	}
	var c connection
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		c, err = connectionTo(q, p.OrganizationID, repo.Host)
		return err
	})
	switch {
	case errors.Is(err, db.ErrNoRows) || err == nil && c.sealedCloneToken == "":
		return "", core.Errorf(core.NotFound, "The organization has no token for jobs to clone from %s with; its source connection can have a clone_token", repo.Host)
	case err != nil:
		return "", err
	}
	token, err := s.key.Open(c.sealedCloneToken, c.cloneSealContext())
	if err != nil {
		return "", fmt.Errorf("read the clone token of source connection %s: %w", c.id, err)
	}
	return string(token), nil
}
