// Package rfbtest starts real VNC servers for tests.
package rfbtest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Desktop is a white screen of 640 × 480 behind a VNC server.
type Desktop struct {
	Address string
	Stop    func() // ends the VNC server
}

// startTimeout bounds how long a server takes to start.
const startTimeout = time.Minute

// Start starts an X server and a VNC server with a password.
func Start(t testing.TB, password string) Desktop {
	t.Helper()
	run := func(name string, args ...string) (cmd *exec.Cmd, stop func()) {
		cmd = exec.Command(name, args...)
		stop = func() {
			if cmd.Process != nil {
				cmd.Process.Kill()
				cmd.Wait()
			}
		}
		t.Cleanup(stop)
		return cmd, stop
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	xvfb, _ := run("Xvfb", "-displayfd", "3", "-screen", "0", "640x480x24", "-wr", "-nolisten", "tcp", "-ac", "-noreset")
	xvfb.ExtraFiles = []*os.File{writer}
	if err := xvfb.Start(); err != nil {
		t.Fatalf("install xvfb: %v", err)
	}
	writer.Close()
	display, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	x11vnc, stop := run("x11vnc", "-display", ":"+strings.TrimSpace(display), "-rfbport", strconv.Itoa(port), "-localhost", "-passwd", password, "-forever", "-shared", "-noxdamage", "-quiet")
	if err := x11vnc.Start(); err != nil {
		t.Fatalf("install x11vnc: %v", err)
	}
	d := Desktop{net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), stop}
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", d.Address)
		if err == nil {
			conn.Close()
			return d
		}
		if time.Now().After(end) {
			t.Fatal("the VNC server does not start")
		}
	}
}
