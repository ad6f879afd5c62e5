package sourcehost

import "testing"

func TestWithoutCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"https://git.example.test/acme/hello.git":                     "https://git.example.test/acme/hello.git",
		"https://user:token@git.example.test/acme/hello.git":          "https://git.example.test/acme/hello.git",
		"https://token@git.example.test:8443/acme/hello.git":          "https://git.example.test:8443/acme/hello.git",
		"https://@git.example.test/acme/hello.git":                    "https://git.example.test/acme/hello.git",
		"HTTP://us@er:p@ss@git.example.test/acme/hello.git":           "HTTP://git.example.test/acme/hello.git",
		"https://user:%zz@git.example.test":                           "https://git.example.test",
		"https://git.example.test/acme/hello.git?private_token=x#y":   "https://git.example.test/acme/hello.git",
		"https://git.example.test?token=x":                            "https://git.example.test",
		"https://git.example.test/acme/a@b":                           "https://git.example.test/acme/a@b",
		"ftp://user:token@git.example.test/hello":                     "ftp://git.example.test/hello",
		"ssh://git@git.example.test:22/acme/hello.git":                "ssh://git@git.example.test:22/acme/hello.git",
		"ssh://git:token@git.example.test/acme/hello.git":             "ssh://git@git.example.test/acme/hello.git",
		"git+ssh://:token@git.example.test/acme/hello.git":            "git+ssh://git.example.test/acme/hello.git",
		"https::https://user:token@git.example.test/acme/hello.git?x": "https::https://git.example.test/acme/hello.git",
		"git@git.example.test:acme/hello.git":                         "git@git.example.test:acme/hello.git",
		"git@git.example.test:user@acme/hello.git":                    "git@git.example.test:user@acme/hello.git",
		"user:token@git.example.test:acme/hello.git":                  "user@git.example.test:acme/hello.git",
		"git.example.test:acme/hello.git":                             "git.example.test:acme/hello.git",
		"/srv/git/a:b@c.git":                                          "/srv/git/a:b@c.git",
		"file:///srv/git/hello.git":                                   "file:///srv/git/hello.git",
		"":                                                            "",
	} {
		if got := WithoutCredentials(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if again := WithoutCredentials(want); again != want {
			t.Errorf("%s: %s the second time", want, again)
		}
	}
}
