package condition

// A Context holds the values that conditions can read. A nil pointer or list is null.
type Context struct {
	Build        Build
	Pipeline     Pipeline
	Organization Organization
	// Step is set for a notification about a step.
	Step *Step
	// Env returns a variable of the build and whether it is set. If Env is nil, no variable is set.
	Env func(name string) (string, bool)
}

// Build holds the values of a build.
type Build struct {
	ID           string
	Number       int64
	Branch       string
	Commit       string
	Tag          *string
	Message      *string
	Source       string
	SourceEvent  *string
	SourceAction *string
	State        string
	// Author is the unverified author of the commit, Creator the user who created the build.
	Author, Creator *Person
	PullRequest     *PullRequest
	MergeQueue      *MergeQueue
}

// A Person holds the values of an author or creator. Teams are slugs.
type Person struct {
	ID, Name, Email string
	Teams           []string
}

// A PullRequest holds the values of the build's pull request.
type PullRequest struct {
	ID         string
	BaseBranch string
	Draft      *bool
	Labels     []string
	// Label is the added or removed label that caused the build.
	Label *string
	// Repository is the source of the commits. Fork is set if it is not the pipeline's repository.
	Repository string
	Fork       *bool
}

// A MergeQueue holds the values of the build's merge queue.
type MergeQueue struct {
	BaseBranch, BaseCommit string
}

// Pipeline holds the values of a pipeline.
type Pipeline struct {
	ID, Slug, DefaultBranch, Repository string
	// StartedPassing and StartedFailing compare a finished build with the previous one, for notifications.
	StartedPassing, StartedFailing *bool
}

// Organization holds the values of an organization.
type Organization struct {
	ID, Slug string
}

// Step holds the values of a step, for notifications.
type Step struct {
	ID                   string
	Key, Label           *string
	Type, State, Outcome string
}
