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

// SignsVariable is the variable, without prefix, that says whether the job's agent signs pipelines.
const SignsVariable = "AGENT_SIGNS_PIPELINES"

// The paths that the agent serves.
const (
	redactions = "/redactions"
	signatures = "/signatures"
)

// maxRequest is the maximum size of a request in bytes.
const maxRequest = 4 << 20

// maxResponse is the maximum size of a response in bytes: a request with signatures.
const maxResponse = 4 * maxRequest

// An Agent is what the agent of a job does for commands in it.
type Agent struct {
	Redact func(value string)
	// Sign signs a pipeline; nil if the agent does not.
	Sign func(ctx context.Context, pipeline json.RawMessage) (json.RawMessage, error)
}

// Serve serves the commands in a job until stop is called. Only the job's user can open the socket.
func Serve(socket string, agent Agent) (stop func(), err error) {
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
			agent.Redact(value)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST "+signatures, agent.sign)
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	go server.Serve(listener)
	return func() { server.Close() }, nil
}

func (a Agent) sign(w http.ResponseWriter, r *http.Request) {
	if a.Sign == nil {
		http.Error(w, "this agent does not sign pipelines", http.StatusNotFound)
		return
	}
	pipeline, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		pipeline, err = a.Sign(r.Context(), pipeline)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Write(pipeline)
}

// Redact makes the agent redact values in the job's log from now on.
func Redact(ctx context.Context, socket string, values ...string) error {
	body, err := json.Marshal(values)
	if err != nil {
		return err
	}
	_, err = post(ctx, socket, redactions, body)
	return err
}

// Sign makes the agent sign the steps of a pipeline.
func Sign(ctx context.Context, socket string, pipeline json.RawMessage) (json.RawMessage, error) {
	return post(ctx, socket, signatures, pipeline)
}

// post sends a request to the agent and returns its response.
func post(ctx context.Context, socket, path string, body []byte) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: time.Minute}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the agent of this job: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return nil, fmt.Errorf("the agent of this job returned status %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxResponse))
}
