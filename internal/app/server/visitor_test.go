package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/route"
)

// visitorFields lists the fields that a visitor sees in responses to GET, by route. All other routes are 404
// for visitors, or do not belong to a pipeline.
var visitorFields = map[string]string{
	"/pipelines/{pipeline}":                            pipelineFields,
	"/pipelines/{pipeline}/builds":                     buildFields + nested("jobs", jobFields) + nested("pipeline", pipelineFields),
	"/pipelines/{pipeline}/builds/{build}":             buildFields + " job_state_counts job_state_counts.states job_state_counts.total" + nested("jobs", jobFields) + nested("pipeline", pipelineFields),
	"/pipelines/{pipeline}/builds/{build}/jobs":        "items links links.next links.prev links.self" + nested("items", jobFields),
	"…/jobs/{job}":                                     jobFields,
	"…/jobs/{job}/log":                                 "content header_times size url",
	"…/jobs/{job}/annotations":                         "",
	"…/jobs/{job}/artifacts":                           artifactFields,
	"…/jobs/{job}/artifacts/{artifact}":                artifactFields,
	"…/jobs/{job}/artifacts/{artifact}/download":       "url",
	"/pipelines/{pipeline}/builds/{build}/artifacts":   artifactFields,
	"/pipelines/{pipeline}/builds/{build}/annotations": "body_html context created_at id job_id priority scope style updated_at",
}

const (
	pipelineFields = "badge_url builds_url graphql_id id name slug url visibility web_url"
	buildFields    = "author author.name blocked branch commit created_at failing_at finished_at graphql_id id jobs message number pipeline scheduled_at started_at state url web_url"
	jobFields      = "artifacts_url build_url created_at exit_status finished_at graphql_id id label log_url name raw_log_url runnable_at scheduled_at soft_failed started_at state type web_url"
	artifactFields = "created_at dirname download_url file_size filename glob_path id job_id mime_type original_path path sha1sum sha256sum state url"
)

// nested returns the names of fields inside another field.
func nested(in, fields string) (all string) {
	for field := range strings.FieldsSeq(fields) {
		all += " " + in + "." + field
	}
	return all
}

// fieldsOf adds the names of all fields of a JSON value to names.
func fieldsOf(v any, prefix string, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			names[prefix+name] = true
			if prefix+name != "job_state_counts.states" {
				fieldsOf(value, prefix+name+".", names)
			}
		}
	case []any:
		for _, item := range v {
			fieldsOf(item, prefix, names)
		}
	}
}

// publish makes hello public, with the text "hidden" in everything that visitors must not see, and a build that
// ran. It returns values for the wildcards of paths.
func publish(t *testing.T, s *servertest.Server) walk {
	t.Helper()
	ada := s.As(t, servertest.Ada)
	const acme = "/v2/organizations/acme"
	ada.Post(acme+"/pipelines", map[string]any{"name": "hidden-child", "cluster_id": servertest.AcmeClusterID, "repository": "/hidden", "configuration": "steps: [{command: hidden}]"}).Want(201)
	ada.Patch(acme+"/pipelines/hello", map[string]any{
		"visibility": "public", "repository": "https://ci:hidden@git.example.test/hidden/hello.git", "description": "hidden", "tags": []string{"hidden"},
		"branch_configuration": "!hidden", "clone_mirror_url": "https://mirror.example.test/hidden.git", "emoji": ":see_no_evil:", "color": "#010203",
		"provider_settings": map[string]any{"filter_condition": "build.message != 'hidden'"},
		"configuration": `
env: {HIDDEN: hidden}
agents: {queue: default}
steps:
  - {label: Test, key: hidden-key, command: hidden-command, env: {HIDDEN: hidden}, artifact_paths: hidden-path, matrix: [hidden-dimension], soft_fail: true}
  - {command: hidden-command, key: unnamed}
  - {group: hidden-group, key: hidden-group-key, steps: [{trigger: hidden-child, async: true, depends_on: []}]}
  - {block: Release, key: ask, prompt: hidden-prompt, fields: [{text: hidden-field, key: hidden}], depends_on: []}
`,
	}).Want(200)
	build := ada.Post(acme+"/pipelines/hello/builds", map[string]any{
		"commit": "HEAD", "branch": "main", "message": "Shown\n\nshown too", "env": map[string]any{"HIDDEN": "hidden"}, "meta_data": map[string]any{"hidden": "hidden"},
		"author": map[string]any{"name": "Shown Author", "username": "hidden", "email": "hidden@acme.test"}, "pull_request_id": 4711, "pull_request_repository": "https://git.example.test/hidden.git",
	}).Want(201)
	job := build.String("jobs.0.id")
	agent := s.Register(t, map[string]any{"name": "hidden-agent"})
	j := agent.Acquire(job).Start()
	j.With("Content-Type", "application/octet-stream").Post(j.Path("/chunks?sequence=1&offset=0&size=6"), "shown\n").Want(200)
	artifact := j.Post(j.Path("/artifacts"), map[string]any{"id": "0190c0de-0000-7000-8000-0000000000f1", "upload_destination": "s3://hidden", "artifacts": []any{map[string]any{
		"path": "shown.txt", "absolute_path": "/hidden/shown.txt", "glob_path": "hidden", "file_size": 1, "sha1sum": strings.Repeat("0", 40), "content_type": "text/plain", "url": "https://files.example.test/shown.txt",
	}}}).Want(200).String("artifact_ids.0")
	j.Put(j.Path("/artifacts"), map[string]any{"artifacts": []any{map[string]any{"id": artifact, "state": "finished"}}}).Want(200)
	j.Finish("1")
	ada.Post(acme+"/pipelines/hello/builds/1/annotations", map[string]any{"body": "Shown"}).Want(201)
	s.Apply("organizations: [{slug: acme, features: {teams: true}}]")
	return walk{"{org}": "acme", "{pipeline}": "hello", "{build}": "1", "{job}": job, "{artifact}": artifact}
}

// wantNothingHidden fails the test if a text contains what visitors must not see.
func wantNothingHidden(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{"hidden", "HIDDEN", "@acme.test", servertest.AcmeClusterID, servertest.AcmeQueueID, "4711", "see_no_evil", "#010203"} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s shows visitors %q: …%s…", what, secret, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}

// This test lists all fields of the REST API that visitors see. Add a new route or field for visitors above.
func TestVisitors_SeeTheseFieldsOverREST(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		at := publish(t, s)
		for who, token := range map[string]string{"a stranger": servertest.Cy, "a member without access": servertest.Bo} {
			client, seen := s.As(t, token), map[string]bool{}
			for _, r := range bearerRoutes(s) {
				if r.Method != http.MethodGet || endless(r) || !ofPipeline(r) {
					continue
				}
				got := client.Get(at.fill(r.Path))
				name := shortPath(r.Path)
				want, visible := visitorFields[name]
				if r.Media != nil && !strings.HasSuffix(r.Path, "/log") || strings.HasSuffix(r.Path, ".txt") && got.Status == 200 {
					continue // logs as text
				}
				if !visible {
					if got.Status != http.StatusNotFound && got.Status != http.StatusForbidden {
						t.Errorf("%s gets %d for %s, want 404", who, got.Status, r.Path)
					}
					continue
				}
				seen[name] = true
				if got.Status != http.StatusOK && got.Status != http.StatusFound {
					t.Errorf("%s gets %d for %s: %s", who, got.Status, r.Path, got.Body)
					continue
				}
				var body any
				if err := json.Unmarshal(got.Body, &body); err != nil {
					t.Fatal(err)
				}
				names := map[string]bool{}
				fieldsOf(body, "", names)
				expected := strings.Fields(want)
				slices.Sort(expected)
				if fields := strings.Join(slices.Sorted(maps.Keys(names)), " "); fields != strings.Join(expected, " ") {
					t.Errorf("%s sees on %s\n%s\nwant\n%s", who, r.Path, fields, strings.Join(expected, " "))
				}
				wantNothingHidden(t, r.Path, string(got.Body))
			}
			if len(seen) != len(visitorFields) {
				t.Errorf("%s sees %d routes, want %d", who, len(seen), len(visitorFields))
			}
			for _, filter := range []string{"meta_data[hidden]=hidden", "creator=Ada", "creator=" + servertest.AdaID} {
				if got := client.Get("/v2/organizations/acme/pipelines/hello/builds?" + filter).Want(200); got.Len("") != 0 {
					t.Errorf("%s finds builds by %s", who, filter)
				}
			}
			for _, filter := range []string{"step_key=hidden-key", "group_key=hidden-group-key"} {
				if got := client.Get("/v2/organizations/acme/pipelines/hello/builds/1/jobs?" + filter).Want(200); got.Len("items") != 0 {
					t.Errorf("%s finds jobs by %s", who, filter)
				}
			}
		}
		// Lists of an organization also show public pipelines to a member.
		bo := s.As(t, servertest.Bo)
		for path, found := range map[string]int{
			"/pipelines": 1, "/pipelines?repository=hidden": 0, "/builds": 1, "/builds?creator=Ada": 0, "/builds?" + url.Values{"meta_data[hidden]": {"hidden"}}.Encode(): 0,
		} {
			got := bo.Get("/v2/organizations/acme" + path).Want(200)
			wantNothingHidden(t, path, string(got.Body))
			if got.Len("") != found {
				t.Errorf("a member without access finds %d at %s, want %d", got.Len(""), path, found)
			}
		}
		wantNothingHidden(t, "/v2/builds", string(bo.Get("/v2/builds").Want(200).Body))
	})
}

// ofPipeline reports whether a route belongs to a pipeline.
func ofPipeline(r route.Route) bool {
	return strings.Contains(r.Path, "{pipeline}") || strings.Contains(r.Path, "{job}")
}

// shortPath returns a path below the organization, the same for both forms of a job's path.
func shortPath(path string) string {
	path = strings.TrimPrefix(path, "/v2/organizations/{org}")
	if i := strings.Index(path, "/jobs/{job}"); i >= 0 {
		return "…" + path[i:]
	}
	return path
}

func TestVisitors_SeeNothingHiddenOnPages(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		at := publish(t, s)
		const build = "/acme/hello/builds/1"
		for path, shown := range map[string]string{
			"/acme": "Hello", "/acme/hello": "Shown", build: "Shown Author", build + "?job=" + at["{job}"]: "shown",
			build + "/jobs/" + at["{job}"] + "/log.html": "shown", build + "/jobs/" + at["{job}"] + "/log.txt": "shown",
		} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "text/html")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), shown) {
				t.Errorf("%s: status %d, %v, without %q", path, resp.StatusCode, err, shown)
			}
			// Pages also hide elements with an attribute of that name.
			text := strings.NewReplacer(` hidden>`, ">", ` aria-hidden=`, "", ` data-earlier hidden`, "").Replace(string(body))
			wantNothingHidden(t, fmt.Sprintf("the page %s", path), text)
		}
	})
}
