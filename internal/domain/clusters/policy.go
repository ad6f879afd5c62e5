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

// claims are what a rule of a secret's policy can ask of a job.
var claims = []string{
	"pipeline_id", "pipeline_slug", "build_source", "build_branch", "build_creator", "build_creator_team",
	"cluster_queue_id", "cluster_queue_key",
}

// maxPolicy is the size of the largest policy, in bytes.
const maxPolicy = 16 << 10

// checkPolicy returns what is wrong with a policy: YAML that lists rules, each a mapping of claims to
// one value or a list of values. A job may read the secret when every claim of some rule holds. No
// policy at all is right too: every job of the cluster may.
func checkPolicy(policy string) error {
	_, err := readPolicy(policy)
	return err
}

// A rule is the values, by claim, of which a job must have one each.
type rule map[string][]string

// readPolicy returns the rules of a policy; none: every job of the cluster may read the secret.
func readPolicy(policy string) ([]rule, error) {
	if strings.TrimSpace(policy) == "" {
		return nil, nil
	}
	if len(policy) > maxPolicy {
		return nil, fmt.Errorf("must be at most %d bytes", maxPolicy)
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(policy))
	switch err := decoder.Decode(&doc); {
	case err == io.EOF: // nothing but comments
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
		if rules[i], err = readRule(node); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func readRule(node *yaml.Node) (rule, error) {
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		return nil, fmt.Errorf("is not valid: the rule at line %d must be a mapping of claims to values", node.Line)
	}
	r := make(rule)
	for i := 0; i < len(node.Content); i += 2 {
		claim, value := node.Content[i], node.Content[i+1]
		if !slices.Contains(claims, claim.Value) {
			return nil, fmt.Errorf("is not valid: unknown claim %q at line %d; the claims are %s", claim.Value, claim.Line, strings.Join(claims, ", "))
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

// permits reports whether a policy lets a job read a secret of which these claims hold, each with one or
// several values. A policy that cannot be read permits nothing.
func permits(policy string, holds map[string][]string) bool {
	rules, err := readPolicy(policy)
	if err != nil {
		return false
	}
	return len(rules) == 0 || slices.ContainsFunc(rules, func(r rule) bool { return r.met(holds) })
}

func (r rule) met(holds map[string][]string) bool {
	for claim, wanted := range r {
		if !slices.ContainsFunc(holds[claim], func(value string) bool { return matches(claim, wanted, value) }) {
			return false
		}
	}
	return true
}

// matches reports whether a value is one of those wanted. In branches, a star stands for anything.
func matches(claim string, wanted []string, value string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool {
		return w == value || claim == "build_branch" && core.MatchStars(w, value)
	})
}

// isValue reports whether a node is one value. Numbers and such are meant as they are written.
func isValue(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Value != ""
}

func isValueList(n *yaml.Node) bool {
	return n.Kind == yaml.SequenceNode && len(n.Content) > 0 && !slices.ContainsFunc(n.Content, func(v *yaml.Node) bool { return !isValue(v) })
}
