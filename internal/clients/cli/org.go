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
		Short: "Show what the organization stores",
	}, func(r *remote, _ []string) error {
		got, err := call[struct {
			Artifacts, Caches struct {
				Bytes, Count int64
				Limit        int64 `json:"limit_bytes"`
			}
		}](r, get, nil, "/usage")
		if err != nil {
			return err
		}
		a, c := got.Value.Artifacts, got.Value.Caches
		return printItem(r, got.Raw,
			line{"Artifacts", fmt.Sprintf("%s in %d files", message.Size(a.Bytes), a.Count)}, line{"Limit", limitText(a.Limit)},
			line{"Caches", message.Size(c.Bytes)}, line{"Cache limit", limitText(c.Limit)})
	})
}

// orgRetention is how long and how much an organization stores.
type orgRetention struct {
	BuildDays       int    `json:"build_retention_days"`
	ArtifactDays    int    `json:"artifact_retention_days"`
	TestDays        int    `json:"test_retention_days"`
	AuditDays       int    `json:"audit_retention_days"`
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
		"artifact-bytes": "artifact_bytes", "cache-bytes": "cache_bytes",
	}
	flags.Int64("build-days", 0, "how long finished builds are kept; 0: forever")
	flags.Int64("artifact-days", 0, "how long the bytes of artifacts are kept; 0: as long as their builds")
	flags.Int64("test-days", 0, "how long test results are kept; 0: forever")
	flags.Int64("audit-days", 0, "how long the audit trail is kept; 0: forever, else at least 30")
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
		return printItem(r, got.Raw,
			line{"Builds", daysText(v.BuildDays, "forever")}, line{"Artifacts", daysText(v.ArtifactDays, "as long as their builds")},
			line{"Test results", daysText(v.TestDays, "forever")}, line{"Audit trail", daysText(v.AuditDays, "forever")}, line{"Artifact limit", limit}, line{"Cache limit", limitText(v.CacheBytes)})
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
