package builds

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// Environment returns the variables of a job without credentials: those of the pipeline, of the upload that
// added the step, of the build, of the step, and of the service, each overriding the ones before.
func (s *Reader) Environment(org *identity.Organization, p *pipelines.Pipeline, b *Build, j *Job) map[string]string {
	env := map[string]string{}
	maps.Copy(env, b.PipelineEnv)
	maps.Copy(env, j.uploadEnv)
	maps.Copy(env, b.Env)
	maps.Copy(env, j.Work.Env)
	if j.Type == flow.Script {
		maps.Copy(env, s.serviceEnv(org, p, b, j))
		fillIn(env)
	}
	return env
}

// expected are variables that scripts read under "set -u", with the values they have by default.
var expected = map[string]string{
	"BUILD_AUTHOR":                       "",
	"BUILD_AUTHOR_EMAIL":                 "",
	"BUILD_CREATOR":                      "",
	"BUILD_CREATOR_EMAIL":                "",
	"PULL_REQUEST_BASE_BRANCH":           "",
	"PULL_REQUEST_DRAFT":                 "false",
	"PULL_REQUEST_LABELS":                "",
	"PULL_REQUEST_REPO":                  "",
	"REBUILT_FROM_BUILD_ID":              "",
	"REBUILT_FROM_BUILD_NUMBER":          "",
	"TIMEOUT":                            "false",
	"TRIGGERED_FROM_BUILD_ID":            "",
	"TRIGGERED_FROM_BUILD_NUMBER":        "",
	"TRIGGERED_FROM_BUILD_PIPELINE_SLUG": "",
}

// fillIn adds the expected variables that are not set under either prefix.
func fillIn(env map[string]string) {
	for name, value := range expected {
		_, own := env["SERVICE_"+name]
		_, known := env["BUILDKITE_"+name]
		if !own && !known {
			env["SERVICE_"+name] = value
		}
	}
}

// CheckoutEnvironment returns the variables of a command job for its agent: those of Environment, with the
// credentials in the repository's URL. Builds from forks clone without credentials.
func (s *Reader) CheckoutEnvironment(org *identity.Organization, p *pipelines.Pipeline, b *Build, j *Job) (map[string]string, error) {
	env := s.Environment(org, p, b, j)
	if b.FromFork(p) {
		return env, nil
	}
	url, err := s.pipelines.CheckoutURL(p)
	env["SERVICE_REPO"] = url
	return env, err
}

// serviceEnv returns the variables that the service provides to a command job.
func (s *Reader) serviceEnv(org *identity.Organization, p *pipelines.Pipeline, b *Build, j *Job) map[string]string {
	env := s.buildEnv(org, p, b)
	maps.Copy(env, map[string]string{
		"SERVICE_JOB_ID":         j.ID,
		"SERVICE_LABEL":          j.Label,
		"SERVICE_COMMAND":        j.Work.Command,
		"SERVICE_ARTIFACT_PATHS": j.Work.ArtifactPaths,
		"SERVICE_STEP_ID":        j.StepID,
		"SERVICE_STEP_KEY":       j.Step.Key,
		"SERVICE_RETRY_COUNT":    strconv.Itoa(j.RetriesCount),
	})
	if len(j.Work.Plugins) > 0 {
		env["SERVICE_PLUGINS"] = string(j.Work.Plugins)
	}
	if image, ok := j.Work.Attributes["image"].(string); ok {
		env["SERVICE_IMAGE"] = image
	}
	maps.Copy(env, checkoutEnv(j.Work))
	if j.Timeout != nil {
		env["SERVICE_TIMEOUT"] = strconv.Itoa(*j.Timeout)
	}
	if j.ParallelIndex != nil {
		env["SERVICE_PARALLEL_JOB"] = strconv.Itoa(*j.ParallelIndex)
		env["SERVICE_PARALLEL_JOB_COUNT"] = strconv.Itoa(*j.ParallelTotal)
	}
	if by := j.unblocker; by != nil {
		env["SERVICE_UNBLOCKER"] = by.Name
		env["SERVICE_UNBLOCKER_ID"] = by.ID
		env["SERVICE_UNBLOCKER_EMAIL"] = by.Email
		env["SERVICE_UNBLOCKER_TEAMS"] = strings.Join(j.unblockerTeams, ":")
	}
	if j.Step.GroupID != "" {
		env["SERVICE_GROUP_ID"] = j.Step.GroupID
		env["SERVICE_GROUP_KEY"] = j.Step.GroupKey
		env["SERVICE_GROUP_LABEL"] = j.Step.GroupLabel
	}
	for _, rule := range j.Work.Agents {
		key, value, _ := strings.Cut(rule, "=")
		env["SERVICE_AGENT_META_DATA_"+VariableName(key)] = value
	}
	return env
}

// checkoutEnv returns the checkout options of a step that every agent understands, as variables. Agents get the other
// options as attributes.
func checkoutEnv(w plan.Work) map[string]string {
	env := map[string]string{}
	checkout, _ := w.Attributes["checkout"].(map[string]any)
	if checkout["skip"] == true {
		env["SERVICE_SKIP_CHECKOUT"] = "true"
	}
	if checkout["submodules"] == false {
		env["SERVICE_GIT_SUBMODULES"] = "false"
	}
	return env
}

// buildEnv returns the variables that the service provides to all jobs of a build.
func (s *Reader) buildEnv(org *identity.Organization, p *pipelines.Pipeline, b *Build) map[string]string {
	env := map[string]string{
		"CI":                              "true",
		"SERVICE":                         "true",
		"SERVICE_ORGANIZATION_ID":         org.ID,
		"SERVICE_ORGANIZATION_SLUG":       org.Slug,
		"SERVICE_PIPELINE_ID":             p.ID,
		"SERVICE_PIPELINE_SLUG":           p.Slug,
		"SERVICE_PIPELINE_NAME":           p.Name,
		"SERVICE_PIPELINE_DEFAULT_BRANCH": p.DefaultBranch,
		"SERVICE_PIPELINE_PROVIDER":       p.Provider,
		"SERVICE_REPO":                    p.Repository,
		"SERVICE_BUILD_ID":                b.ID,
		"SERVICE_BUILD_NUMBER":            strconv.Itoa(b.Number),
		"SERVICE_BUILD_URL":               s.Address(org, p, b.Number).Web(),
		"SERVICE_BRANCH":                  b.Branch,
		"SERVICE_COMMIT":                  b.Commit,
		"SERVICE_TAG":                     b.Tag,
		"SERVICE_MESSAGE":                 b.Message,
		"SERVICE_SOURCE":                  string(b.Source),
		"SERVICE_PULL_REQUEST":            "false",
		"SERVICE_CLUSTER_ID":              b.ClusterID,
	}
	if b.CleanCheckout {
		env["SERVICE_CLEAN_CHECKOUT"] = "true"
	}
	if p.CloneMirrorURL != "" {
		env["SERVICE_GIT_REMOTE_MIRROR_URL"] = p.CloneMirrorURL
	}
	maps.Copy(env, b.people())
	maps.Copy(env, b.pullRequestEnv())
	maps.Copy(env, b.sourceEventEnv())
	maps.Copy(env, b.origins())
	return env
}

// VariableName returns the form of a tag's name in a variable name.
func VariableName(tag string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(tag))
}

// people returns the variables about the creator and the author of the build.
func (b *Build) people() map[string]string {
	env := map[string]string{}
	if b.Creator != nil {
		env["SERVICE_BUILD_CREATOR"] = b.Creator.Name
		env["SERVICE_BUILD_CREATOR_EMAIL"] = b.Creator.Email
	}
	if b.Author != nil {
		env["SERVICE_BUILD_AUTHOR"] = cmp.Or(b.Author.Name, b.Author.Username)
		env["SERVICE_BUILD_AUTHOR_EMAIL"] = b.Author.Email
	}
	return env
}

func (b *Build) pullRequestEnv() map[string]string {
	pr := b.PullRequest
	if pr == nil {
		return nil
	}
	env := map[string]string{
		"SERVICE_PULL_REQUEST":             pr.ID,
		"SERVICE_PULL_REQUEST_BASE_BRANCH": pr.Base,
		"SERVICE_PULL_REQUEST_REPO":        pr.Repository,
		"SERVICE_PULL_REQUEST_LABELS":      strings.Join(pr.Labels, ","),
	}
	if pr.Draft != nil {
		env["SERVICE_PULL_REQUEST_DRAFT"] = strconv.FormatBool(*pr.Draft)
	}
	return env
}

// sourceEventEnv returns the variables about the event at the source host.
func (b *Build) sourceEventEnv() map[string]string {
	e := b.SourceEvent
	if e == nil || e.Name == "" {
		return nil
	}
	env := map[string]string{"SERVICE_SOURCE_EVENT": e.Name, "SERVICE_SOURCE_ACTION": e.Action}
	if e.MergeQueue != nil {
		env["SERVICE_MERGE_QUEUE_BASE_BRANCH"] = e.MergeQueue.BaseBranch
		env["SERVICE_MERGE_QUEUE_BASE_COMMIT"] = e.MergeQueue.BaseCommit
	}
	if e.DiffBase != "" {
		env["SERVICE_GIT_DIFF_BASE"] = e.DiffBase
	}
	return env
}

// origins returns the variables about the builds that this one was rebuilt from or triggered by.
func (b *Build) origins() map[string]string {
	env := map[string]string{}
	if from := b.TriggeringBuild; from.ID != "" {
		env["SERVICE_TRIGGERED_FROM_BUILD_ID"] = from.ID
		env["SERVICE_TRIGGERED_FROM_BUILD_NUMBER"] = strconv.Itoa(from.Number)
		env["SERVICE_TRIGGERED_FROM_BUILD_PIPELINE_SLUG"] = from.Slug
	}
	if from := b.RebuiltBuild; from.ID != "" {
		env["SERVICE_REBUILT_FROM_BUILD_ID"] = from.ID
		env["SERVICE_REBUILT_FROM_BUILD_NUMBER"] = strconv.Itoa(from.Number)
	}
	return env
}

// EnvText returns variables as text, one per line, sorted by name.
func EnvText(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString(oneLine(name) + "=" + oneLine(env[name]) + "\n")
	}
	return b.String()
}

// oneLine returns a text without line breaks unchanged. It quotes other texts, so that no line of them looks
// like a variable.
func oneLine(text string) string {
	if !strings.ContainsAny(text, "\n\v\f\r\u0085\u2028\u2029") {
		return text
	}
	return strconv.Quote(text)
}
