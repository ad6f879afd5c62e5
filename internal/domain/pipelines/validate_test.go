package pipelines

import (
	"strings"
	"testing"
)

func TestMirrorProblem(t *testing.T) {
	for mirror, want := range map[string]string{
		"https://mirror.example.test/acme/app.git":                 "",
		"http://mirror.example.test:8080/acme/app":                 "",
		"git://mirror.example.test/acme/app.git":                   "",
		"ssh://git@mirror.example.test:2222/acme/app":              "",
		"git@mirror.example.test:acme/app.git":                     "",
		"mirror":                                                   "must be a URL",
		"/srv/git/app.git":                                         "must be a URL",
		"file:///srv/git/app.git":                                  "must be a URL",
		"ftp://mirror.example.test/app":                            "must be a URL",
		"https://":                                                 "must be a URL",
		"https://mirror.example.test":                              "must be a URL",
		"-https://mirror.example.test/app":                         "must be a URL",
		"https://mirror.example.test/app.git?x=1":                  "must have no query",
		"https://mirror.example.test/app.git?":                     "must have no query",
		"https://mirror.example.test/app.git#main":                 "must have no query",
		"git@mirror.example.test:acme/app.git#main":                "must have no query",
		"https://user:secret@mirror.example.test/app.git":          "must have no credentials",
		"https://token@mirror.example.test/app.git":                "must have no credentials",
		"ssh://git:secret@mirror.example.test/acme/app":            "must have no credentials",
		"https://mirror.example.test/" + strings.Repeat("x", 4096): "must be a URL",
	} {
		got := mirrorProblem(mirror)
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: %q, want %q", mirror, got, want)
		}
	}
}
