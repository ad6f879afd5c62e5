package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/orgfile"
	"stackyard/internal/seal"
	"stackyard/internal/server"
)

func upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the whole product on this machine, with a demo organization",
		Long: `Run the whole product on this machine with nothing to prepare: a server on the
embedded database, a demo organization with a cluster, a queue and a pipeline, an
administrator and tokens.

What it generated on the first start is kept in DATA/welcome.txt, readable by you
alone, and shown again on every start. Your data stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, log, err := serverSettingsOf(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			path := filepath.Join(settings.Data, "welcome.txt")
			w, err := loadWelcome(path)
			if err != nil {
				return err
			}
			prepare := func(st server.Storage) error { return w.apply(cmd.Context(), st) }
			return serve(cmd.Context(), settings, log, out, prepare, func(url string) error {
				w.URL = url
				return w.show(path, out)
			})
		},
	}
	addSettings(cmd, serverSettings)
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
