package lifecycle

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// GitCommitKey is the meta-data key under which the first agent that checks out a build reports its commit.
const GitCommitKey = "buildkite:git:commit"

// A Commit is the commit of a build, as an agent or the source host reports it.
type Commit struct {
	SHA     string // empty unless complete
	Author  builds.Author
	Message string
}

// details returns the details of a build with the author and the message of the commit where they are unknown.
func (c Commit) details(d builds.Details) builds.Details {
	if (d.Author == nil || *d.Author == builds.Author{}) && c.Author != (builds.Author{}) {
		d.Author = &c.Author
	}
	d.Message = cmp.Or(d.Message, c.Message)
	return d
}

// cut returns the commit with its author and message cut to the lengths that are stored.
func (c Commit) cut() Commit {
	c.Author = builds.Author{Name: core.Cut(c.Author.Name, MaxName), Email: core.Cut(c.Author.Email, MaxName)}
	c.Message = core.Cut(c.Message, MaxMessage)
	return c
}

var (
	sha            = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	authorWithMail = regexp.MustCompile(`^(.*?)\s*<([^<>]*)>$`)
)

// readCommit parses a commit in the format of git show: lines with the SHA and the author, an empty line, and
// the indented message. It ignores other lines.
func readCommit(text string) Commit {
	var c Commit
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
	c.Message = strings.TrimSpace(strings.Join(lines, "\n"))
	return c.cut()
}

func readAuthor(text string) builds.Author {
	if match := authorWithMail.FindStringSubmatch(text); match != nil {
		return builds.Author{Name: match[1], Email: match[2]}
	}
	return builds.Author{Name: text}
}

// resolveCommit fills in what is unknown of a build's commit from the report of an agent.
func resolveCommit(q *db.Q, b *builds.Build, text string) error {
	return fillInCommit(q, b, readCommit(text))
}

// fillInCommit fills in what is unknown of a build's commit. Given values stay, except a name like HEAD, which the
// reported SHA replaces.
func fillInCommit(q *db.Q, b *builds.Build, reported Commit) error {
	commit := b.Commit
	if reported.SHA != "" && !sha.MatchString(b.Commit) {
		commit = reported.SHA
	}
	if _, err := q.Exec(`UPDATE builds SET version = version + 1, commit_name = $2 WHERE id = $1`, b.ID, commit); err != nil {
		return err
	}
	details := reported.details(b.Details)
	_, err := q.Exec(`UPDATE build_details SET message = $2, author = $3 WHERE build_id = $1`,
		b.ID, db.Text(details.Message), db.JSON(details.Author))
	return err
}

// SetMetaData sets meta-data of a build: all entries, or none if one is invalid. If a key occurs twice, the last
// value counts. The value of [GitCommitKey] also fills in the build's commit.
func (s *Service) SetMetaData(ctx context.Context, orgID, buildID string, entries []metadata.Entry) error {
	values := make(map[string]string, len(entries))
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return err
		}
		values[e.Key] = e.Value
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("builds", buildID); err != nil {
			return err
		}
		b, err := builds.ByID(q, orgID, buildID)
		if err != nil {
			return err
		}
		if err := setMetaData(q, b, values); err != nil {
			return err
		}
		if text, ok := values[GitCommitKey]; ok {
			if err := resolveCommit(q, b, text); err != nil {
				return err
			}
		}
		q.Announce(builds.Topic(b.ID))
		return nil
	})
}

func setMetaData(q *db.Q, b *builds.Build, values map[string]string) error {
	return metadata.Set(q, metadata.Build{ID: b.ID, OrganizationID: b.OrganizationID, PipelineID: b.PipelineID}, values)
}
