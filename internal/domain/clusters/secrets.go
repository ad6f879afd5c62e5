package clusters

import (
	"context"
	"regexp"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Secret is a value that jobs of a cluster can read and people cannot. It is kept sealed.
type Secret struct {
	ID          string
	ClusterID   string
	Key         string // unique in the cluster, and never changed
	Description string
	Policy      string // which jobs may read it, see checkPolicy
	sealed      string
	CreatedBy   *identity.User
	CreatedAt   time.Time
	UpdatedBy   *identity.User // nil: never updated
	UpdatedAt   time.Time
	LastReadAt  time.Time // zero: never read
}

const (
	// maxSecretKey is the length of the longest key.
	maxSecretKey = 255
	// maxSecretValue is the size that a value must stay below, in bytes.
	maxSecretValue = 8 << 10
)

var secretKeyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// reservedSecretPrefixes begin the names of variables that the service itself gives to jobs; a secret
// of such a name would shadow one.
var reservedSecretPrefixes = []string{"buildkite", "bk", "stackyard", "service_"}

// check notes what is wrong with what people say about a secret.
func (s *Secret) check(problems *core.Problems) {
	if rule := secretKeyRule(s.Key); rule != "" {
		problems.Add("key", "%s", rule)
	}
	checkText(problems, "description", s.Description, maxDescription)
	if err := checkPolicy(s.Policy); err != nil {
		problems.Add("policy", "%s", err)
	}
}

// secretKeyRule returns the rule that a secret's key breaks, or "".
func secretKeyRule(key string) string {
	switch {
	case key == "":
		return "is required"
	case !secretKeyPattern.MatchString(key):
		return "must start with a letter and have only letters, digits and underscores"
	case len(key) > maxSecretKey:
		return "is too long"
	}
	for _, prefix := range reservedSecretPrefixes {
		if strings.HasPrefix(strings.ToLower(key), prefix) {
			return "cannot start with " + prefix
		}
	}
	return ""
}

// checkSecretValue notes what is wrong with a secret's value, without quoting it.
func checkSecretValue(problems *core.Problems, value string) {
	switch {
	case strings.TrimSpace(value) == "":
		problems.Add("value", "is required")
	case len(value) >= maxSecretValue:
		problems.Add("value", "must be smaller than %d bytes", maxSecretValue)
	}
}

// seal puts a value into a secret. The sealed value opens in this secret only.
func (s *Service) seal(secret *Secret, value string) (err error) {
	secret.sealed, err = s.key.Seal([]byte(value), secretContext(secret.ID))
	return err
}

// secretContext binds a sealed value to its secret.
func secretContext(id string) string { return "cluster_secret:" + id }

// createSecret adds a sealed secret to a cluster. Its key must be free.
func (s *Service) createSecret(ctx context.Context, c Cluster, secret Secret) (Secret, error) {
	err := s.db.Write(ctx, func(q *db.Q) error {
		if _, err := Lock(q, c.OrganizationID, c.ID); err != nil {
			return err
		}
		if err := insertSecret(q, secret); err != nil {
			return err
		}
		var err error
		secret, err = secretByID(q, c.ID, secret.ID)
		return err
	})
	return secret, taken(err, "key")
}

// changeSecret changes a secret in the name of a user. Nobody else changes it meanwhile.
func (s *Service) changeSecret(ctx context.Context, p part[Secret], by *identity.User, change func(*Secret) error) (secret Secret, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if _, err = Lock(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if secret, err = secretByID(q, p.ID, p.it.ID); err != nil {
			return err
		}
		if err = change(&secret); err != nil {
			return err
		}
		secret.UpdatedBy, secret.UpdatedAt = by, s.clock()
		return updateSecret(q, secret)
	})
	return secret, err
}

// removeSecret deletes a secret.
func (s *Service) removeSecret(ctx context.Context, p part[Secret]) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		return deleteSecret(q, p.ID, p.it.ID)
	})
}
