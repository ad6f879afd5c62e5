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

// A reportedCommit is the commit that an agent reports.
type reportedCommit struct {
	SHA     string // empty unless complete
	Author  builds.Author
	Message string
}

var (
	sha            = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	authorWithMail = regexp.MustCompile(`^(.*?)\s*<([^<>]*)>$`)
)

// readCommit parses a commit in the format of git show: lines with the SHA and the author, an empty line, and
// the indented message. It ignores other lines.
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

func readAuthor(text string) builds.Author {
	if match := authorWithMail.FindStringSubmatch(text); match != nil {
		return builds.Author{Name: core.Cut(match[1], MaxName), Email: core.Cut(match[2], MaxName)}
	}
	return builds.Author{Name: core.Cut(text, MaxName)}
}

// resolveCommit fills in what is unknown of a build's commit from the report of an agent.
func resolveCommit(q *db.Q, b *builds.Build, text string) error {
	return fillInCommit(q, b, readCommit(text))
}

// fillInCommit fills in what is unknown of a build's commit. Given values stay, except a name like HEAD, which the
// reported SHA replaces.
func fillInCommit(q *db.Q, b *builds.Build, reported reportedCommit) error {
	if reported.SHA != "" && !sha.MatchString(b.Commit) {
		if _, err := q.Exec(`UPDATE builds SET commit_name = $2 WHERE id = $1`, b.ID, reported.SHA); err != nil {
			return err
		}
	}
	author := b.Author
	if (author == nil || *author == builds.Author{}) && reported.Author != (builds.Author{}) {
		author = &reported.Author
	}
	_, err := q.Exec(`UPDATE build_details SET message = $2, author = $3 WHERE build_id = $1`,
		b.ID, db.Text(cmp.Or(b.Message, reported.Message)), db.JSON(author))
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
