package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/rules/message"
)

type organization = api.Organization

func orgCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "org", Short: "List organizations, see and limit what they store"}
	cmd.AddCommand(remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List organizations your token can access",
	}, func(r *remote, _ []string) error {
		list, err := api.All[organization](r.ctx, r.Client, "/v2/organizations?per_page=100", 10_000)
		if err != nil {
			return err
		}
		return printTable(r, list, "Your token reaches no organization.",
			column[organization]{"slug", func(o organization) string { return o.Slug }},
			column[organization]{"name", func(o organization) string { return o.Name }},
		)
	}), orgUsageCommand(), orgRetentionCommand())
	return cmd
}

func orgUsageCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "usage",
		Short: "Show what the organization stores and uses",
	}, func(r *remote, _ []string) error {
		got, err := call[struct {
			Artifacts, Caches, Logs orgStored
			Days                    []struct {
				Builds, Jobs int64
				Minutes      int64 `json:"job_minutes"`
			}
		}](r, get, nil, "/usage")
		if err != nil {
			return err
		}
		v := got.Value
		var builds, jobs, minutes int64
		for _, d := range v.Days {
			builds, jobs, minutes = builds+d.Builds, jobs+d.Jobs, minutes+d.Minutes
		}
		return printItem(r, got.Raw, line{"Artifacts", v.Artifacts.text("files")}, line{"Caches", v.Caches.text("pieces")}, line{"Logs", v.Logs.text("logs")},
			line{"Last 30 days", fmt.Sprintf("%d builds, %d jobs, %d minutes", builds, jobs, minutes)})
	})
}

// orgStored is how much an organization stores of something.
type orgStored struct {
	Bytes, Count int64
	Limit        int64 `json:"limit_bytes"`
}

func (s orgStored) text(what string) string {
	text := fmt.Sprintf("%s in %d %s", message.Size(s.Bytes), s.Count, what)
	if s.Limit > 0 {
		text += ", limit " + message.Size(s.Limit)
	}
	return text
}

// orgRetention is how long and how much an organization stores.
type orgRetention struct {
	BuildDays       int    `json:"build_retention_days"`
	ArtifactDays    int    `json:"artifact_retention_days"`
	TestDays        int    `json:"test_retention_days"`
	AuditDays       int    `json:"audit_retention_days"`
	LogDays         int    `json:"log_retention_days"`
	EventDays       int    `json:"event_retention_days"`
	DeliveryDays    int    `json:"delivery_retention_days"`
	LogBytes        int64  `json:"log_bytes"`
	ArtifactBytes   int64  `json:"artifact_bytes"`
	AtArtifactLimit string `json:"at_artifact_limit"`
	CacheBytes      int64  `json:"cache_bytes"`
}

func orgRetentionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "retention",
		Short:   "Show or change how long and how much the organization stores",
		Example: "  stackyard org retention\n  stackyard org retention --artifact-days 30 --artifact-bytes 500000000000 --at-artifact-limit remove_oldest",
	}
	flags := cmd.Flags()
	numbers := map[string]string{
		"build-days": "build_retention_days", "artifact-days": "artifact_retention_days", "test-days": "test_retention_days", "audit-days": "audit_retention_days",
		"log-days": "log_retention_days", "event-days": "event_retention_days", "delivery-days": "delivery_retention_days",
		"artifact-bytes": "artifact_bytes", "log-bytes": "log_bytes", "cache-bytes": "cache_bytes",
	}
	flags.Int64("build-days", 0, "how long finished builds are kept; 0: forever")
	flags.Int64("artifact-days", 0, "how long the bytes of artifacts are kept; 0: as long as their builds")
	flags.Int64("test-days", 0, "how long test results are kept; 0: forever")
	flags.Int64("audit-days", 0, "how long the audit trail is kept; 0: forever, else at least 30")
	flags.Int64("log-days", 0, "how long logs of finished builds are kept; 0: as long as their builds")
	flags.Int64("event-days", 0, "how long events are kept; 0: as long as the server keeps them, else at least 2")
	flags.Int64("delivery-days", 0, "how long finished deliveries are kept; 0: the last 100 of each service")
	flags.Int64("log-bytes", 0, "how much all logs in the blob store can have together before the oldest are removed; 0: no limit")
	flags.Int64("artifact-bytes", 0, "how much all artifacts can have together; 0: no limit")
	flags.Int64("cache-bytes", 0, "how much all caches can have together; 0: no limit")
	at := flags.String("at-artifact-limit", "", "what happens then: refuse (uploads) or remove_oldest (artifacts)")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		if len(args) > 0 {
			return cmdline.Usage(fmt.Errorf("unexpected argument %q", args[0]))
		}
		body := map[string]any{}
		for flag, field := range numbers {
			if flags.Changed(flag) {
				n, err := flags.GetInt64(flag)
				if err != nil {
					return cmdline.Usage(err)
				}
				body[field] = n
			}
		}
		if *at != "" {
			body["at_artifact_limit"] = *at
		}
		method, sent := get, any(nil)
		if len(body) > 0 {
			method, sent = patch, body
		}
		got, err := call[orgRetention](r, method, sent, "/retention")
		if err != nil {
			return err
		}
		v := got.Value
		limit := "none"
		if v.ArtifactBytes > 0 {
			limit = message.Size(v.ArtifactBytes) + ", then " + map[string]string{"refuse": "uploads are refused", "remove_oldest": "the oldest are removed"}[v.AtArtifactLimit]
		}
		logLimit := "none"
		if v.LogBytes > 0 {
			logLimit = message.Size(v.LogBytes) + ", then the oldest are removed"
		}
		return printItem(r, got.Raw,
			line{"Builds", daysText(v.BuildDays, "forever")}, line{"Artifacts", daysText(v.ArtifactDays, "as long as their builds")},
			line{"Test results", daysText(v.TestDays, "forever")}, line{"Audit trail", daysText(v.AuditDays, "forever")},
			line{"Logs", daysText(v.LogDays, "as long as their builds")}, line{"Events", daysText(v.EventDays, "as long as the server keeps them")},
			line{"Deliveries", daysText(v.DeliveryDays, "the last 100 of each service")},
			line{"Artifact limit", limit}, line{"Log limit", logLimit}, line{"Cache limit", limitText(v.CacheBytes)})
	})
}

// limitText returns a limit of bytes for people.
func limitText(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return message.Size(bytes)
}

func daysText(days int, zero string) string {
	switch days {
	case 0:
		return zero
	case 1:
		return "1 day"
	}
	return fmt.Sprintf("%d days", days)
}
