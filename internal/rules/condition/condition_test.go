package condition

import (
	"errors"
	"strings"
	"testing"
)

func pointer[T any](v T) *T { return &v }

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// pullRequest is the context of a build for a draft pull request from a fork.
func pullRequest() *Context {
	return &Context{
		Build: Build{
			ID: "b1", Number: 42, Branch: "feature/x", Commit: "abc123", Message: pointer("Fix it\n[Skip Tests]"),
			Source: "webhook", SourceEvent: pointer("pull_request"), SourceAction: pointer("labeled"), State: "running",
			Author:  &Person{ID: "u1", Name: "Ada", Email: "ada@example.test", Teams: []string{"core"}},
			Creator: &Person{ID: "u2", Name: "Bo", Email: "bo@example.test", Teams: []string{"deploy", "web"}},
			PullRequest: &PullRequest{
				ID: "7", BaseBranch: "main", Draft: pointer(true), Labels: []string{"ci: full", "docs"}, Label: pointer("docs"),
				Repository: "git://fork.test/x.git", Fork: pointer(true),
			},
		},
		Pipeline:     Pipeline{ID: "p1", Slug: "web", DefaultBranch: "main", Repository: "git://host.test/x.git"},
		Organization: Organization{ID: "o1", Slug: "acme"},
		Env: func(name string) (string, bool) {
			value, ok := map[string]string{"DEPLOY": "yes", "EMPTY": ""}[name]
			return value, ok
		},
	}
}

// tag is the context of a build for a tag, without optional values.
func tag() *Context {
	return &Context{
		Build:    Build{ID: "b2", Number: 43, Branch: "v1.0", Commit: "HEAD", Tag: pointer("v1.0"), Source: "api", State: "scheduled"},
		Pipeline: Pipeline{Slug: "web"},
	}
}

func TestCondition_HoldsOrNot(t *testing.T) {
	for _, c := range []struct {
		condition string
		want      bool
		context   *Context
	}{
		{`true`, true, tag()},
		{`false`, false, tag()},
		{`null`, false, tag()},

		{`build.branch == "feature/x"`, true, pullRequest()},
		{`build.branch == 'main' || build.branch == 'feature/x'`, true, pullRequest()},
		{`build.branch != "main"`, true, pullRequest()},
		{`build.number == 42`, true, pullRequest()},
		{`build.number != 0042`, false, pullRequest()},
		{`build.id == "b1" && build.commit == "abc123" && build.source == "webhook" && build.state == "running"`, true, pullRequest()},
		{`build.source_event == "pull_request" && build.source_action == "labeled"`, true, pullRequest()},
		{`pipeline.id == "p1" && pipeline.slug == "web" && pipeline.default_branch == build.pull_request.base_branch`, true, pullRequest()},
		{`pipeline.repository != build.pull_request.repository`, true, pullRequest()},
		{`organization.id == "o1" && organization.slug == "acme"`, true, pullRequest()},
		{`build.author.id == "u1" && build.author.name == "Ada" && build.author.email =~ /@example\.test$/`, true, pullRequest()},
		{`build.creator.id == "u2" && build.creator.name == "Bo" && build.creator.email == "bo@example.test"`, true, pullRequest()},

		{`build.branch =~ /^feature\//`, true, pullRequest()},
		{`build.branch !~ /^feature\//`, false, pullRequest()},
		{`build.message =~ /\[skip tests\]/`, false, pullRequest()},
		{`build.message =~ /\[skip tests\]/i`, true, pullRequest()},
		{`build.tag =~ /^v[0-9]+\.0$/`, true, tag()},
		{`build.tag =~ /^v[0-9]+\.0$$/`, true, tag()},

		{`build.creator.teams includes "deploy"`, true, pullRequest()},
		{`build.author.teams includes 'deploy'`, false, pullRequest()},
		{`build.pull_request.labels includes "ci: full"`, true, pullRequest()},
		{`build.pull_request.labels includes build.pull_request.label`, true, pullRequest()},
		{`build.pull_request.labels includes /^CI:/i`, true, pullRequest()},
		{`["main", 'feature/x'] includes build.branch`, true, pullRequest()},
		{`[] includes build.branch`, false, pullRequest()},
		{`build.author.teams == ["core"]`, true, pullRequest()},

		{`build.pull_request.draft`, true, pullRequest()},
		{`!build.pull_request.draft`, false, pullRequest()},
		{`build.pull_request.repository.fork == true`, true, pullRequest()},
		{`build.pull_request.id != null`, true, pullRequest()},

		{`build.env("DEPLOY") == "yes"`, true, pullRequest()},
		{`build.env("EMPTY") == ""`, true, pullRequest()},
		{`build.env("EMPTY") == null`, false, pullRequest()},
		{`build.env('ABSENT') == null`, true, pullRequest()},
		{`build.env("ANY") == null`, true, tag()},

		{`"a\"b\\c\n\t\q" == 'a"b\c` + "\n\tq'", true, tag()},
		{`'it\'s \d' == "it's \\d"`, true, tag()},
		{`"é" == 'é'`, true, tag()},
	} {
		condition, err := Parse(c.condition)
		if err != nil {
			t.Errorf("%s: %v", c.condition, err)
			continue
		}
		if got := condition.Eval(c.context); got != c.want {
			t.Errorf("%s: got %v", c.condition, got)
		}
	}
}

func TestCondition_DefinesNull(t *testing.T) {
	for condition, want := range map[string]bool{
		`build.message == null`:                    true,
		`null == build.message`:                    true,
		`build.message != null`:                    false,
		`build.message == ""`:                      false,
		`build.message != ""`:                      true,
		`build.message == build.source_event`:      true,
		`build.message =~ /.*/`:                    false,
		`build.message !~ /.*/`:                    true,
		`null =~ /.*/`:                             false,
		`build.pull_request.labels == null`:        true,
		`build.pull_request.labels includes "a"`:   false,
		`["a"] includes build.message`:             false,
		`["a"] includes null`:                      false,
		`build.pull_request.draft`:                 false,
		`!build.pull_request.draft`:                true,
		`build.pull_request.draft == false`:        false,
		`build.pull_request.draft || true`:         true,
		`build.pull_request.draft && true`:         false,
		`build.author.email == null`:               true,
		`build.creator.teams includes "deploy"`:    false,
		`build.merge_queue.base_branch == null`:    true,
		`build.merge_queue.base_commit =~ /^abc/`:  false,
		`build.pull_request.repository.fork`:       false,
		`build.branch == null`:                     false,
		`build.number != null`:                     true,
		`(build.tag != null) == true`:              true,
		`build.tag == null || build.tag =~ /^v\d/`: true,
	} {
		c, err := Parse(condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		equal(t, condition, c.Eval(tag()), want)
	}
}

func TestCondition_BindsOperatorsAsInC(t *testing.T) {
	for condition, want := range map[string]bool{
		`true || false && false`:            true,
		`(true || false) && false`:          false,
		`!false && false`:                   false,
		`!(false && false)`:                 true,
		`!!true`:                            true,
		`!false == true`:                    true,
		`1 == 1 == true`:                    true,
		`"a" == "b" == false`:               true,
		`"a" != "b" && "a" =~ /a/`:          true,
		`["a"] includes "a" && !false`:      true,
		`false && true || true`:             true,
		"// why\ntrue // yes\n&& true //":   true,
		"build.branch == \"v1.0\" // (\r\n": true,
		` ( ( ( true ) ) ) `:                true,
	} {
		c, err := Parse(condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		equal(t, condition, c.Eval(tag()), want)
	}
}

func TestParse_ReportsErrorsWithTheirPosition(t *testing.T) {
	for _, c := range []struct{ condition, want string }{
		{``, `column 1: the condition is empty; write one such as build.branch == "main"`},
		{"// nothing\n", `column 1: the condition is empty; write one such as build.branch == "main"`},
		{`build.branch`, `column 1: a condition must be true or false; build.branch is text`},
		{`(42)`, `column 1: a condition must be true or false; (42) is a whole number`},
		{`build.branch ==`, `column 16: the condition ends where a value was expected`},
		{`== "main"`, `column 1: a value was expected, found "=="`},
		{`build.branch = "main"`, `column 14: "=" is no operator; compare with "=="`},
		{`true & false`, `column 6: "&" is no operator; "and" is "&&"`},
		{`true | false`, `column 6: "|" is no operator; "or" is "||"`},
		{`build.branch == $BRANCH`, `column 17: a variable cannot stand here; write build.env("NAME")`},
		{`"é" == "e" ; true`, `column 12: the character ';' cannot stand here`},
		{"true &&\n  # no", `line 2, column 3: the character '#' cannot stand here`},
		{`true false`, `column 6: an operator such as == or && was expected, found "false"`},
		{`true ! true`, `column 6: an operator such as == or && was expected, found "!"`},
		{`true)`, `column 5: an operator such as == or && was expected, found ")"`},
		{`(true`, `column 1: the parenthesis that opens here is never closed`},
		{`(true true)`, `column 7: ")" or an operator was expected, found "true"`},
		{`build.branch == "main`, `column 17: the quotes that open here are never closed`},
		{`build.branch == 'main\'`, `column 17: the quotes that open here are never closed`},
		{`build.branch =~ /main`, `column 17: the regular expression that begins here is never closed by a slash`},
		{`build.branch =~ /main\/`, `column 17: the regular expression that begins here is never closed by a slash`},
		{"build.branch =~ /a\nb/", `column 17: the regular expression that begins here is never closed by a slash`},
		{`build.branch =~ /a(/`, "column 17: this is not a regular expression: missing closing ): `a(`"},
		{`build.branch =~ /a(?!b)/`, "column 17: this is not a regular expression: invalid or unsupported Perl syntax: `(?!`"},
		{`build.branch =~ /a/m`, `column 20: "m" is no flag of regular expressions, only i is; write others into the expression, such as /(?s)a.b/`},
		{`build.number == 99999999999999999999`, `column 17: the number is too large`},

		{`build.brunch == "main"`, `column 1: there is no variable "build.brunch"; did you mean build.branch?`},
		{`true && Build.Tag != null`, `column 9: there is no variable "Build.Tag"; did you mean build.tag?`},
		{`build.pull_request != null`, `column 1: there is no variable "build.pull_request"; did you mean build.pull_request.id?`},
		{`build.branch == main`, `column 17: there is no variable "main"; put text into quotes`},
		{`job.state == "passed"`, `column 1: there is no variable "job.state"`},
		{`pipeline.started_failing`, `column 1: pipeline.started_failing is known only to the conditions of notifications`},
		{`step.outcome == "passed"`, `column 1: step.outcome is known only to the conditions of notifications`},
		{`env("A") == "b"`, `column 1: there is no function env, only build.env`},
		{`build.env == "b"`, `column 11: build.env needs the name of a variable in quotes: build.env("NAME")`},
		{`build.env(A) == "b"`, `column 11: build.env needs the name of a variable in quotes: build.env("NAME")`},
		{`build.env("") == "b"`, `column 11: build.env needs the name of a variable in quotes: build.env("NAME")`},
		{`build.env("A" == "b"`, `column 15: ")" was expected after the name of the variable, found "=="`},

		{`build.number == "42"`, `column 17: "==" compares values of one type; build.number is a whole number and "42" is text`},
		{`build.pull_request.draft != "true"`, `column 29: "!=" compares values of one type; build.pull_request.draft is true or false and "true" is text`},
		{`build.creator.teams == "deploy"`, `column 24: "==" compares values of one type; build.creator.teams is a list and "deploy" is text`},
		{`build.branch == /main/`, `column 17: a regular expression stands on the right of "=~" or "!~", not beside "=="`},
		{`/main/ =~ build.branch`, `column 1: "=~" needs text on its left; /main/ is a regular expression`},
		{`build.branch =~ "main"`, `column 17: "=~" needs a regular expression such as /^v1/ on its right; "main" is text`},
		{`build.number !~ /4/`, `column 1: "!~" needs text on its left; build.number is a whole number`},
		{`build.branch includes "main"`, `column 1: "includes" needs a list on its left; build.branch is text`},
		{`build.creator.teams includes 5`, `column 30: "includes" needs text or a regular expression on its right; 5 is a whole number`},
		{`build.branch && true`, `column 1: "&&" needs true or false on its left; build.branch is text`},
		{`true || build.tag`, `column 9: "||" needs true or false on its right; build.tag is text`},
		{`!build.branch == "main"`, `column 2: "!" needs true or false behind it; build.branch is text; put parentheses around a comparison to turn it around`},
		{`["a", 5] includes "a"`, `column 7: a list holds texts in quotes, found "5"`},
		{`["a" "b"] includes "a"`, `column 6: "," or "]" was expected in the list, found "\"b\""`},
		{`["a", ] includes "a"`, `column 7: a list holds texts in quotes, found "]"`},
		{`["a"`, `column 5: "," or "]" was expected in the list, found the end`},
		{`build.commit == "` + strings.Repeat("x", 50) + `" && "` + strings.Repeat("y", 50) + `"`, `column 73: "&&" needs true or false on its right; this is text`},
	} {
		_, err := Parse(c.condition)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: the error is %v", c.condition, err)
			continue
		}
		equal(t, c.condition, err.Error(), c.want)
	}
}

func TestParse_IsBounded(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("(", n) + "true" + strings.Repeat(")", n) }
	chain := strings.Repeat("true||", maxLength/6-1) + "true"
	for _, fits := range []string{nested(100), strings.Repeat("!", 100) + "true", chain, `"" =~ /` + strings.Repeat("a", 990) + "/"} {
		if _, err := Parse(fits); err != nil {
			t.Errorf("%.40s…: %v", fits, err)
		}
	}
	const large = "column 7: the regular expressions of the condition are too large; repetitions multiply what they repeat"
	for condition, want := range map[string]string{
		nested(101):                                                     "column 101: a condition cannot be nested more than 100 deep",
		strings.Repeat("!", 101) + "true":                               "column 101: a condition cannot be nested more than 100 deep",
		strings.Repeat(" ", 8192) + "true":                              "column 1: a condition must be at most 8192 bytes, found 8196",
		`"" =~ /` + strings.Repeat("a", 1001) + "/":                     large,
		`"" =~ /(abcdefghij[k-z]){1000}/`:                               large,
		`"" =~ /` + strings.Repeat(`\pL`, 10) + "/":                     large,
		`"" =~ /a{1000}/ || ` + strings.Repeat(`"" =~ /a{1000}/||`, 10): strings.Replace(large, "column 7", "column 162", 1),
	} {
		_, err := Parse(condition)
		if err == nil {
			t.Errorf("no error for %.40s…", condition)
			continue
		}
		equal(t, condition[:20], err.Error(), want)
	}
}

func TestParseNotification_HasMoreVariables(t *testing.T) {
	context := &Context{
		Pipeline: Pipeline{StartedFailing: pointer(true)},
		Step:     &Step{ID: "s1", Key: pointer("test"), Type: "command", State: "finished", Outcome: "hard_failed"},
	}
	for condition, want := range map[string]bool{
		`pipeline.started_failing`:                                    true,
		`pipeline.started_passing`:                                    false,
		`step.outcome == "hard_failed" && step.state == "finished"`:   true,
		`step.key == "test" && step.id == "s1" && step.label == null`: true,
		`step.type == "wait"`:                                         false,
	} {
		c, err := ParseNotification(condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		equal(t, condition, c.Eval(context), want)
		equal(t, condition+" outside of a step", c.Eval(&Context{}), false)
	}
}
