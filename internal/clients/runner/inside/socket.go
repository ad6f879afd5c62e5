// Package inside is what an agent and the commands inside of its jobs share: how they reach each other, and
// how a command finds out where it runs.
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

// SocketVariable is the variable, without the beginning of its name, with the path of the socket over which
// commands inside of a job reach its agent.
const SocketVariable = "AGENT_JOB_API_SOCKET"

const redactions = "/redactions"

// maxRequest bounds what a command can ask for.
const maxRequest = 4 << 20

// Serve answers the commands inside of a job, over a socket that only the job's user can open, until the
// function that it returns is called.
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

// Redact makes the agent keep values out of the job's log, from now on.
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
		return fmt.Errorf("the agent of this job answered with status %d: %s", resp.StatusCode, text)
	}
	return nil
}
