package clusters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fixture is a database with two organizations, to which files are applied.
type fixture struct {
	t     *testing.T
	db    *db.DB
	dir   *identity.Directory
	acme  *identity.Organization
	rival *identity.Organization
}

func eachFixture(t *testing.T, fn func(t *testing.T, w *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := &fixture{t: t, db: d, dir: identity.NewDirectory(d, func() time.Time { return noon })}
		w.acme, w.rival = w.organization("acme"), w.organization("rival")
		fn(t, w)
	})
}

func (w *fixture) organization(slug string) *identity.Organization {
	w.t.Helper()
	org := &identity.Organization{
		ID: core.NewID(), Slug: slug, Name: slug, CreatedAt: noon,
		Features: identity.DefaultFeatures,
	}
	w.write(func(q *db.Q) error { return identity.InsertOrganization(q, *org) })
	return org
}

func (w *fixture) write(fn func(q *db.Q) error) {
	w.t.Helper()
	if err := w.db.Write(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// apply applies the clusters of an organization. It returns the reported changes, or the complaints.
func (w *fixture) apply(org *identity.Organization, source string) (lines []string, complaints string) {
	w.t.Helper()
	var specs []Spec
	if err := yaml.Unmarshal([]byte(source), &specs); err != nil {
		w.t.Fatal(err)
	}
	var found core.Complaints
	if Check(&found, specs); len(found) > 0 {
		return nil, sentences(found)
	}
	var changes core.Changes
	err := w.dir.Change(w.t.Context(), func(q *db.Q) error {
		changes, found = core.Changes{}, nil
		if err := Apply(identity.Applying{Q: q, Org: org, Now: noon, Changes: &changes, Complaints: &found}, specs); err != nil {
			return err
		}
		return found.Err()
	})
	if err != nil && len(found) == 0 {
		w.t.Fatal(err)
	}
	return changes.Lines, sentences(found)
}

func sentences(complaints core.Complaints) string {
	var all []string
	for _, c := range complaints {
		all = append(all, c.Message)
	}
	return strings.Join(all, "\n")
}

// mustApply applies valid clusters to acme and checks the reported changes.
func (w *fixture) mustApply(source string, want ...string) {
	w.t.Helper()
	lines, complaints := w.apply(w.acme, source)
	if complaints != "" {
		w.t.Fatalf("complaints:\n%s", complaints)
	}
	if !slices.Equal(lines, want) {
		w.t.Fatalf("applying did\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// prepare applies valid clusters to acme.
func (w *fixture) prepare(source string) {
	w.t.Helper()
	if _, complaints := w.apply(w.acme, source); complaints != "" {
		w.t.Fatalf("complaints:\n%s", complaints)
	}
}

// cluster returns one of acme's clusters.
func (w *fixture) cluster(name string) (c Cluster) {
	w.t.Helper()
	w.read(func(q *db.Q) (err error) {
		c, err = ByName(q, w.acme.ID, name)
		return err
	})
	return c
}

func (w *fixture) queue(cluster, key string) (queue Queue) {
	w.t.Helper()
	c := w.cluster(cluster)
	w.read(func(q *db.Q) (err error) {
		queue, err = queueByKey(q, c.ID, key)
		return err
	})
	return queue
}

func (w *fixture) read(fn func(q *db.Q) error) {
	w.t.Helper()
	if err := w.db.Read(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// defaultQueue returns the key of a cluster's default queue, or "".
func (w *fixture) defaultQueue(cluster string) string {
	w.t.Helper()
	c := w.cluster(cluster)
	if c.DefaultQueueID == "" {
		return ""
	}
	var queue Queue
	w.read(func(q *db.Q) (err error) {
		queue, err = queueByID(q, c.ID, c.DefaultQueueID)
		return err
	})
	return queue.Key
}

const acmeClusters = `
- name: Default
  id: 0190C0DE-0000-7000-8000-0000000000c1
  default: true
  queues:
    - {key: default, id: 0190c0de-0000-7000-8000-0000000000d1, default: true}
    - {key: mac, hosted: {platform: macos}}
  agent_tokens:
    - description: boot
      id: 0190c0de-0000-7000-8000-0000000000f1
      token: svcct_acme-boot
      allowed_ip_addresses: [127.0.0.1/32, 10.0.0.1]
      expires_at: 2020-01-01T00:00:00Z
- name: Hosted
  hosted: true
  queues:
    - {key: linux}
`

func TestApply_MakesWhatTheFileSaysAndNothingTheSecondTime(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		w.mustApply(acmeClusters,
			"created cluster acme/Default",
			"created queue acme/Default/default",
			"created queue acme/Default/mac",
			"created agent_token acme/Default/boot",
			"created cluster acme/Hosted",
			"created queue acme/Hosted/linux",
		)
		w.mustApply(acmeClusters)

		c := w.cluster("Default")
		if c.ID != "0190c0de-0000-7000-8000-0000000000c1" || !c.Default || c.Hosted || c.CreatedBy != nil || !c.CreatedAt.Equal(noon) {
			t.Errorf("the cluster is %+v", c)
		}
		if c.DefaultQueueID != "0190c0de-0000-7000-8000-0000000000d1" {
			t.Errorf("the default queue is %s", c.DefaultQueueID)
		}
		if q := w.queue("Default", "mac"); q.hosting() == nil || q.hosting().Shape != "MACOS_ARM64_M4_6X28" || q.RetryAffinity != PreferWarmest {
			t.Errorf("the hosted queue is %+v", q)
		}
		if q := w.queue("Hosted", "linux"); q.hosting() == nil || q.hosting().Shape != "LINUX_AMD64_2X4" || q.Hosted != nil {
			t.Errorf("the queue of the hosted cluster is %+v", q)
		}
		var token AgentToken
		w.read(func(q *db.Q) (err error) {
			token, err = tokenByDescription(q, c.ID, "boot")
			return err
		})
		if token.ID != "0190c0de-0000-7000-8000-0000000000f1" || joinBlocks(token.AllowedAddresses) != "127.0.0.1/32 10.0.0.1/32" || token.ExpiresAt.Year() != 2020 {
			t.Errorf("the token is %+v", token)
		}
	})
}

func TestApply_ChangesOnlyWhatDiffers(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		w.prepare(acmeClusters)
		w.mustApply(`[{name: Default, hosted: true}]`, "changed cluster acme/Default")
		w.mustApply(`[{name: Default, queues: [{key: default, hosted: {platform: linux}}]}]`, "changed queue acme/Default/default")
		w.mustApply(`[{name: Default, queues: [{key: default, hosted: {platform: linux}}, {key: mac}]}]`)
		w.mustApply(`[{name: Default, queues: [{key: mac, default: true}]}]`, "changed cluster acme/Default")
		w.mustApply(`[{name: Default, queues: [{key: mac, default: false}]}]`, "changed cluster acme/Default")
		w.mustApply(`[{name: Default, queues: [{key: mac, default: false}]}]`)
		for _, token := range []string{
			`{description: boot, token: svcct_other}`,
			`{description: boot, allowed_ip_addresses: []}`,
			`{description: boot, expires_at: 2030-01-01T00:00:00Z}`,
		} {
			file := `[{name: Default, agent_tokens: [` + token + `]}]`
			w.mustApply(file, "changed agent_token acme/Default/boot")
			w.mustApply(file)
		}
		renamed := `[{name: Default, agent_tokens: [{description: start, token: svcct_other}]}]`
		w.mustApply(renamed, "changed agent_token acme/Default/start")
		w.mustApply(renamed)
		token, err := w.dir.AuthenticateAgent(t.Context(), "svcct_other", netip.MustParseAddr("8.8.8.8"))
		if err != nil || token.Description != "start" || token.ExpiresAt.Year() != 2030 {
			t.Errorf("the token is %+v, %v", token, err)
		}
		if _, err := w.dir.AuthenticateAgent(t.Context(), "svcct_acme-boot", netip.MustParseAddr("127.0.0.1")); core.KindOf(err) != core.Unauthorized {
			t.Errorf("the value before still works: %v", err)
		}
	})
}

func TestApply_GeneratesATokenOnceAndShowsIt(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		file := `[{name: Default, agent_tokens: [{description: boot}]}]`
		lines := func() []string {
			lines, complaints := w.apply(w.acme, file)
			if complaints != "" {
				t.Fatal(complaints)
			}
			return lines
		}
		got := lines()
		if len(got) != 3 {
			t.Fatalf("applying did %q", got)
		}
		value, ok := strings.CutPrefix(got[2], "token agent_token acme/Default/boot ")
		if !ok || !strings.HasPrefix(value, "svcct_") {
			t.Fatalf("the token's line is %q", got[2])
		}
		if token, err := w.dir.AuthenticateAgent(t.Context(), value, netip.MustParseAddr("8.8.8.8")); err != nil || token.ClusterName != "Default" {
			t.Errorf("the printed token is %+v, %v", token, err)
		}
		if again := lines(); len(again) != 0 {
			t.Errorf("applying again did %q", again)
		}
	})
}

func TestApply_GivesAClusterItsObviousDefaultQueue(t *testing.T) {
	for _, c := range []struct{ name, queues, want string }{
		{"the only one", `[{key: linux}]`, "linux"},
		{"the one called default", `[{key: linux}, {key: default}]`, "default"},
		{"the marked one", `[{key: default}, {key: linux, default: true}]`, "linux"},
		{"none of several", `[{key: linux}, {key: mac}]`, ""},
		{"none that is said not to be", `[{key: default, default: false}]`, ""},
		{"none without queues", `[]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachFixture(t, func(t *testing.T, w *fixture) {
				file := `[{name: Default, queues: ` + c.queues + `}]`
				w.prepare(file)
				if got := w.defaultQueue("Default"); got != c.want {
					t.Errorf("the default queue is %q, want %q", got, c.want)
				}
				w.mustApply(file)
			})
		})
	}
}

func TestApply_LeavesTheDefaultQueueToPeopleAfterTheFirstTime(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		file := `[{name: Default, queues: [{key: default}]}]`
		w.prepare(file)
		c := w.cluster("Default")
		c.DefaultQueueID = ""
		w.write(func(q *db.Q) error { return updateCluster(q, c) })
		w.mustApply(file)
		if got := w.defaultQueue("Default"); got != "" {
			t.Errorf("the default queue is %q again", got)
		}
		w.mustApply(`[{name: Default, queues: [{key: linux}]}]`, "created queue acme/Default/linux")
		if got := w.defaultQueue("Default"); got != "" {
			t.Errorf("the second queue is the default one: %q", got)
		}
	})
}

func TestApply_MovesTheMarkOfTheDefaultCluster(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		marked := func() string {
			var c Cluster
			err := w.db.Read(t.Context(), func(q *db.Q) (err error) {
				c, err = Default(q, w.acme.ID)
				return err
			})
			if err != nil && core.KindOf(err) != core.NotFound {
				t.Fatal(err)
			}
			return c.Name
		}
		w.mustApply(`[{name: A}, {name: B}]`, "created cluster acme/A", "created cluster acme/B")
		if got := marked(); got != "" {
			t.Fatalf("%s is the default cluster, and none is marked", got)
		}
		w.mustApply(`[{name: A, default: true}]`, "changed cluster acme/A")
		w.mustApply(`[{name: B, default: true}]`, "changed cluster acme/A", "changed cluster acme/B")
		w.mustApply(`[{name: A}, {name: B, default: true}]`)
		w.mustApply(`[{name: C, default: true}]`, "created cluster acme/C", "changed cluster acme/B")
		if got := marked(); got != "C" {
			t.Fatalf("the default cluster is %q, want C", got)
		}
		w.mustApply(`[{name: C, default: false}, {name: A, default: true}]`, "changed cluster acme/C", "changed cluster acme/A")
		w.mustApply(`[{name: A, default: false}]`, "changed cluster acme/A")
		if got := marked(); got != "" {
			t.Fatalf("the default cluster is %q, want none", got)
		}
	})
}

func TestApply_KeepsTheShapeThatAQueueOfThePlatformHas(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		file := `[{name: Default, queues: [{key: hosted, hosted: {platform: linux}}]}]`
		w.prepare(file)
		queue := w.queue("Default", "hosted")
		queue.Hosted = &HostedAgents{Shape: "LINUX_ARM64_16X64", ImageRef: "ubuntu:24.04"}
		w.write(func(q *db.Q) error { return updateQueue(q, queue) })
		w.mustApply(file)
		if got := w.queue("Default", "hosted").Hosted; *got != *queue.Hosted {
			t.Errorf("the queue's agents are %+v", got)
		}
		w.mustApply(`[{name: Default, queues: [{key: hosted, hosted: {platform: macos}}]}]`, "changed queue acme/Default/hosted")
	})
}

func TestApply_RefusesIdsAndTokensThatAreTaken(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		w.prepare(acmeClusters)
		const other = "0190c0de-0000-7000-8000-00000000ffff"
		for _, c := range []struct{ file, want string }{
			{`[{name: Default, id: ` + other + `}]`, `the cluster "Default" exists with the id 0190c0de-0000-7000-8000-0000000000c1, which cannot be changed`},
			{`[{name: New, id: 0190c0de-0000-7000-8000-0000000000c1}]`, `the id 0190c0de-0000-7000-8000-0000000000c1 belongs to another cluster`},
			{`[{name: Default, queues: [{key: default, id: ` + other + `}]}]`, `the queue default exists with the id 0190c0de-0000-7000-8000-0000000000d1, which cannot be changed`},
			{`[{name: Default, queues: [{key: new, id: 0190c0de-0000-7000-8000-0000000000d1}]}]`, `the id 0190c0de-0000-7000-8000-0000000000d1 belongs to another queue`},
			{`[{name: Default, agent_tokens: [{description: boot, id: ` + other + `}]}]`, `the agent token "boot" exists with the id 0190c0de-0000-7000-8000-0000000000f1, which cannot be changed`},
			{`[{name: Default, agent_tokens: [{description: new, id: 0190c0de-0000-7000-8000-0000000000f1}]}]`, `the id 0190c0de-0000-7000-8000-0000000000f1 belongs to another agent token`},
			{`[{name: Hosted, agent_tokens: [{description: new, token: svcct_acme-boot}]}]`, `this token already belongs to another cluster`},
		} {
			if _, complaints := w.apply(w.acme, c.file); complaints != c.want {
				t.Errorf("%s: %q, want %q", c.file, complaints, c.want)
			}
		}
		if _, complaints := w.apply(w.rival, acmeClusters); complaints != "the id 0190c0de-0000-7000-8000-0000000000c1 belongs to another cluster" {
			t.Errorf("another organization can take the ids: %q", complaints)
		}
		w.mustApply(acmeClusters)
	})
}

func TestApply_LetsEveryOrganizationHaveItsOwn(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		file := `[{name: Default, default: true, queues: [{key: default}], agent_tokens: [{description: boot, token: svcct_%s}]}]`
		for _, org := range []*identity.Organization{w.acme, w.rival} {
			lines, complaints := w.apply(org, fmt.Sprintf(file, org.Slug))
			if complaints != "" || len(lines) != 3 || lines[0] != "created cluster "+org.Slug+"/Default" {
				t.Errorf("%s: %q, %s", org.Slug, lines, complaints)
			}
		}
		c := w.cluster("Default")
		err := w.db.Read(t.Context(), func(q *db.Q) error {
			_, err := ByID(q, w.rival.ID, c.ID)
			return err
		})
		if core.KindOf(err) != core.NotFound {
			t.Errorf("rival finds acme's cluster: %v", err)
		}
	})
}

func TestApply_HoldsAClusterToItsNumberOfQueues(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		var queues []string
		for i := range maxQueues + 1 {
			queues = append(queues, fmt.Sprintf("{key: q%d}", i))
		}
		_, complaints := w.apply(w.acme, `[{name: Default, queues: [`+strings.Join(queues, ", ")+`]}]`)
		if complaints != "a cluster can have at most 50 queues" {
			t.Errorf("complaints: %q", complaints)
		}
	})
}

func TestCheck_ComplainsAboutEverythingThatIsWrong(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{`[{}]`, "a cluster needs a name of 1 to 255 characters"},
		{`[{name: A, id: x}]`, `"x" is not a UUID`},
		{`[{name: A}, {name: A}]`, `the cluster "A" is already given at line 0`},
		{`[{name: A, default: true}, {name: B, default: true}]`, "an organization has at most one default cluster"},
		{`[{name: A, queues: [{key: "~"}]}]`, "the key of a queue cannot be ~, which stands for the default queue of a cluster"},
		{`[{name: A, queues: [{}]}]`, "the key of a queue is required"},
		{`[{name: A, queues: [{key: a, id: x}]}]`, `"x" is not a UUID`},
		{`[{name: A, queues: [{key: a}, {key: a}]}]`, `the queue "a" is already given at line 0`},
		{`[{name: A, queues: [{key: a, default: true}, {key: b, default: true}]}]`, "a cluster has at most one default queue"},
		{`[{name: A, queues: [{key: a, hosted: {platform: beos}}]}]`, `"beos" is not a platform of hosted agents; the platforms are linux, macos`},
		{`[{name: A, queues: [{key: a, hosted: {}}]}]`, `"" is not a platform of hosted agents; the platforms are linux, macos`},
		{`[{name: A, agent_tokens: [{}]}]`, "an agent token needs a description of 1 to 255 characters"},
		{`[{name: A, agent_tokens: [{description: a, id: x}]}]`, `"x" is not a UUID`},
		{`[{name: A, agent_tokens: [{description: a, token: "a b"}]}]`, "a token must have at most 255 characters and no spaces"},
		{`[{name: A, agent_tokens: [{description: a}, {description: a}]}]`, `the agent token "a" is already given at line 0`},
		{`[{name: A, agent_tokens: [{description: a, allowed_ip_addresses: [home]}]}]`, `"home" is not an address block such as 10.1.0.0/16`},
		{`[{name: A, agent_tokens: [{description: a, allowed_ip_addresses: [` + strings.Repeat("10.0.0.1,", 25) + `]}]}]`, "an agent token can be bound to at most 24 address blocks"},
	} {
		var specs []Spec
		if err := yaml.Unmarshal([]byte(c.file), &specs); err != nil {
			t.Fatal(err)
		}
		var complaints core.Complaints
		if Check(&complaints, specs); sentences(complaints) != c.want {
			t.Errorf("%s: %q, want %q", c.file, sentences(complaints), c.want)
		}
	}
}
