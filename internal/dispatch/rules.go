package dispatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"stackyard/internal/db"
)

// A RuleSet is what jobs ask of their agents besides the queue.
type RuleSet struct {
	ID    string // a hash of the rules; empty when there are none
	Rules []string
}

// RuleSetOf returns the set of agent query rules, each of the form key=value. The rule about the queue is
// left out: the job is in that queue.
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
		panic(err) // texts are always JSON
	}
	hash := sha256.Sum256(text)
	return RuleSet{ID: base64.RawURLEncoding.EncodeToString(hash[:12]), Rules: set}
}

// anyValue is the value of a rule that every value of its key satisfies.
const anyValue = "*"

// maxInterned bounds the sets that one statement keeps.
const maxInterned = 100

// Intern keeps sets of rules of an organization, so that they can be looked up by their ids.
func Intern(q *db.Q, orgID string, sets ...RuleSet) error {
	sets = slices.DeleteFunc(slices.Clone(sets), func(s RuleSet) bool { return s.ID == "" })
	// All writers lock them in the same order.
	slices.SortFunc(sets, func(a, b RuleSet) int { return strings.Compare(a.ID, b.ID) })
	sets = slices.CompactFunc(sets, func(a, b RuleSet) bool { return a.ID == b.ID })
	for some := range slices.Chunk(sets, maxInterned) {
		var s db.Statement
		org := s.Arg(orgID)
		rows := make([]string, len(some))
		for i, set := range some {
			rows[i] = "(" + org + ", " + s.Arg(set.ID) + ", " + s.Arg(db.JSON(set.Rules)) + ")"
		}
		_, err := q.Exec(`
			INSERT INTO rule_sets (organization_id, id, rules) VALUES `+strings.Join(rows, ", ")+`
			ON CONFLICT (organization_id, id) DO NOTHING`, s.Args()...)
		if err != nil {
			return err
		}
	}
	return nil
}

// tags are those of an agent: the values it has for each key.
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

// satisfy reports whether an agent with the tags may run jobs with the rules: it must have, for each, a
// tag with that key and value.
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

// A RuleBook remembers sets of rules by their ids, which never mean anything else. The zero RuleBook
// remembers none. It is safe for concurrent use.
type RuleBook struct {
	mu   sync.Mutex
	sets map[string][]string
}

// maxRuleSets bounds the sets that are remembered.
const maxRuleSets = 20_000

// Of returns the rules of sets of an organization, as far as they exist. They are not to be changed.
func (b *RuleBook) Of(q *db.Q, orgID string, sets []string) (map[string][]string, error) {
	rules := make(map[string][]string, len(sets))
	unknown := b.remembered(sets, rules)
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sets == nil || len(b.sets)+len(found) > maxRuleSets {
		b.sets = make(map[string][]string)
	}
	for _, s := range found {
		b.sets[s.ID], rules[s.ID] = s.Rules, s.Rules
	}
	return rules, nil
}

// remembered adds the sets that are remembered to rules, and returns the others.
func (b *RuleBook) remembered(sets []string, rules map[string][]string) (unknown []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, set := range sets {
		known, ok := b.sets[set]
		if !ok && set != "" {
			unknown = append(unknown, set)
			continue
		}
		rules[set] = known
	}
	return unknown
}
