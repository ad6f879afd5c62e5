package condition

// A Context holds what conditions can ask about. A nil pointer, and a nil list, is null.
type Context struct {
	Build        Build
	Pipeline     Pipeline
	Organization Organization
	// Step is the step of a notification that is about one.
	Step *Step
	// Env returns a variable of the build and whether it is set; nil knows none.
	Env func(name string) (string, bool)
}

// Build is what conditions can ask about a build.
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
	// Author wrote the commit, which nobody verified; Creator made the build.
	Author, Creator *Person
	PullRequest     *PullRequest
	MergeQueue      *MergeQueue
}

// A Person is what conditions can ask about somebody. Teams are slugs.
type Person struct {
	ID, Name, Email string
	Teams           []string
}

// A PullRequest is what conditions can ask about the pull request that a build is for.
type PullRequest struct {
	ID         string
	BaseBranch string
	Draft      *bool
	Labels     []string
	// Label is the one that was added or removed, when that is what made the build.
	Label *string
	// Repository is where the commits come from; Fork says that it is not the pipeline's.
	Repository string
	Fork       *bool
}

// A MergeQueue is what conditions can ask about the merge queue that a build is for.
type MergeQueue struct {
	BaseBranch, BaseCommit string
}

// Pipeline is what conditions can ask about a pipeline.
type Pipeline struct {
	ID, Slug, DefaultBranch, Repository string
	// StartedPassing and StartedFailing compare a finished build with the one before it, for
	// notifications.
	StartedPassing, StartedFailing *bool
}

// Organization is what conditions can ask about an organization.
type Organization struct {
	ID, Slug string
}

// Step is what the conditions of notifications can ask about a step.
type Step struct {
	ID                   string
	Key, Label           *string
	Type, State, Outcome string
}
