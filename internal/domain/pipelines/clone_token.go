package pipelines

import (
	"context"
	"strings"

	"stackyard/internal/platform/core"
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
	if _, err := sourcehost.ParseRepository(repository); err != nil {
		return "", core.Errorf(core.Unprocessable, "%s", err)
	}
	return s.connections.CloneToken(ctx, p.OrganizationID, repository)
}
