package api

import "time"

// An Organization is an organization that the caller belongs to.
type Organization struct {
	ID     string `json:"id"`
	Slug   string `json:"slug"`
	Name   string `json:"name"`
	WebURL string `json:"web_url"`
}

// A Pipeline is a pipeline of an organization.
type Pipeline struct {
	ID              string     `json:"id"`
	Slug            string     `json:"slug"`
	Name            string     `json:"name"`
	Description     string     `json:"description"`
	Repository      string     `json:"repository"`
	Visibility      string     `json:"visibility"`
	WebURL          string     `json:"web_url"`
	DefaultBranch   string     `json:"default_branch"`
	ClusterID       string     `json:"cluster_id"`
	ArchivedAt      *time.Time `json:"archived_at"` // nil: not archived
	RunningBuilds   int        `json:"running_builds_count"`
	ScheduledBuilds int        `json:"scheduled_builds_count"`
	Configuration   string     `json:"configuration"` // YAML; empty for visual steps
}

// A Build is a build of a pipeline.
type Build struct {
	ID         string     `json:"id"`
	Number     int        `json:"number"`
	State      string     `json:"state"`
	Blocked    bool       `json:"blocked"` // nothing more happens until a person unblocks a job
	Branch     string     `json:"branch"`
	Commit     string     `json:"commit"`
	Message    string     `json:"message"`
	Source     string     `json:"source"`
	WebURL     string     `json:"web_url"`
	CreatedAt  *time.Time `json:"created_at"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Pipeline   Pipeline   `json:"pipeline"`
	Jobs       []Job      `json:"jobs"`
}

// A Job is a job of a build. Type says what kind of step it belongs to: script, manual, waiter or trigger.
type Job struct {
	ID            string     `json:"id"`
	Type          string     `json:"type"`
	Name          string     `json:"name"`
	Label         string     `json:"label"` // of manual and trigger jobs
	Command       string     `json:"command"`
	State         string     `json:"state"`
	ExitStatus    *int       `json:"exit_status"`
	SoftFailed    bool       `json:"soft_failed"`
	StepKey       string     `json:"step_key"`
	GroupKey      string     `json:"group_key"`
	BrokenReason  string     `json:"broken_reason"`
	Retried       bool       `json:"retried"`
	WebURL        string     `json:"web_url"`
	StartedAt     *time.Time `json:"started_at"`
	FinishedAt    *time.Time `json:"finished_at"`
	ParallelIndex *int       `json:"parallel_group_index"`
	ParallelTotal *int       `json:"parallel_group_total"`
	Fields        []Field    `json:"fields"` // of a manual job
}

// A Field is what a person who unblocks a job is asked for.
type Field struct {
	Key      string   `json:"key"`
	Label    string   `json:"label"`
	Hint     string   `json:"hint"`
	Required bool     `json:"required"`
	Default  []string `json:"default"`
	Options  []string `json:"options"` // to choose from; empty: any text
	Multiple bool     `json:"multiple"`
}

// An Artifact is a file that a job uploaded.
type Artifact struct {
	ID        string     `json:"id"`
	JobID     string     `json:"job_id"`
	State     string     `json:"state"` // finished: it can be downloaded
	Path      string     `json:"path"`
	Size      int64      `json:"file_size"`
	MimeType  string     `json:"mime_type"`
	SHA1      string     `json:"sha1sum"`
	SHA256    string     `json:"sha256sum"`
	CreatedAt *time.Time `json:"created_at"`
}

// An Agent is a connected agent.
type Agent struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Hostname    string     `json:"hostname"`
	Version     string     `json:"version"`
	Queue       string     `json:"queue"`
	State       string     `json:"connection_state"`
	ConnectedAt *time.Time `json:"connected_at"`
	Tags        []string   `json:"meta_data"`
	Paused      bool       `json:"paused"`
	PausedNote  string     `json:"paused_note"`
	Job         *Job       `json:"job"` // that it runs; nil: none
}

// A Cluster groups queues and pipelines.
type Cluster struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Description    string `json:"description"`
	DefaultQueueID string `json:"default_queue_id"`
}

// A Queue is a queue of a cluster.
type Queue struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	Description string `json:"description"`
	Paused      bool   `json:"dispatch_paused"`
	PausedNote  string `json:"dispatch_paused_note"`
	Hosted      bool   `json:"hosted"`
}

// An AgentToken is a token with which agents register. Token is set when it was just created.
type AgentToken struct {
	ID          string     `json:"id"`
	Description string     `json:"description"`
	Allowed     string     `json:"allowed_ip_addresses"`
	ExpiresAt   *time.Time `json:"expires_at"`
	CreatedAt   *time.Time `json:"created_at"`
	Token       string     `json:"token"`
}

// A Schedule creates builds of a pipeline at certain times.
type Schedule struct {
	ID            string            `json:"id"`
	Label         string            `json:"label"`
	Cronline      string            `json:"cronline"`
	Message       string            `json:"message"`
	Commit        string            `json:"commit"`
	Branch        string            `json:"branch"`
	Env           map[string]string `json:"env"`
	Enabled       bool              `json:"enabled"`
	NextBuildAt   *time.Time        `json:"next_build_at"`
	FailedMessage string            `json:"failed_message"`
	FailedAt      *time.Time        `json:"failed_at"`
}
