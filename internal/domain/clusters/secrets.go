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

// A Secret is a value that jobs of a cluster can read and people cannot. The database holds it encrypted.
type Secret struct {
	ID          string
	ClusterID   string
	Key         string // unique in the cluster, immutable
	Description string
	Policy      string // which jobs can read it, see checkPolicy
	sealed      string
	CreatedBy   *identity.User
	CreatedAt   time.Time
	UpdatedBy   *identity.User // nil: never updated
	UpdatedAt   time.Time
	LastReadAt  time.Time // zero: never read
}

const (
	// maxSecretKey is the length limit of a key.
	maxSecretKey = 255
	// maxSecretValue is the size that a value must stay below, in bytes.
	maxSecretValue = 8 << 10
)

var secretKeyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// reservedSecretPrefixes are prefixes of variables that the service gives to jobs. A secret with such a name
// would shadow one.
var reservedSecretPrefixes = []string{"buildkite", "bk", "stackyard", "service_"}

// check reports errors in the fields that callers set.
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

// checkSecretValue reports errors in a secret's value without quoting it.
func checkSecretValue(problems *core.Problems, value string) {
	switch {
	case strings.TrimSpace(value) == "":
		problems.Add("value", "is required")
	case len(value) >= maxSecretValue:
		problems.Add("value", "must be smaller than %d bytes", maxSecretValue)
	}
}

// seal encrypts a value into a secret. The result can be decrypted for this secret only.
func (s *Service) seal(secret *Secret, value string) (err error) {
	secret.sealed, err = s.key.Seal([]byte(value), secretContext(secret.ID))
	return err
}

// secretContext binds an encrypted value to its secret.
func secretContext(id string) string { return "cluster_secret:" + id }

// createSecret adds an encrypted secret to a cluster. Its key must be unique.
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
	return secret, uniqueError(err, "key")
}

// changeSecret applies change to a secret on behalf of a user while holding the lock of the cluster.
func (s *Service) changeSecret(ctx context.Context, p resource[Secret], by *identity.User, change func(*Secret) error) (secret Secret, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if _, err = Lock(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if secret, err = secretByID(q, p.ID, p.item.ID); err != nil {
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
func (s *Service) removeSecret(ctx context.Context, p resource[Secret]) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		return deleteSecret(q, p.ID, p.item.ID)
	})
}
