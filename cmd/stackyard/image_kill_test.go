package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/buildah/buildahtest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const (
	hostedCluster = "0190c0de-0000-7000-8000-0000000000c9"
	imagesPath    = "/v2/organizations/acme/clusters/" + hostedCluster + "/agent-images"
	hostedFile    = `
organizations:
  - slug: acme
    name: Acme Inc
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: ` + adaToken + `, scopes: ["*"]}]
    clusters:
      - {name: Cloud, id: ` + hostedCluster + `, default: true, hosted: true, queues: [{key: default, default: true}]}
`
)

// imageLimit is how long a test waits for a build of an image.
const imageLimit = 2 * time.Minute

type imageAnswer struct {
	ID       string
	Status   string
	ImageRef string `json:"image_ref"`
	Error    string `json:"last_build_error"`
}

// hostedInstallation returns the flags of an installation with a hosted cluster and a base image.
func hostedInstallation(t *testing.T, flags []string) (installation []string, folder string) {
	t.Helper()
	folder = filepath.Join(flags[1], "agent-images")
	buildahtest.NewBase(t, folder)
	apply(t, flags, hostedFile)
	return append(flags, "--agent-base-image", buildahtest.Base), folder
}

func (p *process) image(t *testing.T, id string) imageAnswer {
	t.Helper()
	return decode[imageAnswer](t, p.get(t, adaToken, imagesPath+"/"+id))
}

func TestServe_LeavesNothingOfAnImageBuildAfterKill9(t *testing.T) {
	t.Parallel()
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			flags := []string{"--data", t.TempDir()}
			if engine == db.PostgreSQL {
				flags = onPostgres(t, dbtest.URL(t, engine))
			}
			installation, folder := hostedInstallation(t, flags)
			p := serveOn(t, installation)
			marker := fmt.Sprintf("sleep 3.%d", time.Now().UnixNano())
			made := decode[imageAnswer](t, p.ask(t, adaToken, "POST", imagesPath, fmt.Sprintf(`{"name": "tools", "dockerfile": "RUN echo one\nRUN echo wait'ing' && %s\nRUN echo two > /two"}`, marker)).want(t, http.StatusCreated))
			// Each server is killed at another step.
			p.kill()
			for _, seen := range []string{"STEP 1", "waiting\n", "COMMIT"} {
				p = serveOn(t, installation)
				eventually(t, imageLimit, "the log has "+seen, func() bool {
					log := p.get(t, adaToken, imagesPath+"/"+made.ID+"/log").Body
					return strings.Contains(string(log), seen) || p.image(t, made.ID).Status == "READY"
				})
				p.kill()
				buildahtest.WantNoProcesses(t, marker)
			}
			p = serveOn(t, installation)
			eventually(t, imageLimit, "the image is built", func() bool { return p.image(t, made.ID).Status != "BUILDING" })
			if got := p.image(t, made.ID); got.Status != "READY" {
				t.Errorf("the image is %+v", got)
			}
			wantStored(t, folder, []string{buildahtest.Base, "localhost/agent-images/" + made.ID + ":1"})
			p.ask(t, adaToken, "DELETE", imagesPath+"/"+made.ID, "").want(t, http.StatusNoContent)
			eventually(t, imageLimit, "the image is removed", func() bool {
				return !strings.Contains(storeList(t, folder, "images", "--format", "{{.Name}}:{{.Tag}}"), made.ID)
			})
			if containers := storeList(t, folder, "containers", "-q"); containers != "" {
				t.Errorf("containers are left: %s", containers)
			}
		})
	}
}

func wantStored(t *testing.T, folder string, names []string) {
	t.Helper()
	list := storeList(t, folder, "images", "--format", "{{.Name}}:{{.Tag}}")
	if lines := strings.Fields(list); len(lines) != len(names) {
		t.Errorf("stored are %v, want %v", lines, names)
	}
	for _, name := range names {
		if !strings.Contains(list, name) {
			t.Errorf("stored are %s, want %v", list, names)
		}
	}
}

// storeList returns the output of a buildah command about the store in a folder.
func storeList(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := exec.Command("buildah", append([]string{"--root", filepath.Join(folder, "storage"), "--runroot", filepath.Join(folder, "run"), "--storage-driver", "vfs"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
