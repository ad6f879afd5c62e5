package builds

import (
	"cmp"
	"regexp"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// GitCommitKey is the meta-data key under which the first agent that has checked out a build tells of
// its commit.
const GitCommitKey = "buildkite:git:commit"

// A reportedCommit is what an agent tells of a commit.
type reportedCommit struct {
	SHA     string // empty when it tells none that is complete
	Author  Author
	Message string
}

var (
	sha            = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	authorWithMail = regexp.MustCompile(`^(.*?)\s*<([^<>]*)>$`)
)

// readCommit reads what an agent tells of a commit, in the form that git shows one: lines with the SHA and
// the author, an empty line, and the message, indented. Lines in other words are passed over.
func readCommit(text string) reportedCommit {
	var c reportedCommit
	head, message, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if value, ok := strings.CutPrefix(line, "commit "); ok && sha.MatchString(strings.TrimSpace(value)) {
			c.SHA = strings.TrimSpace(value)
		}
		if value, ok := strings.CutPrefix(line, "Author:"); ok {
			c.Author = readAuthor(strings.TrimSpace(value))
		}
	}
	var lines []string
	for line := range strings.SplitSeq(message, "\n") {
		lines = append(lines, strings.TrimPrefix(line, "    "))
	}
	c.Message = core.Cut(strings.TrimSpace(strings.Join(lines, "\n")), MaxMessage)
	return c
}

func readAuthor(text string) Author {
	if match := authorWithMail.FindStringSubmatch(text); match != nil {
		return Author{Name: core.Cut(match[1], MaxName), Email: core.Cut(match[2], MaxName)}
	}
	return Author{Name: core.Cut(text, MaxName)}
}

// resolveCommit notes what an agent tells of a build's commit where nobody has said it before. What was
// given when the build was made stays, except for a name such as HEAD, whose commit is now known.
func resolveCommit(q *db.Q, b *Build, text string) error {
	told := readCommit(text)
	if told.SHA != "" && !sha.MatchString(b.Commit) {
		if _, err := q.Exec(`UPDATE builds SET commit_name = $2 WHERE id = $1`, b.ID, told.SHA); err != nil {
			return err
		}
	}
	author := b.Author
	if (author == nil || *author == Author{}) && told.Author != (Author{}) {
		author = &told.Author
	}
	_, err := q.Exec(`UPDATE build_details SET message = $2, author = $3 WHERE build_id = $1`,
		b.ID, db.Text(cmp.Or(b.Message, told.Message)), db.JSON(author))
	return err
}
