package pipelines

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/sourcehost"
)

// Limits on the fields of a pipeline; of texts, in characters.
const (
	maxName        = 255
	maxDescription = 4096
	maxFilter      = 2048
	maxTags        = 50
	maxTag         = 255
	maxVariables   = 1000
	maxVariable    = 64 << 10
	maxTimeout     = 1<<31 - 1
)

// check reports problems of the pipeline. It does not check the steps, nor what depends on the organization or
// on other pipelines.
func (p *Pipeline) check(problems *core.Problems) {
	checkRequired(problems, "name", p.Name, maxName)
	p.checkSlug(problems)
	checkText(problems, "description", p.Description, maxDescription)
	p.checkRepository(problems)
	checkBranch(problems, p.DefaultBranch)
	checkText(problems, "branch_configuration", p.BranchConfiguration, maxFilter)
	checkText(problems, "skip_queued_branch_builds_filter", p.SkipQueued.Filter, maxFilter)
	checkText(problems, "cancel_running_branch_builds_filter", p.CancelRunning.Filter, maxFilter)
	p.checkTimeouts(problems)
	checkTags(problems, p.Tags)
	checkEnv(problems, p.Env)
	if p.Emoji != "" && !core.ValidEmoji(p.Emoji) {
		problems.Add("emoji", "must be an emoji, or the name of one between colons, such as :rocket:")
	}
	if p.Color != "" && !core.ValidColor(p.Color) {
		problems.Add("color", "must be a color in hex, such as #A9CCE3")
	}
	if !slices.Contains(p.Visibility.Values(), string(p.Visibility)) {
		problems.Add("visibility", "must be one of %s", strings.Join(p.Visibility.Values(), ", "))
	}
	if p.CloneMirrorURL != "" {
		if why := mirrorProblem(p.CloneMirrorURL); why != "" {
			problems.Add("clone_mirror_url", "%s", why)
		}
	}
}

func (p *Pipeline) checkSlug(problems *core.Problems) {
	switch {
	case p.Slug == "" && p.Name != "":
		problems.Add("slug", "is required: letters, digits and hyphens, beginning with a letter or digit")
	case p.Slug == "": // reported for the name
	case len(p.Slug) > core.MaxSlug:
		problems.Add("slug", "must have at most %d characters", core.MaxSlug)
	case !core.ValidSlug(p.Slug):
		problems.Add("slug", "must begin with a letter or digit and have only letters, digits and hyphens")
	}
}

func (p *Pipeline) checkRepository(problems *core.Problems) {
	if p.Repository == "" {
		problems.Add("repository", "is required")
		return
	}
	if err := sourcehost.CheckURL(p.Repository); err != nil {
		problems.Add("repository", "%s", err)
	}
}

func (p *Pipeline) checkTimeouts(problems *core.Problems) {
	hasDefault := checkMinutes(problems, "default_command_step_timeout", p.DefaultTimeout)
	hasMaximum := checkMinutes(problems, "maximum_command_step_timeout", p.MaximumTimeout)
	if hasDefault && hasMaximum && *p.DefaultTimeout > *p.MaximumTimeout {
		problems.Add("default_command_step_timeout", "must be at most maximum_command_step_timeout, which is %d", *p.MaximumTimeout)
	}
}

// checkMinutes reports whether a timeout is set and valid, and adds a problem if it is not valid.
func checkMinutes(problems *core.Problems, field string, minutes *int) bool {
	if minutes != nil && (*minutes < 1 || *minutes > maxTimeout) {
		problems.Add(field, "must be a whole number of minutes from 1 to %d, or null for none", maxTimeout)
		return false
	}
	return minutes != nil
}

func checkRequired(problems *core.Problems, field, text string, limit int) {
	if text == "" {
		problems.Add(field, "is required")
		return
	}
	checkText(problems, field, text, limit)
}

func checkText(problems *core.Problems, field, text string, limit int) {
	if why := tooLong(text, limit); why != "" {
		problems.Add(field, "%s", why)
	}
}

// tooLong returns what is wrong with a text of more than limit characters, or "".
func tooLong(text string, limit int) string {
	n := utf8.RuneCountInString(text)
	if n <= limit {
		return ""
	}
	return fmt.Sprintf("must have at most %d characters, not %d", limit, n)
}

func checkBranch(problems *core.Problems, branch string) {
	if !core.ValidBranch(branch) {
		problems.Add("default_branch", "must be the name of a git branch, of at most %d bytes", core.MaxBranch)
	}
}

func checkTags(problems *core.Problems, tags []string) {
	if len(tags) > maxTags {
		problems.Add("tags", "must be at most %d", maxTags)
		return
	}
	for i, tag := range tags {
		checkRequired(problems, fmt.Sprintf("tags[%d]", i), strings.TrimSpace(tag), maxTag)
	}
}

func checkEnv(problems *core.Problems, env map[string]string) {
	if len(env) > maxVariables {
		problems.Add("env", "must have at most %d variables", maxVariables)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch value := env[name]; {
		case name == "":
			problems.Add("env", "has a variable without a name")
		case strings.Contains(name, "="):
			problems.Add("env", `has a variable %q: a name cannot contain "="`, name)
		case len(name)+len(value) > maxVariable:
			problems.Add("env", "has a variable %.40q of more than %d bytes", name, maxVariable)
		}
	}
}

// mirrorProblem returns what is wrong with the URL of a clone mirror, or "". Agents get the URL in their
// environment, so it must not contain secrets. A login name without a password, which SSH needs, is allowed.
func mirrorProblem(mirror string) string {
	const form = "must be a URL that Git can clone, such as https://mirror.example.com/acme/app.git"
	if sourcehost.CheckURL(mirror) != nil {
		return form
	}
	if _, err := sourcehost.ParseRepository(mirror); err != nil {
		return form
	}
	if strings.ContainsAny(mirror, "?#") {
		return "must have no query and no fragment"
	}
	if !strings.Contains(mirror, "://") {
		return ""
	}
	u, err := url.Parse(mirror)
	if err != nil {
		return form
	}
	_, secret := u.User.Password()
	if secret || u.User != nil && strings.HasPrefix(u.Scheme, "http") {
		return "must have no credentials"
	}
	return ""
}
