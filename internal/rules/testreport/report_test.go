package testreport_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/testreport"
)

// read parses a body that is not compressed and has no parameters.
func read(contentType, body string) (*testreport.Report, error) {
	return testreport.Read(contentType, false, nil, strings.NewReader(body))
}

const collected = `{
	"format": "json",
	"run_env": {"ci": "buildkite", "key": "k-1", "number": 7, "branch": "main", "commit_sha": "abc", "message": "Fix", "url": "https://ci.test/7", "job_id": "j", "collector": "js", "debug": null},
	"tags": {"os": "linux"},
	"data": [
		{"id": "a", "scope": "Cart", "name": "adds", "location": "cart.js:3", "file_name": "cart.js", "result": "passed",
		 "history": {"section": "top", "start_at": 1.5, "end_at": 2.0, "duration": 0.25, "children": [
			{"section": "sql", "duration": 0.1, "detail": {"query": "SELECT"}}, {"section": "sql", "start_at": 1, "end_at": 1.05}, {"section": "http", "duration": 0.01, "children": [{"section": "http", "duration": 9}]}]}},
		{"id": 5, "scope": null, "name": "removes", "result": "failed", "failure_reason": "boom",
		 "failure_expanded": [{"expanded": ["want 1", "got 2"], "backtrace": ["cart.js:9"]}], "history": {"start_at": 1, "end_at": 3}},
		{"name": "waits", "result": "pending", "tags": {"os": "mac", "cores": 4, "nested": {}, "none": null}},
		{"name": "nothing"}
	]
}`

func TestRead_TakesWhatCollectorsSend(t *testing.T) {
	r, err := read("application/json", collected)
	if err != nil {
		t.Fatal(err)
	}
	want := testreport.Run{Key: "k-1", Number: "7", Branch: "main", CommitSHA: "abc", Message: "Fix", URL: "https://ci.test/7", JobID: "j", CI: "buildkite", Collector: "js"}
	if r.Run != want {
		t.Errorf("the run is %+v, want %+v", r.Run, want)
	}
	if len(r.Executions) != 4 || r.Skipped != 0 {
		t.Fatalf("%d executions, %d skipped", len(r.Executions), r.Skipped)
	}
	first, second := r.Executions[0], r.Executions[1]
	if got := fmt.Sprint(r.Tags, r.Tags.With(first.Tags), r.Tags.With(r.Executions[2].Tags)); got != "[{os linux}] [{os linux}] [{cores 4} {os mac}]" {
		t.Errorf("the tags are %s", got)
	}
	if first.Scope != "Cart" || first.Name != "adds" || first.Location != "cart.js:3" || first.File != "cart.js" || first.Result != testreport.Passed || first.Duration != 250*time.Millisecond {
		t.Errorf("the first execution is %+v", first)
	}
	if got := fmt.Sprint(first.Sections); got != "[{sql 2 150ms} {http 1 10ms}]" {
		t.Errorf("the sections are %s", got)
	}
	if second.Scope != "" || second.Result != testreport.Failed || second.FailureReason != "boom" || second.Duration != 2*time.Second ||
		fmt.Sprint(second.Failures) != "[{[want 1 got 2] [cart.js:9]}]" {
		t.Errorf("the second execution is %+v", second)
	}
	if r.Executions[2].Result != testreport.Pending || r.Executions[3].Result != testreport.Unknown {
		t.Errorf("the last executions are %+v", r.Executions[2:])
	}
}

func TestRead_TakesDataBeforeRunEnv(t *testing.T) {
	r, err := read("", `{"data": [{"name": "a", "result": "passed"}], "run_env": {"key": "k"}}`)
	if err != nil || r.Run.Key != "k" || len(r.Executions) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRead_SkipsResultsThatCannotBeUsed(t *testing.T) {
	r, err := read("application/json", `{"run_env": {"key": "k"}, "data": [
		{"name": "good", "result": "passed"}, {"result": "passed"}, {"name": " "}, {"name": "a", "result": "great"}, {"name": 5}, 7, {"name": "b", "history": []}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Executions) != 1 || r.Skipped != 6 {
		t.Fatalf("%d executions, %d skipped: %q", len(r.Executions), r.Skipped, r.Errors)
	}
	for i, want := range []string{"result 2: it has no name", "result 3: it has no name", `result 4: the result must be one of passed, failed, skipped, pending, unknown, not "great"`, "result 5: name has the wrong type", "result 6: it has the wrong type", "result 7: history has the wrong type"} {
		if r.Errors[i] != want {
			t.Errorf("error %d is %q, want %q", i, r.Errors[i], want)
		}
	}
}

func TestRead_KeepsResultsApart(t *testing.T) {
	r, err := read("application/json", `{"run_env": {"key": "k"}, "data": [
		{"id": 1, "scope": "s", "name": "a", "location": "l", "file_name": "f", "result": "failed", "failure_reason": "r", "failure_expanded": [{"expanded": ["e"], "backtrace": ["b"]}],
		 "history": {"start_at": 1, "end_at": 2, "duration": 3, "children": [{"section": "sql", "duration": 4, "children": [{"section": "http", "duration": 5}]}]}},
		{"name": 7, "history": {"children": [{"section": "x"}]}, "rest": [{}]},
		{"name": "b", "failure_expanded": [{}], "history": {"children": [{}, {"section": "io"}]}},
		{"name": "c"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v %q", r.Executions, r.Errors)
	want := "[{Scope:s Name:a Location:l File:f Result:failed Duration:3s FailureReason:r Failures:[{Expanded:[e] Backtrace:[b]}] Sections:[{Name:sql Count:1 Duration:4s} {Name:http Count:1 Duration:5s}] Tags:[] id:1}" +
		" {Scope: Name:b Location: File: Result:unknown Duration:0s FailureReason: Failures:[{Expanded:[] Backtrace:[]}] Sections:[{Name:io Count:1 Duration:0s}] Tags:[] id:}" +
		" {Scope: Name:c Location: File: Result:unknown Duration:0s FailureReason: Failures:[] Sections:[] Tags:[] id:}]" + ` ["result 2: name has the wrong type"]`
	if got != want {
		t.Errorf("the executions are\n%s\nwant\n%s", got, want)
	}
}

func TestRead_ReportsProblems(t *testing.T) {
	many := `[` + strings.Repeat(`{"name":"a"},`, testreport.MaxResults) + `{"name":"a"}]`
	for _, test := range []struct {
		contentType, body string
		kind              core.Kind
		text              string
	}{
		{"application/json", ``, core.BadRequest, "has no data"},
		{"application/json", `{"run_env": {"key": "k"}`, core.BadRequest, "not valid JSON: unexpected end"},
		{"application/json", `{"run_env": {"key": "k"}, "data": [{"name": "a"} {`, core.BadRequest, "not valid JSON"},
		{"application/json", `{"run_env": {"key": "k"}, "data": []} x`, core.BadRequest, "after its end"},
		{"application/json", `"x"`, core.BadRequest, "must be a JSON array"},
		{"application/json", `{"run_env": [], "data": []}`, core.Unprocessable, "run_env must be an object"},
		{"application/json", `{"run_env": {"key": "k"}, "data": {}}`, core.Unprocessable, "data must be an array"},
		{"application/json", `{"data": []}`, core.Unprocessable, "run_env.key is required"},
		{"application/json", `{"run_env": {"key": "` + strings.Repeat("k", 300) + `"}, "data": []}`, core.Unprocessable, "at most 255 bytes"},
		{"application/json", `{"format": "xml", "run_env": {"key": "k"}, "data": []}`, core.Unprocessable, "json or junit"},
		{"application/json", `{"format": "junit", "run_env": {"key": "k"}, "data": []}`, core.Unprocessable, "The format is junit, but the data is json"},
		{"application/json", `{"run_env": {"key": "k"}, "data": [{}]}`, core.Unprocessable, "None of the 1 results can be used: result 1: it has no name"},
		{"application/json", many, core.Unprocessable, "at most 10000 results"},
		{"application/xml", `<html/>`, core.BadRequest, "not a JUnit report"},
		{"application/xml", `<testsuite><testcase name="a">`, core.BadRequest, "not valid XML"},
		{"application/xml", `<?xml version="1.0" encoding="utf-16"?><testsuite/>`, core.BadRequest, "encoding"},
		{"application/xml", `<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>`, core.BadRequest, "not valid XML"},
		{"application/xml", strings.Repeat(`<testsuite>`, 200), core.BadRequest, "more than 100 elements"},
		{"application/xml", `<testsuite><testcase name="a"><failure>` + strings.Repeat(`<x>`, 200), core.BadRequest, "more than 100 elements"},
		{"multipart/form-data", `x`, core.BadRequest, "no boundary"},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"format\"\r\n\r\njson\r\n--b--\r\n", core.BadRequest, "no file called data"},
		{"multipart/form-data; boundary=b", "--b\r\nContent", core.BadRequest, "cannot be read"},
		{"a/b/c;;", `{}`, core.BadRequest, "Content-Type"},
	} {
		_, err := read(test.contentType, test.body)
		if core.KindOf(err) != test.kind || !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%.60q: error %v, want %q", test.body, err, test.text)
		}
	}
}

const junit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="CartTest" file="cart_test.rb" tests="4">
    <properties><property name="a" value="b"/></properties>
    <testcase classname="Cart" name="adds" time="1,200.5" line="12"/>
    <testcase name="removes" time="0.5" file="other.rb">
      <failure message="want 1" type="AssertionError">want 1
got 2</failure>
      <system-out>noise</system-out>
    </testcase>
    <testcase classname="Cart" name="waits"><skipped/></testcase>
    <testsuite name="Nested"><testcase name="inner" time="x"><error type="NameError"/></testcase></testsuite>
    <testcase classname="Cart" name="flaky"><flakyFailure message="first try">no</flakyFailure></testcase>
  </testsuite>
</testsuites>`

func TestRead_TakesJUnit(t *testing.T) {
	r, err := testreport.Read("text/xml", false, url.Values{"run_env[key]": {"k"}, "format": {"junit"}}, strings.NewReader(junit))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range r.Executions {
		got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%v", e.Scope, e.Name, e.Location, e.File, e.Result, e.Duration, e.FailureReason, e.Failures))
	}
	want := []string{
		"Cart|adds|cart_test.rb:12|cart_test.rb|passed|20m0.5s||[]",
		"CartTest|removes|other.rb|other.rb|failed|500ms|want 1|[{[want 1 got 2] []}]",
		"Cart|waits|cart_test.rb|cart_test.rb|skipped|0s||[]",
		"Nested|inner|||failed|0s|NameError|[{[] []}]",
		"Cart|flaky|cart_test.rb|cart_test.rb|failed|0s|first try|[{[no] []}]",
		"Cart|flaky|cart_test.rb|cart_test.rb|passed|0s||[]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the executions are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRead_TakesLatin1(t *testing.T) {
	r, err := testreport.Read("text/xml", false, url.Values{"run_env[key]": {"k"}}, strings.NewReader("<?xml version='1.0' encoding='ISO-8859-1'?><testsuite><testcase name='caf\xe9'/></testsuite>"))
	if err != nil || r.Executions[0].Name != "café" {
		t.Errorf("%+v, %v", r, err)
	}
}

// form returns a form with a file and fields, in this order.
func form(t testing.TB, file []byte, fields ...[2]string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("data", "results")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(file)
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func zipped(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(text)
	w.Close()
	return b.Bytes()
}

func TestRead_TakesForms(t *testing.T) {
	list := []byte(`[{"name": "a", "result": "passed"}]`)
	for name, file := range map[string][]byte{"JSON": list, "JUnit": []byte(junit), "compressed": zipped(list)} {
		format := "json"
		if name == "JUnit" {
			format = "junit"
		}
		contentType, body := form(t, file, [2]string{"format", format}, [2]string{"run_env[CI]", "buildkite"}, [2]string{"run_env[key]", "k"}, [2]string{"run_env[commit_sha]", "c"}, [2]string{"tags[os]", "linux"})
		r, err := testreport.Read(contentType, false, nil, bytes.NewReader(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Run.Key != "k" || r.Run.CI != "buildkite" || r.Run.CommitSHA != "c" || len(r.Executions) == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	contentType, body := form(t, list, [2]string{"format", "junit"}, [2]string{"run_env[key]", "k"})
	if _, err := testreport.Read(contentType, false, nil, bytes.NewReader(body)); !strings.Contains(fmt.Sprint(err), "but the data is json") {
		t.Errorf("a wrong format: %v", err)
	}
}

func TestRead_BoundsWhatIsDecompressed(t *testing.T) {
	bomb := zipped(bytes.Repeat([]byte(" "), 65<<20))
	if _, err := testreport.Read("application/json", true, nil, bytes.NewReader(bomb)); core.KindOf(err) != core.TooLarge {
		t.Errorf("a compressed body: %v", err)
	}
	contentType, body := form(t, bomb)
	if _, err := testreport.Read(contentType, false, nil, bytes.NewReader(body)); core.KindOf(err) != core.TooLarge {
		t.Errorf("a compressed file: %v", err)
	}
	if _, err := testreport.Read("application/json", true, nil, strings.NewReader("{}")); core.KindOf(err) != core.BadRequest {
		t.Errorf("not compressed: %v", err)
	}
}

func TestDigest_IsTheSameForTheSameResults(t *testing.T) {
	body := func(job, id, result string) string {
		return fmt.Sprintf(`{"run_env": {"key": "k", "job_id": %q}, "data": [{"id": %q, "name": "a", "result": %q}]}`, job, id, result)
	}
	digest := func(body string) string {
		r, err := read("application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest()
	}
	first := digest(body("j", "1", "passed"))
	if digest(strings.ReplaceAll(body("j", "1", "passed"), " ", "  ")) != first {
		t.Error("the digest depends on the encoding")
	}
	for _, other := range []string{body("k", "1", "passed"), body("j", "2", "passed"), body("j", "1", "failed")} {
		if digest(other) == first {
			t.Errorf("the digest of %s is the same", other)
		}
	}
}

// checkReport fails when a report holds what databases cannot keep.
func checkReport(t *testing.T, r *testreport.Report) {
	t.Helper()
	if len(r.Executions)+r.Skipped > testreport.MaxResults {
		t.Errorf("%d results", len(r.Executions)+r.Skipped)
	}
	for _, e := range r.Executions {
		text, err := json.Marshal(e)
		if err != nil {
			t.Error(err)
		}
		for _, s := range []string{e.Scope, e.Name, e.Location, e.File, e.FailureReason} {
			if strings.ContainsRune(s, 0) {
				t.Errorf("an execution has U+0000: %s", text)
			}
		}
		if e.Name == "" || e.Duration < 0 {
			t.Errorf("an execution without a name, or with a negative duration: %s", text)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(collected)
	f.Add(`[{"name": "a\u0000", "history": {"duration": 1e308, "children": [{"section": "\ud800", "duration": -1}]}}]`)
	f.Add(`{"data": [[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		if r, err := testreport.Read("application/json", false, url.Values{"run_env[key]": {"k"}}, strings.NewReader("["+body+"]")); err == nil {
			checkReport(t, r)
			var results []any
			if json.Unmarshal([]byte("["+body+"]"), &results) == nil && len(results) != len(r.Executions)+r.Skipped {
				t.Errorf("%d results, of which %d are kept and %d skipped", len(results), len(r.Executions), r.Skipped)
			}
		}
		if r, err := read("application/json", body); err == nil {
			checkReport(t, r)
			r.Digest()
		} else if core.KindOf(err) == 0 {
			t.Errorf("an error that is not for people: %v", err)
		}
	})
}

func FuzzJUnit(f *testing.F) {
	f.Add(junit)
	f.Add(`<testsuite><testcase name="&#0;" time="NaN"><rerunFailure/></testcase></testsuite>`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := testreport.Read("text/xml", false, url.Values{"run_env[key]": {"k"}}, strings.NewReader("<"+body))
		if err == nil {
			checkReport(t, r)
		} else if core.KindOf(err) == 0 {
			t.Errorf("an error that is not for people: %v", err)
		}
	})
}

func FuzzForm(f *testing.F) {
	f.Add("b", []byte("--b\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n[{\"name\": \"a\"}]\r\n--b\r\nContent-Disposition: form-data; name=\"run_env[key]\"\r\n\r\nk\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, boundary string, body []byte) {
		r, err := testreport.Read("multipart/form-data; boundary="+boundary, false, nil, bytes.NewReader(body))
		if err == nil {
			checkReport(t, r)
		} else if core.KindOf(err) == 0 {
			t.Errorf("an error that is not for people: %v", err)
		}
	})
}
