package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

// auditEvent is a record of the audit trail.
type auditEvent struct {
	ID        string     `json:"id"`
	CreatedAt *time.Time `json:"created_at"`
	Action    string     `json:"action"`
	Actor     struct {
		Type  string
		Name  string
		Email string
		Token *struct{ ID, Description string }
	} `json:"actor"`
	Subject   struct{ Type, ID, Name string } `json:"subject"`
	Channel   string                          `json:"channel"`
	Address   string                          `json:"ip_address"`
	UserAgent string                          `json:"user_agent"`
	RequestID string                          `json:"request_id"`
	Changes   []struct {
		Field         string
		Before, After json.RawMessage
	} `json:"changes"`
}

// who returns who acted.
func (e auditEvent) who() string {
	switch {
	case e.Actor.Email != "":
		return e.Actor.Email
	case e.Actor.Name != "":
		return e.Actor.Name
	}
	return e.Actor.Type
}

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "See who changed what in the organization"}
	cmd.AddCommand(auditListCommand(), auditViewCommand(), auditExportCommand())
	return cmd
}

// auditFlags adds the flags that select records, and returns a function that returns them as a query.
func auditFlags(cmd *cobra.Command) func() url.Values {
	flags := cmd.Flags()
	for _, f := range []struct{ flag, usage string }{
		{"actor", "records of a user, by email or id"},
		{"action", "records of an action, such as pipeline.updated"},
		{"type", "records about things of a type, such as pipeline"},
		{"subject", "records about one thing, by id"},
		{"channel", "how the change was made: api, web, apply, agents or server"},
		{"from", "records from this time on, such as 2026-01-02 or 2026-01-02T03:04:05Z"},
		{"to", "records from before this time"},
	} {
		flags.String(f.flag, "", f.usage)
	}
	return func() url.Values {
		query := url.Values{}
		for flag, name := range map[string]string{
			"actor": "actor", "action": "action", "type": "subject_type", "subject": "subject", "channel": "channel", "from": "created_from", "to": "created_to",
		} {
			if value := flags.Lookup(flag).Value.String(); value != "" {
				query.Set(name, value)
			}
		}
		return query
	}
}

func auditListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List changes, newest first",
		Example: "  stackyard audit list --actor ada@example.com --type secret --limit 100",
	}
	limit := cmd.Flags().Int("limit", 30, "how many records to show at most")
	query := auditFlags(cmd)
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		if *limit < 1 {
			return cmdline.Usage(fmt.Errorf("--limit must be at least 1"))
		}
		list, err := listMost[auditEvent](r, *limit, "/audit-events?"+query().Encode())
		if err != nil {
			return err
		}
		return printTable(r, list, "There are no such records.",
			column[auditEvent]{"when", func(e auditEvent) string { return r.when(e.CreatedAt) }},
			column[auditEvent]{"who", auditEvent.who},
			column[auditEvent]{"action", func(e auditEvent) string { return e.Action }},
			column[auditEvent]{"what", func(e auditEvent) string { return e.Subject.Name }},
			column[auditEvent]{"via", func(e auditEvent) string { return e.Channel }},
			column[auditEvent]{"from", func(e auditEvent) string { return e.Address }},
			column[auditEvent]{"id", func(e auditEvent) string { return e.ID }},
		)
	})
}

func auditViewCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "view ID",
		Short: "Show a change: who made it, from where, and the fields before and after",
		Args:  cmdline.Exactly("ID"),
	}, func(r *remote, args []string) error {
		got, err := call[auditEvent](r, get, nil, "/audit-events/%", args[0])
		if err != nil {
			return err
		}
		e := got.Value
		lines := []line{
			{"When", r.when(e.CreatedAt)},
			{"Who", e.who()},
			{"Action", e.Action},
			{"What", strings.TrimSpace(e.Subject.Type + " " + e.Subject.Name)},
			{"Subject", e.Subject.ID},
			{"Via", e.Channel},
			{"From", e.Address},
			{"Program", e.UserAgent},
			{"Request", e.RequestID},
		}
		if e.Actor.Token != nil {
			lines = append(lines, line{"Token", e.Actor.Token.Description + " (" + e.Actor.Token.ID + ")"})
		}
		for _, c := range e.Changes {
			lines = append(lines, line{"Changed", fmt.Sprintf("%s: %s → %s", c.Field, c.Before, c.After)})
		}
		return printItem(r, got.Raw, lines...)
	})
}

// maxExport is how many records the server returns at once.
const maxExport = 100_000

func auditExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write all changes to standard output, oldest first",
		Long:    "Write all changes to standard output, oldest first, as JSON lines or CSV.\nThe export itself is recorded.",
		Example: "  stackyard audit export --from 2026-01-01 >audit.jsonl\n  stackyard audit export --format csv --type secret >secrets.csv",
	}
	format := cmd.Flags().String("format", "jsonl", "jsonl or csv")
	query := auditFlags(cmd)
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		path, err := r.under("/audit-events/export")
		if err != nil {
			return err
		}
		values := query()
		values.Set("format", *format)
		for {
			n, last, err := exportPart(r, path+"?"+values.Encode(), *format, values.Has("after"))
			if err != nil || n < maxExport {
				return err
			}
			values.Set("after", last)
		}
	})
}

// exportPart copies one response to the output and returns the number of records and the id of the last one. continued is
// set for all but the first part, whose header they repeat.
func exportPart(r *remote, path, format string, continued bool) (n int, last string, err error) {
	body, err := r.Stream(r.ctx, path, "*/*")
	if err != nil {
		return 0, "", err
	}
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		text, err := lines.ReadString('\n')
		switch {
		case text == "":
		case format == "csv" && n == 0 && strings.HasPrefix(text, "id,"):
			if continued {
				text = ""
			}
		default:
			n++
			last = exportedID(format, text)
		}
		if _, failed := io.WriteString(r.out, text); failed != nil {
			return n, last, failed
		}
		if err == io.EOF {
			return n, last, nil
		}
		if err != nil {
			return n, last, fmt.Errorf("the export ended early: %w", err)
		}
	}
}

// exportedID returns the id of a record. In CSV it is the first cell; cells have no line breaks, because their JSON has
// none.
func exportedID(format, text string) string {
	if format == "csv" {
		id, _, _ := strings.Cut(text, ",")
		return id
	}
	var record struct{ ID string }
	if json.Unmarshal([]byte(text), &record) != nil {
		return ""
	}
	return record.ID
}
