package agents_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"stackyard/internal/app/server/servertest"
)

// message is an encoded protobuf message.
type message struct{ bytes []byte }

// rawCodec does not encode or decode messages, so that no generated code is needed.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(m any) ([]byte, error) { return m.(*message).bytes, nil }

func (rawCodec) Unmarshal(b []byte, m any) error {
	m.(*message).bytes = slices.Clone(b)
	return nil
}

// describe returns the instruction in a message as text.
func describe(t testing.TB, m *message) string {
	t.Helper()
	field, inside := only(t, m.bytes)
	switch field {
	case 2:
		return "resume"
	case 3:
		_, reason := only(t, inside)
		return "pause: " + string(reason)
	case 4:
		_, reason := only(t, inside)
		return "disconnect: " + string(reason)
	case 5:
		_, job := only(t, inside)
		_, id := only(t, job)
		return "job " + string(id)
	}
	return fmt.Sprintf("field %d", field)
}

// only returns the only field of a message.
func only(t testing.TB, b []byte) (protowire.Number, []byte) {
	t.Helper()
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || kind != protowire.BytesType {
		t.Fatalf("%x is not a message with one field", b)
	}
	inside, m := protowire.ConsumeBytes(b[n:])
	if m < 0 || n+m != len(b) {
		t.Fatalf("%x is not a message with one field", b)
	}
	return field, inside
}

// stream is an open stream of an agent.
type stream struct {
	t testing.TB
	*connect.ServerStreamForClient[message]
	end func()
}

// openStream opens a stream with a token, as a gRPC client does.
func openStream(t testing.TB, client *http.Client, url, token, agentID string) *stream {
	t.Helper()
	call := connect.NewClient[message, message](client, url+"/agentedge.v1.AgentEdgeService/StreamPings", connect.WithGRPC(), connect.WithCodec(rawCodec{}))
	id := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(agentID))
	req := connect.NewRequest(&message{id})
	req.Header().Set("Authorization", "Token "+token)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	opened, err := call.CallServerStream(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{t, opened, cancel}
}

// want checks the instruction in the next message.
func (s *stream) want(instruction string) {
	s.t.Helper()
	if !s.Receive() {
		s.t.Fatalf("the stream ended with %v, want %q", s.Err(), instruction)
	}
	if got := describe(s.t, s.Msg()); got != instruction {
		s.t.Fatalf("got %q, want %q", got, instruction)
	}
}

// wantEnd checks that the stream ends with a code.
func (s *stream) wantEnd(code connect.Code) {
	s.t.Helper()
	if s.Receive() {
		s.t.Fatalf("got %q, want the end", describe(s.t, s.Msg()))
	}
	if err := s.Err(); (err == nil) != (code == 0) || err != nil && connect.CodeOf(err) != code {
		s.t.Fatalf("the stream ended with %v, want %v", err, code)
	}
}

func (w *world) stream(a *servertest.Agent) *stream {
	w.t.Helper()
	return openStream(w.t, http.DefaultClient, w.URL, a.Token, a.ID)
}

func TestStream_NotifiesAtOnceAndWheneverItChanges(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		s := w.stream(w.agent)
		s.want("resume")
		path := acmeAgents + "/" + w.agent.ID
		w.ada.Put(path+"/pause", fields{"note": "Tea"}).Want(204)
		s.want("pause: This agent is paused: Tea")
		w.ada.Put(path+"/resume", fields{}).Want(204)
		s.want("resume")
		job := w.job("{command: a}")
		s.want("job " + job)
		taken := w.agent.Accept(job).Start()
		next := w.job("{command: b}") // not while the first runs
		taken.Finish("0")
		s.want("resume")
		s.want("job " + next)
		w.agent.Accept(next).Start().Finish("0")
		s.want("resume")
		w.ada.Put(path+"/stop", fields{}).Want(204)
		s.want("disconnect: This agent was asked to stop")
	})
}

func TestStream_OffersTheJobAgainWhenItIsOpenedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.job("{command: a}")
		first := w.stream(w.agent)
		first.want("resume")
		first.want("job " + job)
		first.end()
		again := w.stream(w.agent)
		again.want("job " + job)
		w.agent.Accept(job)
		w.agent.Accept(job)
		again.end()
		// The response to its accept may have been lost.
		accepted := w.stream(w.agent)
		accepted.want("job " + job)
		taken := w.agent.Accept(job).Start()
		accepted.end()
		running := w.stream(w.agent)
		running.want("resume")
		taken.Finish("0")
	})
}

func TestStream_EndsWhereTheAgentAsksElsewhere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.stream(w.agent)
		first.want("resume")
		second := w.stream(w.agent)
		second.want("resume")
		first.wantEnd(0)
		servertest.WantEqual(t, "offered", ping(w.agent), "")
		second.wantEnd(0)
		job := w.job("{command: a}")
		third := w.stream(w.agent)
		third.want("resume")
		third.want("job " + job)
	})
}

func TestStream_OfAnAgentThatAcquiresRespondsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		agent := w.Register(t, fields{"ignore_in_dispatches": true})
		agent.Acquire(w.job("{command: a}")).Start().Finish("0")
		w.job("{command: b}")
		s := w.stream(agent)
		s.want("resume")
	})
}

func TestStream_RefusesWithAPlainStatus(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.agent.Acquire(w.job("{command: a}"))
		gone := w.Register(t, nil)
		gone.Post("/v3/disconnect", nil).Want(200)
		const path = "/agentedge.v1.AgentEdgeService/StreamPings"
		w.AsAgent(t, "svcas_unknown").Post(path, "").Want(401)
		gone.Post(path, "").Want(401)
		job.Post(path, "").Want(403)
		w.AsAgent(t, servertest.AcmeAgent).Post(path, "").Want(401)
	})
}

func TestStream_EndsWhenTheServerDrains(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		s := w.stream(w.agent)
		s.want("resume")
		w.Drain()
		s.wantEnd(connect.CodeUnavailable)
		w.stream(w.agent).wantEnd(connect.CodeUnavailable)
	})
}

func TestStream_WorksOverHTTP2(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		secure := httptest.NewUnstartedServer(w.Server)
		secure.EnableHTTP2 = true
		secure.StartTLS()
		t.Cleanup(secure.Close)
		client := secure.Client()
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: client.Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"h2"}}
		s := openStream(t, client, secure.URL, w.agent.Token, w.agent.ID)
		s.want("resume")
		job := w.job("{command: a}")
		s.want("job " + job)
		w.agent.Accept(job)
		w.Drain()
		s.wantEnd(connect.CodeUnavailable)
	})
}
