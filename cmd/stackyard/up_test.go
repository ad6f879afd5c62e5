package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// up starts the demo and returns its output after the ready line.
func up(t *testing.T, installation ...string) (*process, string) {
	t.Helper()
	p := start(t, append([]string{"up", "--listen", "127.0.0.1:0"}, installation...)...)
	var output strings.Builder
	for {
		line := p.line(t)
		output.WriteString(line + "\n")
		if strings.HasPrefix(line, "API reference") {
			break
		}
	}
	return p, output.String()
}

// secrets returns the generated values of a welcome text, by name.
func secrets(welcome string) map[string]string {
	found := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^  (Email|Password|Access token|Agent token): +(\S+)$`).FindAllStringSubmatch(welcome, -1) {
		found[m[1]] = m[2]
	}
	return found
}

func TestUp_KeepsItsWelcomeForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	p, output := up(t, "--data", folder)
	path := filepath.Join(folder, "welcome.txt")
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(kept)) != strings.TrimSpace(output) {
		t.Errorf("it output\n%s\nand kept\n%s", output, kept)
	}
	if file, err := os.Stat(path); err != nil || file.Mode() != 0o600 {
		t.Errorf("welcome.txt: %v, %v", file.Mode(), err)
	}
	if !strings.Contains(output, p.URL) {
		t.Errorf("it does not say where it is:\n%s", output)
	}
	s := secrets(output)
	p.get(t, s["Access token"], "/v2/organizations/demo/pipelines/hello")
	p.get(t, s["Agent token"], "/v3/token")
}

func TestUp_SignsInWithItsLink(t *testing.T) {
	t.Parallel()
	p, output := up(t, "--data", filepath.Join(t.TempDir(), "data"))
	link := regexp.MustCompile(`(?m)^  (http\S+/login/link/\S+)$`).FindStringSubmatch(output)
	if link == nil || len(link[1]) > len(p.URL)+30 {
		t.Fatalf("there is no short link in\n%s", output)
	}
	jar, _ := cookiejar.New(nil)
	resp, err := (&http.Client{Jar: jar}).PostForm(link[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "message") && !strings.Contains(string(page), "Sign out") {
		t.Errorf("%s %s", resp.Status, page)
	}
	if len(jar.Cookies(resp.Request.URL)) == 0 {
		t.Error("there is no session")
	}
	if log, err := os.ReadFile(p.log); err != nil || strings.Contains(string(log), `"msg":"request"`) {
		t.Errorf("it logs requests: %v\n%s", err, log)
	}
}

func TestUp_StartsAgainWithTheSameTokensAndWhatPeopleChanged(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		p, first := up(t, installation...)
		token := secrets(first)["Access token"]
		const hello = "/v2/organizations/demo/pipelines/hello"
		p.ask(t, token, "PATCH", hello, `{"description": "Mine now", "configuration": "steps: [{command: make}]"}`).want(t, 200)
		p.stop(t)

		p, second := up(t, installation...)
		if before, after := fmt.Sprint(secrets(first)), fmt.Sprint(secrets(second)); before != after {
			t.Errorf("first it output %s, then %s", before, after)
		}
		if !strings.Contains(second, p.URL) {
			t.Errorf("it does not say where it is now:\n%s", second)
		}
		pipeline := decode[struct{ Description, Configuration string }](t, p.get(t, token, hello))
		if pipeline.Description != "Mine now" || !strings.Contains(pipeline.Configuration, "make") {
			t.Errorf("the pipeline is %+v", pipeline)
		}
	})
}

func TestUp_CreatesNewTokensWhenItsWelcomeIsDeleted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p, first := up(t, "--data", folder)
	p.stop(t)
	if err := os.Remove(filepath.Join(folder, "welcome.txt")); err != nil {
		t.Fatal(err)
	}
	p, second := up(t, "--data", folder)
	p.get(t, secrets(second)["Access token"], "/v2/user")
	p.ask(t, secrets(first)["Access token"], "GET", "/v2/user", "").want(t, 401)
}

func TestUp_RunsAFirstBuild(t *testing.T) {
	t.Parallel()
	p, output := up(t, "--data", t.TempDir())
	eventually(t, waitLimit, "the first build passes", func() bool {
		var b struct{ State string }
		first := p.ask(t, secrets(output)["Access token"], "GET", "/v2/organizations/demo/pipelines/hello/builds/1", "")
		return json.Unmarshal(first.Body, &b) == nil && b.State == "passed"
	})
}

func TestUp_SkipsJobsWithOtherAgentRules(t *testing.T) {
	t.Parallel()
	p, output := up(t, "--data", t.TempDir())
	token := secrets(output)["Access token"]
	const hello = "/v2/organizations/demo/pipelines/hello"
	p.ask(t, token, "PATCH", hello, `{"configuration": "env: {SERVICE_SKIP_CHECKOUT: \"true\"}\nsteps: [{command: echo never, agents: {gpu: \"yes\"}}, {command: echo anywhere}]"}`).want(t, 200)
	build := decode[struct{ Number int }](t, p.ask(t, token, "POST", hello+"/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, 201))
	wantPicky(t, func() []map[string]any {
		return decode[struct{ Jobs []map[string]any }](t, p.get(t, token, fmt.Sprintf("%s/builds/%d", hello, build.Number))).Jobs
	}, func(rules string) bool { return !strings.Contains(rules, "gpu") })
}

func TestUp_ReachesItselfWhereverItsPublicURLLeads(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	for name, flags := range map[string][]string{
		"without TLS":                   nil,
		"with an untrusted certificate": {"--tls-cert", write(t, certificate), "--tls-key", write(t, key)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const public = "https://ci.nowhere.invalid/stackyard"
			p, output := up(t, append(flags, "--data", t.TempDir(), "--public-url", public)...)
			if !strings.Contains(output, "running at "+public) || strings.Contains(output, p.URL) {
				t.Errorf("printed\n%s", output)
			}
			token := secrets(output)["Access token"]
			const hello = "/v2/organizations/demo/pipelines/hello"
			const configuration = `{"configuration": "env: {SERVICE_SKIP_CHECKOUT: \"true\"}\nsteps:\n  - {key: make, command: echo hi > made.txt, artifact_paths: made.txt}\n  - {depends_on: make, command: stackyard agent artifact download made.txt . --step make && grep hi made.txt}"}`
			p.ask(t, token, "PATCH", hello, configuration).want(t, 200)
			made := decode[struct{ Number int }](t, p.ask(t, token, "POST", hello+"/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, 201))
			eventually(t, waitLimit, "the build passes", func() bool {
				b := decode[struct {
					State  string
					WebURL string `json:"web_url"`
				}](t, p.get(t, token, fmt.Sprintf("%s/builds/%d", hello, made.Number)))
				if b.State == "failed" || !strings.HasPrefix(b.WebURL, public) {
					t.Fatalf("the build is %+v", b)
				}
				return b.State == "passed"
			})
			p.stop(t)
		})
	}
}

func TestUp_ShowsCurlLinesThatWorkWhenPasted(t *testing.T) {
	t.Parallel()
	_, output := up(t, "--data", t.TempDir())
	var got []string
	for _, pasted := range regexp.MustCompile(`(?m)^  curl (.*\\\n)*.*$`).FindAllString(output, -1) {
		shell := exec.Command("sh", "-c", `command -v curl >/dev/null || curl() { curl-stand-in "$@"; }`+"\n"+pasted)
		shell.Stderr = t.Output()
		output, err := shell.Output()
		if err != nil {
			t.Fatalf("%s\n%v", pasted, err)
		}
		got = append(got, slugsOrNames(t, output))
	}
	if want := "Another build,my-pipeline,hello,my-pipeline,Another build,The first build"; strings.Join(got, ",") != want {
		t.Errorf("the lines show %q, want %s\n%s", got, want, output)
	}
}

// slugsOrNames returns the names of the objects in a JSON text.
func slugsOrNames(t *testing.T, text []byte) string {
	t.Helper()
	type thing struct{ Slug, Name, Message string }
	var things []thing
	if json.Unmarshal(text, &things) != nil {
		var one thing
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		things = append(things, one)
	}
	var names []string
	for _, one := range things {
		if one.Slug == "" {
			one.Slug = one.Name + one.Message
		}
		names = append(names, one.Slug)
	}
	return strings.Join(names, ",")
}

// curl implements the options of curl that the welcome text uses.
func curl() {
	if err := request(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func request(args []string) error {
	flags := flag.NewFlagSet("curl", flag.ExitOnError)
	header := make(http.Header)
	flags.Func("H", "a header", func(text string) error {
		name, value, _ := strings.Cut(text, ":")
		header.Set(name, strings.TrimSpace(value))
		return nil
	})
	body := flags.String("d", "", "a body to post")
	flags.Parse(args)
	url := flags.Arg(0)
	flags.Parse(flags.Args()[1:]) // flags may follow the URL
	method := http.MethodGet
	if *body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url, strings.NewReader(*body))
	if err != nil {
		return err
	}
	req.Header = header
	answer, err := send(http.DefaultClient, req)
	os.Stdout.Write(answer.Body)
	return err
}
