package clusters

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
)

// claimNames are the claims about a job that a policy can test.
var claimNames = []string{
	"pipeline_id", "pipeline_slug", "build_source", "build_branch", "build_creator", "build_creator_team",
	"cluster_queue_id", "cluster_queue_key",
}

// maxPolicy is the size limit of a policy, in bytes.
const maxPolicy = 16 << 10

// checkPolicy returns what is wrong with a policy. A policy is YAML that lists rules, each a mapping from
// claims to one value or a list of values. A job can read the secret if it satisfies all claims of at least one
// rule. Without a policy, every job of the cluster can read the secret.
func checkPolicy(policy string) error {
	_, err := parsePolicy(policy)
	return err
}

// A rule maps claims to values. A job satisfies it if, for each claim, the job has one of the values.
type rule map[string][]string

// parsePolicy returns the rules of a policy. No rules means that every job of the cluster can read the secret.
func parsePolicy(policy string) ([]rule, error) {
	if strings.TrimSpace(policy) == "" {
		return nil, nil
	}
	if len(policy) > maxPolicy {
		return nil, fmt.Errorf("must be at most %d bytes", maxPolicy)
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(policy))
	switch err := decoder.Decode(&doc); {
	case err == io.EOF: // only comments
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	case decoder.Decode(&more) != io.EOF:
		return nil, errors.New("must be one YAML document")
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, errors.New(`must be a list of rules, such as "- pipeline_slug: deploy"`)
	}
	rules := make([]rule, len(list.Content))
	for i, node := range list.Content {
		var err error
		if rules[i], err = parseRule(node); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func parseRule(node *yaml.Node) (rule, error) {
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		return nil, fmt.Errorf("is not valid: the rule at line %d must be a mapping of claims to values", node.Line)
	}
	r := make(rule)
	for i := 0; i < len(node.Content); i += 2 {
		claim, value := node.Content[i], node.Content[i+1]
		if !slices.Contains(claimNames, claim.Value) {
			return nil, fmt.Errorf("is not valid: unknown claim %q at line %d; the claims are %s", claim.Value, claim.Line, strings.Join(claimNames, ", "))
		}
		if r[claim.Value] != nil {
			return nil, fmt.Errorf("is not valid: the claim %s is given twice in one rule, at line %d; give it a list of values", claim.Value, claim.Line)
		}
		switch {
		case isValue(value):
			r[claim.Value] = []string{value.Value}
		case isValueList(value):
			for _, v := range value.Content {
				r[claim.Value] = append(r[claim.Value], v.Value)
			}
		default:
			return nil, fmt.Errorf("is not valid: the claim %s at line %d must have a value or a list of values", claim.Value, claim.Line)
		}
	}
	return r, nil
}

// permits reports whether a policy lets a job with these claims read a secret. A claim can have several values.
// An invalid policy permits nothing.
func permits(policy string, claims map[string][]string) bool {
	rules, err := parsePolicy(policy)
	if err != nil {
		return false
	}
	return len(rules) == 0 || slices.ContainsFunc(rules, func(r rule) bool { return r.satisfiedBy(claims) })
}

func (r rule) satisfiedBy(claims map[string][]string) bool {
	for claim, wanted := range r {
		if !slices.ContainsFunc(claims[claim], func(value string) bool { return matches(claim, wanted, value) }) {
			return false
		}
	}
	return true
}

// matches reports whether value is one of wanted. In branches, a star matches any text.
func matches(claim string, wanted []string, value string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool {
		return w == value || claim == "build_branch" && core.MatchStars(w, value)
	})
}

// isValue reports whether a node is a single value. Numbers and booleans count as the text they are written as.
func isValue(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Value != ""
}

func isValueList(n *yaml.Node) bool {
	return n.Kind == yaml.SequenceNode && len(n.Content) > 0 && !slices.ContainsFunc(n.Content, func(v *yaml.Node) bool { return !isValue(v) })
}
