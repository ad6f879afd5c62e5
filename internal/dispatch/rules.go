package dispatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

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
