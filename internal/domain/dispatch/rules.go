package dispatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/lru"
)

// A RuleSet is a set of agent query rules, without the queue.
type RuleSet struct {
	ID    string // a hash of the rules; empty when there are none
	Rules []string
}

// RuleSetOf returns the set of agent query rules in the form key=value, without the rule about the queue.
func RuleSetOf(rules []string) RuleSet {
	var set []string
	for _, rule := range rules {
		key, value, _ := strings.Cut(rule, "=")
		key, value = strings.TrimSpace(key), cmp.Or(strings.TrimSpace(value), anyValue)
		if key != "queue" {
			set = append(set, key+"="+value)
		}
	}
	if len(set) == 0 {
		return RuleSet{}
	}
	slices.Sort(set)
	set = slices.Compact(set)
	text, err := json.Marshal(set)
	if err != nil {
		panic(err) // strings always encode
	}
	hash := sha256.Sum256(text)
	return RuleSet{ID: base64.RawURLEncoding.EncodeToString(hash[:12]), Rules: set}
}

// anyValue matches any value of a key.
const anyValue = "*"

const (
	// maxInterned bounds the sets of one statement.
	maxInterned = 100
	// setNoted is the precision of a set's last use: a set that all builds use is written once in that time.
	setNoted = time.Hour
	// setKept is how long an unused set is kept. It is much longer than setNoted and a transaction together, so
	// that a set is never removed while a new job is about to use it.
	setKept = 24 * time.Hour
	// setBatch is how many sets one transaction checks for removal.
	setBatch = 500
)

// Intern stores rule sets of an organization, so that they can be looked up by id while jobs use them.
func Intern(q *db.Q, orgID string, now time.Time, sets ...RuleSet) error {
	sets = slices.DeleteFunc(slices.Clone(sets), func(s RuleSet) bool { return s.ID == "" })
	// All writers lock them in the same order.
	slices.SortFunc(sets, func(a, b RuleSet) int { return strings.Compare(a.ID, b.ID) })
	sets = slices.CompactFunc(sets, func(a, b RuleSet) bool { return a.ID == b.ID })
	for some := range slices.Chunk(sets, maxInterned) {
		if err := intern(q, orgID, now, some); err != nil {
			return err
		}
	}
	return nil
}

// intern stores some sets. Recently used ones are not written, so that builds with the same rules do not wait
// for each other.
func intern(q *db.Q, orgID string, now time.Time, sets []RuleSet) error {
	ids := make([]string, len(sets))
	for i, set := range sets {
		ids[i] = set.ID
	}
	in, arg := q.In("id", 3, ids)
	fresh, err := db.Strings(q, `SELECT id FROM rule_sets WHERE organization_id = $1 AND used_at > $2 AND `+in, orgID, db.Micros(now.Add(-setNoted)), arg)
	if err != nil {
		return err
	}
	stale := slices.DeleteFunc(slices.Clone(sets), func(s RuleSet) bool { return slices.Contains(fresh, s.ID) })
	return db.InsertMany(q, `INSERT INTO rule_sets (organization_id, id, rules, used_at)`, stale,
		func(s RuleSet) []any { return []any{orgID, s.ID, db.JSON(s.Rules), db.Micros(now)} },
		`ON CONFLICT (organization_id, id) DO UPDATE SET used_at = excluded.used_at`)
}

// RemoveUnused removes rule sets that no job uses and reports whether there may be more. It checks the least
// recently used ones; those still in use are marked as used now. isUsed reports whether jobs of an organization use a
// set.
func RemoveUnused(q *db.Q, now time.Time, isUsed func(q *db.Q, orgID, setID string) (bool, error)) (more bool, err error) {
	type aged struct{ orgID, id string }
	old, err := db.All(q, func(scan db.Scan) (a aged, err error) { return a, scan(&a.orgID, &a.id) }, `
		SELECT s.organization_id, s.id
		FROM rule_sets s
		WHERE s.used_at < $1
		ORDER BY s.used_at
		LIMIT $2`+q.SkipLocked(), db.Micros(now.Add(-setKept)), setBatch)
	if err != nil {
		return false, err
	}
	for _, set := range old {
		used, err := isUsed(q, set.orgID, set.id)
		if err != nil {
			return false, err
		}
		if used {
			_, err = q.Exec(`UPDATE rule_sets SET used_at = $3 WHERE organization_id = $1 AND id = $2`, set.orgID, set.id, db.Micros(now))
		} else {
			_, err = q.Exec(`DELETE FROM rule_sets WHERE organization_id = $1 AND id = $2`, set.orgID, set.id)
		}
		if err != nil {
			return false, err
		}
	}
	return len(old) == setBatch, nil
}

// tags are the values an agent has for each key.
type tags map[string][]string

func tagsOf(list []string) tags {
	t := make(tags, len(list))
	for _, tag := range list {
		key, value, _ := strings.Cut(tag, "=")
		key = strings.TrimSpace(key)
		t[key] = append(t[key], strings.TrimSpace(value))
	}
	return t
}

// satisfy reports whether an agent with the tags satisfies all rules.
func (t tags) satisfy(rules []string) bool {
	for _, rule := range rules {
		key, value, _ := strings.Cut(rule, "=")
		values, ok := t[key]
		if !ok || value != anyValue && !slices.Contains(values, value) {
			return false
		}
	}
	return true
}

// Accepts reports whether an agent with some tags satisfies the rules.
func (s RuleSet) Accepts(tags []string) bool { return tagsOf(tags).satisfy(s.Rules) }

// A RuleSetCache caches rule sets by id; they never change. It is safe for concurrent use.
type RuleSetCache struct {
	sets *lru.Cache[string, []string]
}

// maxRuleSets bounds the cached sets.
const maxRuleSets = 20_000

// NewRuleSetCache returns an empty cache.
func NewRuleSetCache() RuleSetCache { return RuleSetCache{lru.New[string, []string](maxRuleSets)} }

// Get returns the rules of an organization's sets, as far as they exist. Callers must not modify them.
func (c RuleSetCache) Get(q *db.Q, orgID string, sets []string) (map[string][]string, error) {
	rules := make(map[string][]string, len(sets))
	var unknown []string
	for _, set := range sets {
		known, ok := c.sets.Get(set)
		if !ok && set != "" {
			unknown = append(unknown, set)
			continue
		}
		rules[set] = known
	}
	if len(unknown) == 0 {
		return rules, nil
	}
	in, arg := q.In("id", 2, unknown)
	found, err := db.All(q, func(scan db.Scan) (s RuleSet, err error) {
		return s, scan(&s.ID, db.ToJSON(&s.Rules))
	}, `SELECT id, rules FROM rule_sets WHERE organization_id = $1 AND `+in, orgID, arg)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		c.sets.Add(s.ID, s.Rules)
		rules[s.ID] = s.Rules
	}
	return rules, nil
}
