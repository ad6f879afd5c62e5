package suites_test

import (
	"encoding/json"
	"strings"
	"testing"

	"stackyard/internal/domain/suites"
)

// yamlPolicy returns the document that is a string of YAML.
func yamlPolicy(text string) suites.PolicyDocument {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return suites.PolicyDocument(b)
}

func TestPolicy_ReportsProblems(t *testing.T) {
	for text, want := range map[string]string{
		"a: b":                    "must be a list of statements",
		"- x":                     "statement 1 must be an object",
		"- claims: {}":            "statement 1 needs iss",
		"- iss: somewhere":        "iss that is not a URL",
		"- iss: [https://a.test]": "iss that is not a URL",
		"- iss: https://a.test\n- iss: https://a.test\n  claims: x": "statement 2 must have an object of rules",
		"- iss: https://a.test\n  claims: {a: [x]}":                 `compare the claim "a" with a value`,
		"- iss: https://a.test\n  claims: {a: {}}":                  `compare the claim "a" with a value`,
		"- iss: https://a.test\n  claims: {a: null}":                `compare the claim "a" with a value`,
		"- iss: https://a.test\n  claims: {a: {in: x}}":             "operator in",
		"- iss: https://a.test\n  claims: {a: {in: []}}":            "operator in",
		"- iss: https://a.test\n  claims: {a: {equals: [x]}}":       "operator equals",
		"- iss: https://a.test\n  claims: {a: {like: x}}":           `unknown operator "like"`,
		"- iss: https://a.test\n  claims: {}\n  effect: allow":      `unknown key "effect"`,
		"- iss: https://a.test\n  scopes: write_uploads":            "list of scopes",
		"- iss: https://a.test\n  scopes: [admin]":                  `unknown scope "admin"`,
		"- iss: https://a.test\n  iss: https://b.test":              `key "iss" is given twice, at line 2`,
		"- &a {iss: https://a.test}\n- *a":                          "aliases are not possible",
		"---\n- iss: https://a.test\n---\n- iss: https://a.test":    "one YAML document",
		"\t": "", // blank
		"- iss: https://a.test\n  claims: {a: " + strings.Repeat("x", 2000) + "}": "more than 1024 bytes",
		strings.Repeat("- iss: https://a.test\n", 51):                             "at most 50 statements",
		strings.Repeat("#", 20_000):                                               "at most 16384 bytes",
	} {
		_, err := yamlPolicy(text).Parse()
		switch {
		case want == "" && strings.TrimSpace(text) == "":
		case err == nil:
			t.Errorf("%.80q is accepted", text)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%.80q: %q does not say %q", text, err, want)
		}
	}
}

func TestPolicy_PermitsWhatMeetsAStatement(t *testing.T) {
	claims := map[string]any{
		"iss": "https://ci.test", "organization_slug": "acme", "pipeline_slug": "web", "build_branch": "release/1.2",
		"build_number": float64(7), "step_key": nil,
	}
	for text, want := range map[string]bool{
		"":                        false,
		"- iss: https://ci.test":  true,
		"- iss: https://ci.test/": false,
		"- iss: https://ci.test\n  claims: {organization_slug: acme}":                                    true,
		"- iss: https://ci.test\n  organization_slug: acme\n  pipeline_slug: web":                        true,
		"- iss: https://ci.test\n  organization_slug: acme\n  pipeline_slug: api":                        false,
		"- iss: https://ci.test\n  claims: {pipeline_slug: {in: [api, web]}}":                            true,
		"- iss: https://ci.test\n  claims: {pipeline_slug: {not_in: [api, web]}}":                        false,
		"- iss: https://ci.test\n  claims: {pipeline_slug: {not_equals: api}}":                           true,
		"- iss: https://ci.test\n  claims: {pipeline_slug: {not_equals: api, matches: 'x*'}}":            false,
		"- iss: https://ci.test\n  claims: {build_branch: {matches: 'release/*'}}":                       true,
		"- iss: https://ci.test\n  claims: {build_branch: {matches: [main, 'hotfix/*']}}":                false,
		"- iss: https://ci.test\n  claims: {build_number: 7}":                                            true,
		"- iss: https://ci.test\n  claims: {step_key: {not_equals: x}}":                                  false,
		"- iss: https://ci.test\n  claims: {nothing: {not_equals: x}}":                                   false,
		"- iss: https://ci.test\n  scopes: [read_suites]":                                                false,
		"- iss: https://ci.test\n  scopes: [read_suites, write_uploads]":                                 true,
		"- iss: https://other.test\n- iss: https://ci.test\n  claims: {organization_slug: acme}":         true,
		"- iss: https://ci.test\n  claims: {organization_slug: x}\n- iss: https://ci.test\n  claims: {}": true,
	} {
		policy, err := yamlPolicy(text).Parse()
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := policy.Permits(suites.WriteUploads, claims); got != want {
			t.Errorf("%q permits: %t, want %t", text, got, want)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add(`"- iss: https://a.test\n  claims: {a: {in: [x, 1, true]}}\n  scopes: [write_uploads]"`)
	f.Add(`[{"iss": "https://a.test", "claims": {"a": {"matches": "x*"}, "b": 1.5}}]`)
	f.Add(`"- &a {iss: *a}"`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, document string) {
		policy, err := suites.PolicyDocument(document).Parse()
		if err != nil {
			if policy != nil {
				t.Error("an invalid document has a policy")
			}
			return
		}
		if policy.Permits(suites.WriteUploads, map[string]any{}) {
			t.Error("a token without an issuer is permitted")
		}
		again, err := suites.PolicyDocument(document).Parse()
		if err != nil || len(again) != len(policy) {
			t.Error("the same document is read in two ways")
		}
	})
}
