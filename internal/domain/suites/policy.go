package suites

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// A PolicyDocument is a policy as it was given: JSON that is a string of YAML or an array of statements. An empty
// document is no policy.
type PolicyDocument string

// UnmarshalJSON keeps the document as it is.
func (d *PolicyDocument) UnmarshalJSON(b []byte) error {
	*d = PolicyDocument(b)
	return nil
}

// MarshalJSON writes the document as it was given, or null.
func (d PolicyDocument) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	return []byte(d), nil
}

// blank reports whether the document is a string of nothing but space.
func (d PolicyDocument) blank() bool {
	var text string
	return json.Unmarshal([]byte(d), &text) == nil && strings.TrimSpace(text) == ""
}

// JSONSchema describes the document.
func (PolicyDocument) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"type": "array", "items": map[string]any{"type": "object"}},
		map[string]any{"type": "null"},
	}}
}

// A Policy says which OpenID Connect tokens can be used with a suite, and for what: those that meet at least one of
// its statements.
type Policy []Statement

// A Statement allows tokens of one issuer whose claims meet all its rules.
type Statement struct {
	Issuer string
	Rules  []Rule
	Scopes []string // none: all
}

// A Rule compares a claim with values.
type Rule struct {
	Claim    string
	Operator string
	Values   []string
}

// WriteUploads is the scope of tokens that upload results.
const WriteUploads = "write_uploads"

var policyScopes = []string{"read_suites", "write_suites", WriteUploads, "read_test_plan", "write_test_plan"}

// The operators of rules.
const (
	opEquals    = "equals"
	opNotEquals = "not_equals"
	opIn        = "in"
	opNotIn     = "not_in"
	opMatches   = "matches" // with * for any text
)

var operators = []string{opEquals, opNotEquals, opIn, opNotIn, opMatches}

// The bounds of a policy.
const (
	maxPolicy      = 16 << 10 // bytes of the document
	maxStatements  = 50
	maxRules       = 50
	maxRuleValues  = 200
	maxPolicyValue = 1024 // bytes of a claim's name or value
)

// Parse returns the policy, or an error that says what is wrong with the document.
func (d PolicyDocument) Parse() (Policy, error) {
	if d == "" {
		return nil, nil
	}
	if len(d) > maxPolicy {
		return nil, fmt.Errorf("must be at most %d bytes", maxPolicy)
	}
	list, err := d.parse()
	if err != nil {
		return nil, err
	}
	if list.kind != listValue {
		return nil, errors.New(`must be a list of statements, such as "- iss: https://ci.example.com"`)
	}
	if len(list.items) > maxStatements {
		return nil, fmt.Errorf("must have at most %d statements", maxStatements)
	}
	policy := make(Policy, len(list.items))
	for i, item := range list.items {
		if policy[i], err = readStatement(item); err != nil {
			return nil, fmt.Errorf("is not valid: statement %d %w", i+1, err)
		}
	}
	return policy, nil
}

// parse returns the statements of the document as plain values.
func (d PolicyDocument) parse() (plainValue, error) {
	switch d[0] {
	case '"':
		var text string
		if err := json.Unmarshal([]byte(d), &text); err != nil {
			return plainValue{}, errors.New("must be a string of YAML or an array of statements")
		}
		return parseYAML(text)
	case '[':
		return parseJSON([]byte(d))
	}
	return plainValue{}, errors.New("must be a string of YAML or an array of statements")
}

func readStatement(v plainValue) (s Statement, err error) {
	if v.kind != mapValue {
		return s, errors.New("must be an object with iss and claims")
	}
	if s.Issuer, err = readIssuer(v); err != nil {
		return s, err
	}
	claims, nested := v.field("claims")
	for _, f := range v.fields {
		switch f.name {
		case "iss", "claims":
		case "scopes":
			if s.Scopes, err = readScopes(f.value); err != nil {
				return s, err
			}
		default: // the basic form has claims beside iss
			if nested {
				return s, fmt.Errorf("has the unknown key %.100q; a statement has iss, claims and scopes", f.name)
			}
			claims.fields = append(claims.fields, f)
		}
	}
	if nested && claims.kind != mapValue {
		return s, errors.New("must have an object of rules as claims")
	}
	s.Rules, err = readRules(claims.fields)
	return s, err
}

// readIssuer returns the issuer of a statement.
func readIssuer(statement plainValue) (string, error) {
	iss, ok := statement.field("iss")
	if !ok {
		return "", errors.New("needs iss, the issuer of the tokens")
	}
	u, err := url.Parse(iss.text)
	if iss.kind != textValue || err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(iss.text) > maxPolicyValue {
		return "", errors.New("has an iss that is not a URL such as https://ci.example.com")
	}
	return iss.text, nil
}

func readScopes(v plainValue) ([]string, error) {
	scopes, ok := v.texts()
	if v.kind != listValue || !ok || len(scopes) == 0 {
		return nil, fmt.Errorf("must have a list of scopes: %s", strings.Join(policyScopes, ", "))
	}
	for _, scope := range scopes {
		if !slices.Contains(policyScopes, scope) {
			return nil, fmt.Errorf("has the unknown scope %.100q; the scopes are %s", scope, strings.Join(policyScopes, ", "))
		}
	}
	return scopes, nil
}

func readRules(claims []plainField) (rules []Rule, err error) {
	for _, claim := range claims {
		if claim.name == "" || len(claim.name) > maxPolicyValue {
			return nil, errors.New("has a claim without a name, or with one that is too long")
		}
		if claim.value.kind == textValue {
			rules = append(rules, Rule{claim.name, opEquals, []string{claim.value.text}})
		} else if claim.value.kind != mapValue || len(claim.value.fields) == 0 {
			return nil, fmt.Errorf("must compare the claim %.100q with a value, or with an operator: %s", claim.name, strings.Join(operators, ", "))
		}
		for _, f := range claim.value.fields {
			rule, err := readRule(claim.name, f)
			if err != nil {
				return nil, err
			}
			rules = append(rules, rule)
		}
		if len(rules) > maxRules {
			return nil, fmt.Errorf("must have at most %d rules", maxRules)
		}
	}
	for _, rule := range rules {
		if slices.ContainsFunc(rule.Values, func(v string) bool { return len(v) > maxPolicyValue }) {
			return nil, fmt.Errorf("has a value of more than %d bytes for the claim %.100q", maxPolicyValue, rule.Claim)
		}
	}
	return rules, nil
}

// readRule returns the rule of an operator, such as in: [a, b].
func readRule(claim string, f plainField) (Rule, error) {
	rule := Rule{Claim: claim, Operator: f.name}
	var ok bool
	rule.Values, ok = f.value.texts()
	many := f.value.kind == listValue
	switch f.name {
	case opEquals, opNotEquals:
		ok = ok && !many
	case opIn, opNotIn:
		ok = ok && many
	case opMatches:
	default:
		return rule, fmt.Errorf("has the unknown operator %.100q for the claim %.100q; the operators are %s", f.name, claim, strings.Join(operators, ", "))
	}
	if !ok || len(rule.Values) == 0 {
		return rule, fmt.Errorf("must give the operator %s of the claim %.100q a value, or a list of values for %s, %s and %s", f.name, claim, opIn, opNotIn, opMatches)
	}
	if len(rule.Values) > maxRuleValues {
		return rule, fmt.Errorf("must have at most %d values for the claim %.100q", maxRuleValues, claim)
	}
	return rule, nil
}

// Permits reports whether the policy allows a token with these claims to be used for a scope.
func (p Policy) Permits(scope string, claims map[string]any) bool {
	return slices.ContainsFunc(p, func(s Statement) bool {
		return claims["iss"] == s.Issuer &&
			(len(s.Scopes) == 0 || slices.Contains(s.Scopes, scope)) &&
			!slices.ContainsFunc(s.Rules, func(r Rule) bool { return !r.holds(claims[r.Claim]) })
	})
}

// holds reports whether a claim has a value that the rule allows. A claim without a value meets no rule.
func (r Rule) holds(claim any) bool {
	var value string
	switch c := claim.(type) {
	case string:
		value = c
	case bool, int, int64, json.Number:
		value = fmt.Sprint(c)
	case float64:
		value = strings.TrimSuffix(fmt.Sprintf("%f", c), ".000000")
	default:
		return false
	}
	switch r.Operator {
	case opEquals, opIn:
		return slices.Contains(r.Values, value)
	case opNotEquals, opNotIn:
		return !slices.Contains(r.Values, value)
	case opMatches:
		return slices.ContainsFunc(r.Values, func(pattern string) bool { return core.MatchStars(pattern, value) })
	}
	return false
}
