package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"text/template"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server"
	"stackyard/internal/clients/client"
	"stackyard/internal/clients/stackctl"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

func upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the whole product on this machine, with a demo organization",
		Long: `Run the whole product on this machine with nothing to prepare: a server on the
embedded database, a demo organization with a cluster, a queue and a pipeline, an
administrator and tokens, and a stack that runs jobs as processes of this machine.
The first start runs a first build.

Jobs run as you, and can read whatever you can, DATA included; --job-user runs
them as another user.

What it generated on the first start is kept in DATA/welcome.txt, readable by you
alone, and shown again on every start. Your data stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := hideSecrets(cmd, serverSettings); err != nil {
				return err
			}
			settings, log, err := serverSettingsOf(cmd)
			if err != nil {
				return err
			}
			user, err := jobUserSetting.find(cmd, nil)
			if err != nil {
				return refuse(err)
			}
			if _, err := jobUser(user); err != nil {
				return refuse(err)
			}
			settings.Local = true
			out := cmd.OutOrStdout()
			path := filepath.Join(settings.Data, "welcome.txt")
			w, err := loadWelcome(path)
			if err != nil {
				return err
			}
			prepare := func(st server.Storage) error { return w.apply(cmd.Context(), st) }
			// The server outlives the stack, which has a last word for it.
			serving, stopServer := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer stopServer()
			context.AfterFunc(cmd.Context(), func() {
				w.stack.Wait()
				stopServer()
			})
			return serve(serving, settings, log, out, prepare, func(r server.Ready) error {
				w.URL = string(r.Public)
				if err := w.show(path, out); err != nil {
					return err
				}
				return w.begin(cmd.Context(), r.Local, user, log)
			})
		},
	}
	addSettings(cmd, serverSettings)
	addFlags(cmd, []setting{jobUserSetting})
	return cmd
}

// welcome is what somebody who tries the product needs to know.
type welcome struct {
	URL         string
	Email       string
	Password    string
	AccessToken string
	AgentToken  string

	generated bool // on this start
	made      bool // the demo organization, on this start
	stack     sync.WaitGroup
}

// The lines of welcome.txt that hold what was generated.
const (
	emailLine       = "  Email:         "
	passwordLine    = "  Password:      "
	accessTokenLine = "  Access token:  "
	agentTokenLine  = "  Agent token:   "
)

// loadWelcome reads what an earlier start generated, or generates it.
func loadWelcome(path string) (*welcome, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &welcome{
			Email:       "admin@demo.test",
			Password:    seal.NewToken(""),
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
			return nil, fmt.Errorf("%s has no line %q; remove the file to have new ones made", path, strings.TrimSpace(prefix))
		}
	}
	return w, nil
}

//go:embed up.yaml
var demoFile string

var demoTemplate = template.Must(template.New("up.yaml").Parse(demoFile))

// apply makes the demo organization. One that an earlier start made is left as people have changed it
// since, unless what they know it by was lost and had to be generated again.
func (w *welcome) apply(ctx context.Context, st server.Storage) error {
	made, err := demoExists(ctx, st)
	if err != nil || made && !w.generated {
		return err
	}
	var file bytes.Buffer
	if err := demoTemplate.Execute(&file, w); err != nil {
		return err
	}
	_, err = orgfile.Apply(ctx, st.DB, st.Key, core.SystemClock, file.Bytes())
	w.made = !made
	return err
}

// begin starts the stack, which runs until ctx is done, and on the first start the first build. They talk to
// the server by its address on this machine: the public one may lead here only for others, or not yet.
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
	if !w.made {
		return nil
	}
	c := &client.Client{URL: local, Token: w.AccessToken, UserAgent: userAgent()}
	err = c.Do(ctx, post, "/v2/organizations/demo/pipelines/hello/builds", map[string]string{
		"commit": "HEAD", "branch": "main", "message": "The first build",
	}, nil)
	if ctx.Err() != nil {
		return nil // somebody changed their mind
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

// show prints the welcome and keeps it for the next start.
func (w *welcome) show(path string, out io.Writer) error {
	var text bytes.Buffer
	if err := welcomeTemplate.Execute(&text, w); err != nil {
		return err
	}
	if err := keep(path, text.Bytes()); err != nil {
		return fmt.Errorf("keep what was generated: %w", err)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// keep writes a file that only its owner can read. A crash leaves the file that was there before.
func keep(path string, text []byte) error {
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
