package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// clientOrganizations is the organization file of the client scripts.
const clientOrganizations = "testdata/client.yaml"

// TestClientScripts runs the scripts in testdata/client, each with its own server.
func TestClientScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/client",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := start(env.T().(testing.TB), "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(env.WorkDir, "data"), "--apply", clientOrganizations)
			env.Setenv("STACKYARD_SERVER", server.URL)
			env.Setenv("STACKYARD_TOKEN", "svcua_ada-everything")
			env.Setenv("STACKYARD_CONFIG_DIR", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}
