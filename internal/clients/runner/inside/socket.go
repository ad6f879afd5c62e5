// Package inside connects an agent with the commands that run in its jobs: commands find their job in the
// environment and reach the agent over a socket.
package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// SocketVariable is the variable, without prefix, with the path of the socket on which a job's agent serves
// commands.
const SocketVariable = "AGENT_JOB_API_SOCKET"

const redactions = "/redactions"

// maxRequest is the maximum size of a request in bytes.
const maxRequest = 4 << 20

// Serve serves the commands in a job until stop is called. Only the job's user can open the socket.
func Serve(socket string, redact func(value string)) (stop func(), err error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+redactions, func(w http.ResponseWriter, r *http.Request) {
		var values []string
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&values); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, value := range values {
			redact(value)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	go server.Serve(listener)
	return func() { server.Close() }, nil
}

// Redact makes the agent redact values in the job's log from now on.
func Redact(ctx context.Context, socket string, values ...string) error {
	body, err := json.Marshal(values)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+redactions, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("reach the agent of this job: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return fmt.Errorf("the agent of this job returned status %d: %s", resp.StatusCode, text)
	}
	return nil
}
