package remoteaccess_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/client"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/remoteaccess"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The test binary is the ProxyCommand of ssh when these variables are set.
const (
	proxyEndpoint = "TEST_TUNNEL_ENDPOINT"
	proxyToken    = "TEST_TUNNEL_TOKEN"
)

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(proxyEndpoint); endpoint != "" {
		if _, err := client.Tunnel(context.Background(), endpoint, os.Getenv(proxyToken), "test", os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const waitLimit = time.Minute

// A shellWorld is a server whose organization has self-hosted sessions, and a job that runs on a real agent.
type shellWorld struct {
	*servertest.RealJob
	t *testing.T
}

// eachShell runs a test on each engine while a job runs.
func eachShell(t *testing.T, fn func(t *testing.T, w *shellWorld)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		fn(t, &shellWorld{s.RealJob(t, s.URL, "sleep 600"), t})
	})
}

func (w *shellWorld) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(waitLimit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it never happened: %s", what)
		}
	}
}

// A shell is an opened session.
type shell struct {
	w           *shellWorld
	Endpoint    string
	AccessToken string `json:"access_token"`
	ExpiresAt   string `json:"expires_at"`
	Transport   string
	SSH         struct {
		Username   string
		PrivateKey string   `json:"private_key"`
		HostKeys   []string `json:"host_keys"`
	}
}

func (w *shellWorld) open() *shell {
	w.t.Helper()
	s := &shell{w: w}
	resp := w.Ada.Post(acme+"/jobs/"+w.ID+"/ssh-session", nil).Want(http.StatusOK)
	if resp.Header.Get("Cache-Control") != "no-store" {
		w.t.Errorf("the session can be cached: %v", resp.Header)
	}
	resp.JSON(s)
	return s
}

// ssh returns a command of the stock client that connects to the session.
func (s *shell) ssh(args ...string) *exec.Cmd {
	s.w.t.Helper()
	dir := s.w.t.TempDir()
	key, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	s.w.WantNoError(os.WriteFile(key, []byte(s.SSH.PrivateKey), 0o600))
	s.w.WantNoError(os.WriteFile(known, []byte("job "+strings.Join(s.SSH.HostKeys, "\njob ")+"\n"), 0o600))
	executable, err := os.Executable()
	s.w.WantNoError(err)
	cmd := exec.Command("ssh", append([]string{
		"-F", "none", "-o", "ProxyCommand=" + executable, "-o", "HostKeyAlias=job", "-o", "UserKnownHostsFile=" + known, "-o", "GlobalKnownHostsFile=none",
		"-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "BatchMode=yes", "-i", key, "-l", s.SSH.Username,
	}, args...)...)
	cmd.Env = append(os.Environ(), proxyEndpoint+"="+s.Endpoint, proxyToken+"="+s.AccessToken)
	return cmd
}

// run runs a command in the job and returns its output.
func (s *shell) run(command string) (string, error) {
	s.w.t.Helper()
	out, err := s.ssh("job", command).CombinedOutput()
	return string(out), err
}

// refused checks that ssh cannot connect, and what it says.
func (s *shell) refused(says string) {
	s.w.t.Helper()
	if out, err := s.run("echo inside"); err == nil || strings.Contains(out, "inside") || !strings.Contains(out, says) {
		s.w.t.Errorf("ssh said %q and returned %v, want %q", out, err, says)
	}
}

// record returns the record of the newest session.
func (w *shellWorld) record() (user, address, reason string, sent, received int64, ended bool) {
	w.t.Helper()
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`
			SELECT user_id, COALESCE(address, ''), COALESCE(reason, ''), sent, received, ended_at IS NOT NULL FROM remote_sessions
			ORDER BY created_at DESC, id DESC LIMIT 1`).Scan(&user, &address, &reason, &sent, &received, &ended)
	})
	w.WantNoError(err)
	return user, address, reason, sent, received, ended
}

func TestShell_RunsInTheJob(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		w.RecordEvents(t, events.SessionStarted, events.SessionEnded)
		s := w.open()
		if s.Transport != "tcp" || len(s.SSH.HostKeys) != 1 || s.SSH.Username == "" || !strings.HasPrefix(s.Endpoint, "ws://127.0.0.1") || s.ExpiresAt == "" {
			t.Errorf("the session is %+v", s)
		}
		out, err := s.run(`echo "$GREETING from $SERVICE_JOB_ID in $PWD"; exit 7`)
		exit, _ := err.(*exec.ExitError)
		if exit == nil || exit.ExitCode() != 7 || !strings.Contains(out, "hello there from "+w.ID+" in ") || !strings.Contains(out, "/work") {
			t.Errorf("the command printed %q and returned %v", out, err)
		}
		w.eventually("the session is recorded", func() bool { _, _, _, _, _, ended := w.record(); return ended })
		user, address, reason, sent, received, _ := w.record()
		if user != servertest.AdaID || address != "127.0.0.1" || reason == "" || sent == 0 || received == 0 {
			t.Errorf("the record is user %s, address %s, reason %q, sent %d, received %d", user, address, reason, sent, received)
		}
		list := w.Events(t)
		if len(list) != 2 || list[0].Name != events.SessionStarted || list[1].Name != events.SessionEnded || list[1].JobID != w.ID {
			t.Fatalf("the events are %+v", list)
		}
		if f := list[1].Facts.Session; f.UserID != servertest.AdaID || f.Address != "127.0.0.1" || f.Sent != sent || f.Received != received || f.StartedAt.IsZero() || f.EndedAt.IsZero() {
			t.Errorf("the facts are %+v", f)
		}
	})
}

func TestShell_HasATerminal(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		cmd := w.open().ssh("-t", "job")
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 123})
		w.WantNoError(err)
		defer terminal.Close()
		var seen bytes.Buffer
		await := func(text string) {
			t.Helper()
			buffer := make([]byte, 4096)
			for !strings.Contains(seen.String(), text) {
				n, err := terminal.Read(buffer)
				seen.Write(buffer[:n])
				if err != nil {
					t.Fatalf("the terminal ended before %q:\n%s", text, &seen)
				}
			}
			seen.Reset()
		}
		terminal.WriteString("tty; stty size; echo x$((40+2))x\n")
		await("x42x")
		terminal.WriteString("stty size | tr ' ' x\n")
		await("40x123")
		w.WantNoError(pty.Setsize(terminal, &pty.Winsize{Rows: 50, Cols: 99}))
		w.eventually("the size has changed", func() bool {
			terminal.WriteString("echo $(stty size | tr ' ' x)-end\n")
			buffer := make([]byte, 4096)
			n, err := terminal.Read(buffer)
			seen.Write(buffer[:n])
			return err == nil && strings.Contains(seen.String(), "50x99-end")
		})
		terminal.WriteString("exit 3\n")
		go func() {
			for buffer := make([]byte, 4096); ; {
				if _, err := terminal.Read(buffer); err != nil {
					return
				}
			}
		}()
		cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 3 {
			t.Errorf("the exit status is %d, want 3", status)
		}
	})
}

func TestShell_RefusesOtherKeysAndTokens(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		s, other := w.open(), w.open()
		hostKeys, token := s.SSH.HostKeys, s.AccessToken

		s.SSH.HostKeys = other.SSH.HostKeys
		s.refused("REMOTE HOST IDENTIFICATION HAS CHANGED")
		s.SSH.HostKeys = hostKeys
		s.refused("access token is unknown, used or expired") // the failed attempt has used it

		other.AccessToken = token // of another session
		other.refused("access token is unknown, used or expired")
		other.AccessToken = servertest.Ada
		other.refused("access token is unknown, used or expired")

		stolen := w.open()
		stolen.SSH.PrivateKey = s.SSH.PrivateKey
		stolen.refused("Permission denied")

		late := w.open()
		w.Clock.Advance(remoteaccess.TokenLife + time.Second)
		late.refused("access token is unknown, used or expired")
	})
}

func TestShell_EndsWithTheUsersAccessTheSettingAndTheJob(t *testing.T) {
	ends := map[string]struct {
		change func(w *shellWorld)
		reason string
	}{
		"permission": {func(w *shellWorld) {
			w.Apply("organizations: [{slug: acme, members: [{email: ada@acme.test, role: member}]}]")
		}, "you no longer have access to the job"},
		"setting": {func(w *shellWorld) {
			w.Ada.Delete(acme + "/pipeline-settings/hosted-agents-ssh").Want(http.StatusOK)
		}, "remote access"},
		"feature": {func(w *shellWorld) {
			w.Apply("organizations: [{slug: acme, features: {self_hosted_sessions: false}}]")
		}, "needs a running command job"},
		"token": {func(w *shellWorld) {
			w.Ada.Delete("/v2/access-token").Want(http.StatusNoContent)
		}, "no longer signed in"},
		"expiry": {func(w *shellWorld) { w.Clock.Advance(remoteaccess.MaxLength + time.Second) }, "expired"},
		"job":    {func(w *shellWorld) { w.Ada.Put(acme+"/jobs/"+w.ID+"/cancel", nil).Want(http.StatusOK) }, "job has ended"},
		"agent":  {func(w *shellWorld) { w.EndAgent() }, "job has ended"},
	}
	for name, test := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachShell(t, func(t *testing.T, w *shellWorld) {
				pids := filepath.Join(t.TempDir(), "pids")
				cmd := w.open().ssh("job", `setsid sleep 601 & echo $! >`+pids+`; echo $$ >>`+pids+`; echo up; sleep 600`)
				out, err := cmd.StdoutPipe()
				w.WantNoError(err)
				w.WantNoError(cmd.Start())
				if _, err := out.Read(make([]byte, 2)); err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(pids)
				w.WantNoError(err)
				test.change(w)
				cmd.Wait()
				w.eventually("the end is recorded", func() bool { _, _, _, _, _, ended := w.record(); return ended })
				if _, _, reason, _, _, _ := w.record(); !strings.Contains(reason, test.reason) {
					t.Errorf("the reason is %q, want %q", reason, test.reason)
				}
				for _, pid := range strings.Fields(string(text)) {
					w.eventually("process "+pid+" ends", func() bool { return !alive(pid) })
				}
			})
		})
	}
}

// A replica that is alive renews the lease; the session of one that died is ended by another, which cannot know the bytes.
func TestShell_IsEndedWhenItsReplicaHasDied(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		w.RecordEvents(t, events.SessionEnded)
		cmd := w.open().ssh("job", "echo up; sleep 600")
		out, err := cmd.StdoutPipe()
		w.WantNoError(err)
		w.WantNoError(cmd.Start())
		if _, err := out.Read(make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		var first, lease int64
		read := func(q *db.Q) error { return q.QueryRow(`SELECT lease_until FROM remote_sessions`).Scan(&lease) }
		w.WantNoError(w.DB.Read(t.Context(), read))
		first = lease
		w.Clock.Advance(time.Minute)
		w.eventually("the lease is renewed", func() bool {
			w.WantNoError(w.DB.Read(t.Context(), read))
			return lease > first
		})
		w.WantNoError(w.RunDue(t.Context()))
		if _, _, _, _, _, ended := w.record(); ended {
			t.Fatal("a live session was ended")
		}
		err = w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE remote_sessions SET lease_until = 1`)
			return err
		})
		w.WantNoError(err)
		w.Clock.Advance(time.Minute)
		w.WantNoError(w.RunDue(t.Context()))
		cmd.Wait()
		list := w.Events(t)
		if len(list) != 1 || list[0].Facts.Session.Sent != -1 || list[0].Facts.Session.Received != -1 || list[0].Facts.Session.Reason != "the replica with the session has stopped" {
			t.Errorf("the events are %+v", list)
		}
	})
}

// alive reports whether a process exists and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func TestShell_IsServedByAnyReplica(t *testing.T) {
	one := servertest.Start(t, dbtest.New(t, db.PostgreSQL))
	one.Apply(servertest.World)
	two := one.Replica(t)
	for _, s := range []*servertest.Server{one, two} {
		s.Start()
		t.Cleanup(s.Stop)
	}
	w := &shellWorld{one.RealJob(t, two.URL, "sleep 600"), t} // the agent calls the second
	for _, at := range []*servertest.Server{one, two} {
		s := w.open() // at the first
		s.Endpoint = strings.Replace(s.Endpoint, strings.TrimPrefix(one.URL, "http"), strings.TrimPrefix(at.URL, "http"), 1)
		if out, err := s.run("echo $GREETING; head -c 3000000 /dev/zero | wc -c"); err != nil || !strings.Contains(out, "hello there\n3000000") {
			t.Errorf("through %s: %q, %v", at.URL, out, err)
		}
		if out, err := s.run("true"); err == nil || !strings.Contains(out, "used or expired") {
			t.Errorf("the second time: %q, %v", out, err)
		}
	}
	resp, err := http.Get(two.URL + "/v3/relay/" + w.ID)
	w.WantNoError(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the relay of replicas has status %d for others", resp.StatusCode)
	}
}

func TestShell_StoresNoCredentials(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		s := w.open()
		var row []string
		err := w.DB.Read(t.Context(), func(q *db.Q) (err error) {
			row, err = db.All(q, func(scan db.Scan) (text string, err error) { return text, scan(&text) },
				`SELECT COALESCE(authorized_key, '') || ' ' || token_hash || ' ' || COALESCE(host_key, '') || ' ' || COALESCE(username, '') FROM remote_sessions`)
			return err
		})
		w.WantNoError(err)
		key, err := ssh.ParsePrivateKey([]byte(s.SSH.PrivateKey))
		w.WantNoError(err)
		all := strings.Join(row, "\n")
		if !strings.Contains(all, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))) {
			t.Errorf("the public key is not in %s", all)
		}
		if strings.Contains(all, s.AccessToken) || strings.Contains(all, "PRIVATE KEY") {
			t.Errorf("credentials are stored: %s", all)
		}
	})
}
