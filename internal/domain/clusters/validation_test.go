package clusters

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
)

func TestQueueKey_HasLettersDigitsHyphensAndUnderscores(t *testing.T) {
	for key, want := range map[string]string{
		"default":                "",
		"linux-amd64_2":          "",
		"0":                      "",
		strings.Repeat("a", 255): "",
		strings.Repeat("a", 256): "is too long",
		"":                       "is required",
		"two words":              "must have only letters, digits, hyphens and underscores",
		"a.b":                    "must have only letters, digits, hyphens and underscores",
		"ü":                      "must have only letters, digits, hyphens and underscores",
		"a\n":                    "must have only letters, digits, hyphens and underscores",
		"__default__":            "cannot be __default__, which stands for the default queue of a cluster",
		"_default":               "cannot be _default, which stands for the default queue of a cluster",
		"~":                      "cannot be ~, which stands for the default queue of a cluster",
		"-":                      "cannot be -, which stands for the default queue of a cluster",
	} {
		if got := queueKeyRule(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

func TestSecretKey_IsAVariableNameThatTheServiceDoesNotUse(t *testing.T) {
	shape := "must start with a letter and have only letters, digits and underscores"
	for key, want := range map[string]string{
		"SSH_KEY":                "",
		"a":                      "",
		"Book":                   "",
		"service":                "",
		strings.Repeat("a", 255): "",
		strings.Repeat("a", 256): "is too long",
		"":                       "is required",
		"1A":                     shape,
		"_A":                     shape,
		"A-B":                    shape,
		"Ä":                      shape,
		"A\n":                    shape,
		"BUILDKITE_TOKEN":        "cannot start with buildkite",
		"Buildkite":              "cannot start with buildkite",
		"bk_x":                   "cannot start with bk",
		"BKX":                    "cannot start with bk",
		"STACKYARD_KEY":          "cannot start with stackyard",
		"Service_Agent_Token":    "cannot start with service_",
	} {
		if got := secretKeyRule(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

func TestPolicy_IsAListOfRulesOverKnownClaims(t *testing.T) {
	for _, policy := range []string{
		"", " \n", "# nobody yet\n",
		"- pipeline_slug: deploy\n",
		"- {pipeline_id: a, pipeline_slug: b, build_source: c, build_branch: d, build_creator: e, build_creator_team: f, cluster_queue_id: g, cluster_queue_key: h}",
		"- build_branch: [main, release]\n- build_branch: 1.0\n",
		`[{"build_source": "ui"}]`,
	} {
		if err := checkPolicy(policy); err != nil {
			t.Errorf("%q: %v", policy, err)
		}
	}
	list := "must be a list of rules, such as \"- pipeline_slug: deploy\""
	for policy, want := range map[string]string{
		"pipeline_slug: deploy": list,
		"any":                   list,
		"[]":                    list,
		"null":                  list,
		"- \"a: b":              "is not valid YAML: found unexpected end of stream",
		"- deploy":              "is not valid: the rule at line 1 must be a mapping of claims to values",
		"- {}":                  "is not valid: the rule at line 1 must be a mapping of claims to values",
		"- pipeline_slug: a\n- &x {pipeline_slug: b}\n- *x":              "is not valid: the rule at line 3 must be a mapping of claims to values",
		"- pipeline_slug: a\n  branch: main":                             "is not valid: unknown claim \"branch\" at line 2; the claims are pipeline_id, pipeline_slug",
		"- pipeline_slug:":                                               "is not valid: the claim pipeline_slug at line 1 must have a value or a list of values",
		"- pipeline_slug: ''":                                            "is not valid: the claim pipeline_slug at line 1 must have a value or a list of values",
		"- pipeline_slug: []":                                            "is not valid: the claim pipeline_slug at line 1 must have a value or a list of values",
		"- pipeline_slug: {a: b}":                                        "is not valid: the claim pipeline_slug at line 1 must have a value or a list of values",
		"- pipeline_slug: [a, [b]]":                                      "is not valid: the claim pipeline_slug at line 1 must have a value or a list of values",
		"- pipeline_slug: a\n  pipeline_slug: b":                         "is not valid: the claim pipeline_slug is given twice in one rule, at line 2; give it a list of values",
		"- pipeline_slug: " + strings.Repeat("a", maxPolicy):             fmt.Sprintf("must be at most %d bytes", maxPolicy),
		"- &a pipeline_slug: x\n- {*a : y}\n":                            "is not valid: unknown claim",
		"- build_branch: main\n---\n- build_branch: other\n  nothing: 1": "must be one YAML document",
	} {
		err := checkPolicy(policy)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", policy, err, want)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add("- pipeline_slug: [a, b]\n  build_branch: main\n")
	f.Add("- &x {a: *x}")
	f.Fuzz(func(t *testing.T, policy string) {
		err := checkPolicy(policy)
		if err != nil && err.Error() == "" {
			t.Fatal("a policy is refused without a reason")
		}
		if err != nil && permits(policy, map[string][]string{"pipeline_slug": {"a"}}) {
			t.Fatal("a policy that cannot be read permits something")
		}
	})
}

func TestAddressBlock_KeepsWhatWasGivenInTheFormThatIsCompared(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.0.0/16":         "10.1.0.0/16",
		"10.1.2.3/16":         "10.1.2.3/16",
		"127.0.0.1":           "127.0.0.1/32",
		"0.0.0.0/0":           "0.0.0.0/0",
		"2001:DB8::/32":       "2001:db8::/32",
		"::1":                 "::1/128",
		"::ffff:10.0.0.1":     "10.0.0.1/32",
		"::ffff:10.0.0.0/104": "10.0.0.0/8",
		"":                    "",
		"10.1.0.0/33":         "",
		"10.1.0":              "",
		"fe80::1%eth0":        "",
		"fe80::%eth0/64":      "",
		"localhost":           "",
		"10.0.0.1,10.0.0.2":   "",
	} {
		block, ok := parseBlock(text)
		if ok != (want != "") || ok && block.String() != want {
			t.Errorf("%q: %s, %v; want %q", text, block, ok, want)
		}
	}
}

func FuzzAddressBlock(f *testing.F) {
	f.Add("::ffff:10.0.0.0/104")
	f.Fuzz(func(t *testing.T, text string) {
		block, ok := parseBlock(text)
		if !ok {
			return
		}
		if again, ok := parseBlock(block.String()); !ok || again != block {
			t.Fatalf("%q is %s, which reads back as %s, %v", text, block, again, ok)
		}
	})
}

func TestShapes_AreNamedAfterWhatTheyAre(t *testing.T) {
	for _, s := range shapes {
		name := fmt.Sprintf("%s_%s_%dX%d", strings.ToUpper(string(s.Platform)), strings.ToUpper(s.Architecture), s.CPU, s.Memory)
		if strings.Replace(s.Name, "_M4", "", 1) != name {
			t.Errorf("%s should be called %s", s.Name, name)
		}
	}
	for platform, want := range map[Platform]string{Linux: "LINUX_AMD64_2X4", MacOS: "MACOS_ARM64_M4_6X28"} {
		if got := defaultShape(platform).Name; got != want {
			t.Errorf("the default shape of %s is %s, want %s", platform, got, want)
		}
	}
}

func TestQueue_IsHostedWhenItOrItsClusterSaysSo(t *testing.T) {
	for _, c := range []struct {
		queue Queue
		want  string
	}{
		{Queue{}, ""},
		{Queue{inHostedCluster: true}, "LINUX_AMD64_2X4"},
		{Queue{Hosted: defaultHostedAgents(MacOS)}, "MACOS_ARM64_M4_6X28"},
		{Queue{Hosted: defaultHostedAgents(MacOS), inHostedCluster: true}, "MACOS_ARM64_M4_6X28"},
	} {
		got := ""
		if hosted := c.queue.hosting(); hosted != nil {
			got = hosted.Shape
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.queue, got, c.want)
		}
	}
}

func TestQueue_StaysConnectedForFiveToSixMinutesAfterAPoll(t *testing.T) {
	polled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const late = 5 * time.Second // how late a poll can be recorded
	for _, c := range []struct {
		polled time.Time
		after  time.Duration
		want   Connection
	}{
		{time.Time{}, 0, NeverConnected},
		{polled, 0, Connected},
		{polled, 5*time.Minute + late, Connected},
		{polled, connectionTimeout, Connected},
		{polled, connectionTimeout + time.Microsecond, Disconnected},
		{polled, 6*time.Minute - late, Disconnected},
		{polled, 24 * time.Hour, Disconnected},
		{polled, -time.Second, Connected}, // another replica's clock is ahead
	} {
		queue := Queue{PolledAt: c.polled}
		if got := queue.connection(polled.Add(c.after)); got != c.want {
			t.Errorf("polled at %v, %v later: %s, want %s", c.polled, c.after, got, c.want)
		}
	}
}

func TestCluster_ReportsAllProblemsAtOnce(t *testing.T) {
	c := Cluster{Name: " ", Description: strings.Repeat("ü", maxDescription+1), Emoji: "rocket", Color: "red"}
	var problems core.Problems
	c.check(&problems)
	want := "Validation Failed: name is required, description must have at most 2048 characters, not 2049, " +
		"emoji must be an emoji, or the name of one between colons, such as :rocket:, color must be a color in hex, such as #A9CCE3"
	if err := problems.Err(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
