package convert

import (
	"regexp"
	"strings"
)

var (
	expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)
	matrixName = regexp.MustCompile(`^matrix\.([A-Za-z0-9_-]+)$`)
	secretName = regexp.MustCompile(`^secrets\.([A-Za-z0-9_]+)$`)
	envName    = regexp.MustCompile(`^env\.([A-Za-z0-9_]+)$`)
	onBranch   = regexp.MustCompile(`^github\.(?:ref_name|head_ref) (==|!=) '([^']*)'$`)
	onRef      = regexp.MustCompile(`^github\.ref (==|!=) 'refs/(heads|tags)/([^']*)'$`)
	onEvent    = regexp.MustCompile(`^github\.event_name (==|!=) '([^']*)'$`)
)

// githubValues are values of the github context as variables of jobs.
var githubValues = map[string]string{
	"github.sha": "BUILDKITE_COMMIT", "github.ref_name": "BUILDKITE_BRANCH", "github.head_ref": "BUILDKITE_BRANCH",
	"github.base_ref": "BUILDKITE_PULL_REQUEST_BASE_BRANCH", "github.run_number": "BUILDKITE_BUILD_NUMBER", "github.run_id": "BUILDKITE_BUILD_ID",
	"github.event.pull_request.number": "BUILDKITE_PULL_REQUEST", "github.workspace": "BUILDKITE_BUILD_CHECKOUT_PATH", "github.event.head_commit.message": "BUILDKITE_MESSAGE",
}

// expressions returns a text for the shell in which expressions are variables of the job, values of the matrix or
// secrets of a step.
func (c *converter) expressions(n node, s *step) string {
	text := n.text()
	var out strings.Builder
	last := 0
	for _, m := range expression.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(escaped(text[last:m[0]]))
		last = m[1]
		out.WriteString(c.expression(n, text[m[2]:m[3]], s))
	}
	out.WriteString(escaped(text[last:]))
	return out.String()
}

// plainExpressions returns a text in which only values of the matrix are replaced.
func (c *converter) plainExpressions(text string) string {
	return expression.ReplaceAllStringFunc(text, func(written string) string {
		if m := matrixName.FindStringSubmatch(expression.FindStringSubmatch(written)[1]); m != nil {
			return "{{matrix." + notInDimension.ReplaceAllString(m[1], "_") + "}}"
		}
		return ""
	})
}

func (c *converter) expression(at node, inner string, s *step) string {
	if m := matrixName.FindStringSubmatch(inner); m != nil && s != nil {
		return "{{matrix." + notInDimension.ReplaceAllString(m[1], "_") + "}}"
	}
	if m := envName.FindStringSubmatch(inner); m != nil {
		return "$$" + m[1]
	}
	if m := secretName.FindStringSubmatch(inner); m != nil && s != nil {
		for _, known := range s.secrets {
			if known.key == m[1] {
				return "$$" + m[1]
			}
		}
		s.secrets = append(s.secrets, pair{m[1], m[1]})
		c.note(at, "create the secrets of the steps in the cluster: docs/secrets.md")
		return "$$" + m[1]
	}
	if ours := githubValues[inner]; ours != "" {
		return "$$" + ours
	}
	c.note(at, "the expression ${{ %s }} has no counterpart and was left as it is", inner)
	return "$${{ " + inner + " }}"
}

// ifOf converts the conditions of jobs that have counterparts, joined with &&.
func (c *converter) ifOf(n node, what string) string {
	if !n.set() {
		return ""
	}
	text := strings.TrimSpace(n.text())
	if m := expression.FindStringSubmatch(text); m != nil && m[0] == text {
		text = m[1]
	}
	result := ""
	for _, part := range strings.Split(text, "&&") {
		converted, ok := conditionOf(strings.TrimSpace(part))
		if !ok {
			c.note(n, "the condition of %s was left out: %s", what, text)
			return ""
		}
		result = both(result, converted)
	}
	return result
}

func conditionOf(text string) (string, bool) {
	if m := onBranch.FindStringSubmatch(text); m != nil {
		return "build.branch " + m[1] + ` "` + m[2] + `"`, true
	}
	if m := onRef.FindStringSubmatch(text); m != nil {
		return map[string]string{"heads": "build.branch ", "tags": "build.tag "}[m[2]] + m[1] + ` "` + m[3] + `"`, true
	}
	if m := onEvent.FindStringSubmatch(text); m != nil {
		is, ok := map[string]string{"push": events["push"], "pull_request": events["pull_request"], "schedule": events["cron"], "workflow_dispatch": events["manual"]}[m[2]]
		if m[1] == "!=" {
			is = negated(is)
		}
		return is, ok
	}
	return "", false
}
