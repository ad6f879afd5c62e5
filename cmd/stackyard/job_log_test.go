package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJobLog_FollowsARunningJobToItsEnd(t *testing.T) {
	t.Parallel()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", stackOrganizations)
	startStack(t, server)
	goOn := filepath.Join(t.TempDir(), "go-on")
	server.ask(t, "svcua_ada", "POST", "/v2/organizations/acme/pipelines/patient/builds", `{"commit": "HEAD", "branch": "main", "env": {"GO_ON": "`+goOn+`"}}`).want(t, http.StatusCreated)
	cmd := command("job", "log", "--follow", jobsOf(t, server, "patient")[0]["id"].(string))
	cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+server.URL, "STACKYARD_TOKEN=svcua_ada", "STACKYARD_CONFIG_DIR="+t.TempDir())
	reader := spawn(t, cmd)
	lineWith(t, reader, "I wait")
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lineWith(t, reader, "I go on")
	<-reader.ended
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("it exited with %d", status)
	}
}

// lineWith reads lines until one equals a text.
func lineWith(t *testing.T, p *process, text string) {
	t.Helper()
	for strings.TrimSpace(p.line(t)) != text {
	}
}
