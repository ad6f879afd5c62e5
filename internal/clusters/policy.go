package clusters

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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
	if strings.TrimSpace(policy) == "" {
		return nil
	}
	if len(policy) > maxPolicy {
		return fmt.Errorf("must be at most %d bytes", maxPolicy)
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(policy))
	switch err := decoder.Decode(&doc); {
	case err == io.EOF: // nothing but comments
		return nil
	case err != nil:
		return fmt.Errorf("is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	case decoder.Decode(&more) != io.EOF:
		return errors.New("must be one YAML document")
	}
	rules := doc.Content[0]
	if rules.Kind != yaml.SequenceNode || len(rules.Content) == 0 {
		return errors.New(`must be a list of rules, such as "- pipeline_slug: deploy"`)
	}
	for _, rule := range rules.Content {
		if err := checkRule(rule); err != nil {
			return err
		}
	}
	return nil
}

func checkRule(rule *yaml.Node) error {
	if rule.Kind != yaml.MappingNode || len(rule.Content) == 0 {
		return fmt.Errorf("is not valid: the rule at line %d must be a mapping of claims to values", rule.Line)
	}
	var seen []string
	for i := 0; i < len(rule.Content); i += 2 {
		claim, value := rule.Content[i], rule.Content[i+1]
		if !slices.Contains(claims, claim.Value) {
			return fmt.Errorf("is not valid: unknown claim %q at line %d; the claims are %s", claim.Value, claim.Line, strings.Join(claims, ", "))
		}
		if slices.Contains(seen, claim.Value) {
			return fmt.Errorf("is not valid: the claim %s is given twice in one rule, at line %d; give it a list of values", claim.Value, claim.Line)
		}
		seen = append(seen, claim.Value)
		if !isValue(value) && !isValueList(value) {
			return fmt.Errorf("is not valid: the claim %s at line %d must have a value or a list of values", claim.Value, claim.Line)
		}
	}
	return nil
}

// isValue reports whether a node is one value. Numbers and such are meant as they are written.
func isValue(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Value != ""
}

func isValueList(n *yaml.Node) bool {
	return n.Kind == yaml.SequenceNode && len(n.Content) > 0 && !slices.ContainsFunc(n.Content, func(v *yaml.Node) bool { return !isValue(v) })
}
