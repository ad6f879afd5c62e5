package tracker

import (
	"strconv"
	"strings"
	"testing"
)

func TestIssueIn(t *testing.T) {
	for branch, want := range map[string]string{
		"eng-123":             "ENG-123",
		"ada/eng-123-login":   "ENG-123",
		"ENG-7":               "ENG-7",
		"fix_ops2-4_now":      "OPS2-4",
		"main":                "",
		"release-1.2":         "RELEASE-1",
		"eng-0":               "",
		"eng-007":             "",
		"eng-1234567890":      "",
		"123-456":             "",
		"averyverylongkey-12": "",
		"eng--1":              "",
		"":                    "",
	} {
		key, number := issueIn(branch)
		got := ""
		if number > 0 {
			got = key + "-" + strconv.Itoa(number)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", branch, got, want)
		}
	}
}

func TestRead_ReportsErrors(t *testing.T) {
	for body, want := range map[string]string{
		`{"data": {"commentCreate": {"success": true}}}`:                                  "",
		`{"data": {"commentCreate": {"success": false}}}`:                                 "commentCreate was not successful",
		`{"errors": [{"message": "No", "extensions": {"code": "authentication_error"}}]}`: "No",
		`{"data": null, "errors": [{"message": "` + strings.Repeat("x", 1000) + `"}]}`:    strings.Repeat("x", 300),
		`<html>`:      "no GraphQL response",
		`{}`:          "no GraphQL data",
		`{"data": 7}`: "no GraphQL data",
	} {
		var written Written
		err := Read([]byte(body), &written)
		if err == nil {
			err = written.Err()
		}
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "the tracker answered: ")
		}
		if got != want {
			t.Errorf("%.100s: %q, want %q", body, got, want)
		}
	}
}

func TestNote_IDsAreTheSameForTheSameNote(t *testing.T) {
	one, two := &Note{ID: "a"}, &Note{ID: "b"}
	if one.id("issue") != (&Note{ID: "a"}).id("issue") || one.id("issue") == two.id("issue") || one.id("issue") == one.id("comment") {
		t.Error("ids do not follow from the note")
	}
}
