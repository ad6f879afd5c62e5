package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server"
	"stackyard/internal/clients/agentcli"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/stackctl"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

func upCommand() *cobra.Command {
	// People read the terminal of up: they see warnings, not each request.
	settings := slices.Clone(serverSettings)
	for i := range settings {
		if settings[i].Flag == "log-level" {
			settings[i].Unset = "warn"
		}
	}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine, with a demo organization",
		Long: `Run everything on this machine, without preparation: a server with the embedded
database; a demo organization with a cluster, a queue, a pipeline, an administrator
and tokens; and a stack that runs jobs as local processes. The first start also
runs a first build.

Jobs run as you and can read your files, including DATA; use --job-user to run
them as another user.

The generated password and tokens are stored in DATA/welcome.txt, which only you
can read, and shown on every start. Your data is kept.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmdline.HideSecrets(cmd, settings); err != nil {
				return err
			}
			s, log, err := serverSettingsOf(cmd, settings)
			if err != nil {
				return err
			}
			user, err := agentcli.JobUserSetting.Find(cmd, nil)
			if err != nil {
				return cmdline.Usage(err)
			}
			if _, err := agentcli.JobUser(user); err != nil {
				return cmdline.Usage(err)
			}
			s.Local = true
			out := cmd.OutOrStdout()
			path := filepath.Join(s.Data, "welcome.txt")
			w, err := loadWelcome(path)
			if err != nil {
				return err
			}
			prepare := func(st server.Storage) error { return w.apply(cmd.Context(), st) }
			// The server must outlive the stack, which de-registers at the end.
			serving, stopServer := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer stopServer()
			context.AfterFunc(cmd.Context(), func() {
				w.stack.Wait()
				stopServer()
			})
			return serve(serving, s, log, out, prepare, func(r server.Ready) error {
				w.URL = string(r.Public)
				if w.Link, err = r.SignInLink(cmd.Context(), w.Email); err != nil {
					return err
				}
				// The text names the number of the first build, so that build comes before any other.
				if err := w.begin(cmd.Context(), r.Local, user, log); err != nil {
					return err
				}
				return w.show(path, out)
			})
		},
	}
	addSettings(cmd, settings)
	cmdline.AddFlags(cmd, []cmdline.Setting{agentcli.JobUserSetting})
	return cmd
}

// welcome holds the credentials of the demo organization.
type welcome struct {
	URL         string
	Link        string // signs in the administrator, once
	Email       string
	Password    string
	AccessToken string
	AgentToken  string

	generated bool // on this start
	created   bool // the demo organization was created on this start
	stack     sync.WaitGroup
}

// The lines of welcome.txt with generated values.
const (
	emailLine       = "  Email:         "
	passwordLine    = "  Password:      "
	accessTokenLine = "  Access token:  "
	agentTokenLine  = "  Agent token:   "
)

// newPassword returns a password with 80 random bits that people can type.
func newPassword() string {
	text := strings.ToLower(rand.Text())
	return strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:16]}, "-")
}

// loadWelcome reads the values that an earlier start generated, or generates them.
func loadWelcome(path string) (*welcome, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &welcome{
			Email:       "admin@demo.test",
			Password:    newPassword(),
			AccessToken: seal.NewToken(identity.AccessTokenPrefix),
			AgentToken:  seal.NewToken(identity.AgentTokenPrefix),
			generated:   true,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	w := &welcome{}
	known := map[string]*string{emailLine: &w.Email, passwordLine: &w.Password, accessTokenLine: &w.AccessToken, agentTokenLine: &w.AgentToken}
	for line := range strings.Lines(string(text)) {
		for prefix, value := range known {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				*value = strings.TrimSpace(rest)
			}
		}
	}
	for prefix, value := range known {
		if *value == "" {
			return nil, fmt.Errorf("%s has no line %q; delete the file to generate new values", path, strings.TrimSpace(prefix))
		}
	}
	return w, nil
}

//go:embed up.yaml
var demoFile string

var demoTemplate = template.Must(template.New("up.yaml").Parse(demoFile))

// apply creates the demo organization. An existing one is left unchanged, unless its credentials were lost and
// had to be generated again.
func (w *welcome) apply(ctx context.Context, st server.Storage) error {
	exists, err := demoExists(ctx, st)
	if err != nil || exists && !w.generated {
		return err
	}
	var file bytes.Buffer
	if err := demoTemplate.Execute(&file, w); err != nil {
		return err
	}
	_, err = orgfile.Apply(ctx, st.DB, st.Key, core.SystemClock, file.Bytes())
	w.created = !exists
	return err
}

// begin starts the stack, which runs until ctx is done, and on the first start the first build. Both use the
// server's local address, since the public URL may not be reachable from here.
func (w *welcome) begin(ctx context.Context, local, jobUser string, log *slog.Logger) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	processes := stackctl.Processes{Program: program}
	if jobUser != "" {
		processes.Args = []string{"--job-user", jobUser}
	}
	stack := stackctl.New(stackctl.Config{
		API:     &stackctl.API{Endpoint: local + "/v3", Token: w.AgentToken},
		Key:     "up",
		Max:     max(2, runtime.NumCPU()),
		Compute: processes,
		Log:     log,
		Metrics: stackctl.NewMetrics(prometheus.NewRegistry()),
	})
	w.stack.Go(func() {
		if err := stack.Run(ctx, ctx); err != nil && ctx.Err() == nil {
			log.Error("stack ended", "error", err)
		}
	})
	if !w.created {
		return nil
	}
	c := &api.Client{URL: local, Token: w.AccessToken, UserAgent: cmdline.UserAgent()}
	err = c.Do(ctx, http.MethodPost, "/v2/organizations/demo/pipelines/hello/builds", map[string]string{
		"commit": "HEAD", "branch": "main", "message": "The first build",
	}, nil)
	if ctx.Err() != nil {
		return nil // stopped meanwhile
	}
	return err
}

func demoExists(ctx context.Context, st server.Storage) (bool, error) {
	err := st.DB.Read(ctx, func(q *db.Q) error {
		_, err := identity.OrganizationBySlug(q, "demo")
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return false, nil
	}
	return err == nil, err
}

//go:embed up.txt
var welcomeText string

var welcomeTemplate = template.Must(template.New("up.txt").Parse(welcomeText))

// show prints the welcome text and stores it for the next start.
func (w *welcome) show(path string, out io.Writer) error {
	var text bytes.Buffer
	if err := welcomeTemplate.Execute(&text, w); err != nil {
		return err
	}
	if err := writeFile(path, text.Bytes()); err != nil {
		return fmt.Errorf("store the generated values: %w", err)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// writeFile atomically replaces a file that only its owner can read.
func writeFile(path string, text []byte) error {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(text)
	if err := errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}
