package mail

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"
	texttemplate "text/template"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

//go:embed build.txt build.html
var files embed.FS

var (
	textBody = texttemplate.Must(texttemplate.ParseFS(files, "build.txt"))
	htmlBody = template.Must(template.ParseFS(files, "build.html"))
)

// MaxJobs is how many failed jobs a message lists.
const MaxJobs = 20

const (
	maxSubject = 200  // in characters
	maxMessage = 1000 // of a commit, in characters
)

// build is what the templates show.
type build struct {
	Pipeline, Verb, Branch, Commit, Message, By, Took string
	Color                                             string
	Number                                            int
	URL, Organization                                 string
	Jobs                                              []job
	More                                              bool
}

type job struct{ Name, How, URL string }

// About writes the subject and the texts of a message about a build. Its jobs are those that failed.
func About(b *report.Build, fixed bool) (subject, text, html string, err error) {
	start, end := b.Times()
	shown := build{
		Pipeline: b.Pipeline.Name, Verb: verb(b, fixed), Branch: b.Branch, Message: core.Cut(strings.TrimSpace(b.Message), maxMessage),
		Color: color(b.State), Number: b.Number, URL: b.URL, Organization: b.Org.Name, More: b.More,
		Commit: shortCommit(b.Commit),
	}
	if !end.IsZero() {
		shown.Took = end.Sub(start).Round(time.Second).String()
	}
	if b.Creator != nil {
		shown.By = b.Creator.Name
	} else if b.Author != nil {
		shown.By = b.Author.Name
	}
	for _, j := range b.Jobs {
		shown.Jobs = append(shown.Jobs, job{Name: report.Name(j), How: how(j), URL: b.JobURL(j)})
	}
	subject = core.Cut(fmt.Sprintf("[%s] %s #%d %s", shown.Branch, shown.Pipeline, shown.Number, shown.Verb), maxSubject)
	var plain, rich bytes.Buffer
	if err := textBody.Execute(&plain, shown); err != nil {
		return "", "", "", err
	}
	if err := htmlBody.Execute(&rich, shown); err != nil {
		return "", "", "", err
	}
	return subject, plain.String(), rich.String(), nil
}

// Test writes the subject and the texts of a message that only shows that messages arrive.
func Test(organization string) (subject, text, html string) {
	body := fmt.Sprintf("This is a test message. E-mails about builds of %s arrive at this address.", organization)
	return "Test message from Stackyard", body + "\n\n--\nSent by Stackyard.\n", "<p>" + template.HTMLEscapeString(body) + "</p>"
}

// verb says what a build did.
func verb(b *report.Build, fixed bool) string {
	switch {
	case fixed:
		return "is fixed"
	case b.Blocked():
		return "is blocked"
	case b.State == flow.BuildNotRun:
		return "was not run"
	case b.State == flow.BuildCanceled, b.State == flow.BuildSkipped:
		return "was " + string(b.State)
	case b.State == flow.BuildPassed, b.State == flow.BuildFailed:
		return string(b.State)
	default:
		return "is " + string(b.State)
	}
}

// color returns the color of a state, which is readable on white.
func color(state flow.BuildState) string {
	switch state {
	case flow.BuildPassed:
		return "#1a7f37"
	case flow.BuildFailed, flow.BuildFailing:
		return "#b3261e"
	default:
		return "#57606a"
	}
}

// how says how a job ended.
func how(j *builds.Job) string {
	if j.State == flow.Finished && j.ExitStatus != nil {
		return fmt.Sprintf("exit status %d", *j.ExitStatus)
	}
	return strings.ReplaceAll(string(j.APIState()), "_", " ")
}

func shortCommit(commit string) string {
	if len(commit) == 40 {
		return commit[:10]
	}
	return core.Cut(commit, 40)
}
