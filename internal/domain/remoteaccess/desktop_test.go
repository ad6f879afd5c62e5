package remoteaccess_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/runner"
)

func TestDesktop_NeedsAnAgentWithADesktop(t *testing.T) {
	eachShell(t, func(t *testing.T, w *shellWorld) {
		w.Ada.Post(acme+"/jobs/"+w.ID+"/vnc-session", nil).WantMessage(http.StatusUnprocessableEntity, "VNC access needs a running command job on a hosted agent with macOS")
	})
}

func TestDesktop_HasCredentials(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				io.WriteString(conn, "RFB 003.008\n")
				conn.Close()
			}
		}()
		j := s.RealJob(t, s.URL, "sleep 600", func(o *runner.Options) { o.VNC.Address = listener.Addr().String() })
		path := acme + "/jobs/" + j.ID + "/vnc-session"
		resp := j.Ada.Post(path, nil).Want(http.StatusOK)
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("the session can be cached: %v", resp.Header)
		}
		other := j.Ada.Post(path, nil).Want(http.StatusOK)
		if len(resp.String("vnc.password")) != 8 || resp.String("vnc.username") == "" || resp.String("vnc.password") == other.String("vnc.password") ||
			resp.String("access_token") == other.String("access_token") || !strings.HasPrefix(resp.String("endpoint"), "ws://") {
			t.Errorf("the sessions are %s and %s", resp.Body, other.Body)
		}
		listener.Close() // the VNC server has ended
		got := j.Ada.Post(path, nil).Want(http.StatusServiceUnavailable).String("message")
		if !strings.Contains(got, "the VNC server of the agent cannot be reached") {
			t.Errorf("the message is %q", got)
		}
	})
}
