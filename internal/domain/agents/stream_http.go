package agents

import (
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// streamPath is that of the only gRPC call that agents make. It is at the root of the host, whatever the
// path of the rest of the agent API.
const streamPath = "/agentedge.v1.AgentEdgeService/StreamPings"

// streamRoutes push to agents what they would ask for with pings: gRPC server streaming, which needs no more
// than frames and trailers, of HTTP/1.1 as well as HTTP/2. Whoever has no good token is refused with a plain
// status, by which agents know to poll.
func (s *Service) streamRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodPost, Path: streamPath, Tag: agentTag, Summary: "Be told what to do",
		Auth:    route.Session,
		Hidden:  true,
		Media:   []string{"application/grpc"},
		Handler: route.On(s.loadCaller, s.postStream),
	}}
}

// Statuses of gRPC.
const (
	grpcOK              = 0
	grpcUnavailable     = 14 // poll meanwhile, and try again
	grpcUnauthenticated = 16 // do not try again
)

const (
	// maxStreamRequest bounds the message that opens a stream: it holds an id.
	maxStreamRequest = 4 << 10
	// streamWriteTimeout bounds how long an agent may take to receive a message.
	streamWriteTimeout = 30 * time.Second
)

func (s *Service) postStream(r *route.Request, a caller) (route.Stream, error) {
	if _, err := r.ReadBody(maxStreamRequest); err != nil { // the agent's id, which the token has told
		return route.Stream{}, err
	}
	if err := s.ensureConnected(r.Context(), a); err != nil {
		return route.Stream{}, err
	}
	r.SetHeader("Trailer", "Grpc-Status, Grpc-Message")
	return route.Stream{
		Type: "application/grpc+proto",
		Size: -1,
		Write: func(w http.ResponseWriter) error {
			connection := http.NewResponseController(w)
			err := s.stream(r.Context(), a.session, func(told instruction) error {
				connection.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
				defer connection.SetWriteDeadline(time.Time{})
				if _, err := w.Write(frame(told.protobuf())); err != nil {
					return err
				}
				return connection.Flush()
			})
			status, message := streamEnd(err)
			w.Header().Set("Grpc-Status", strconv.Itoa(status))
			w.Header().Set("Grpc-Message", message)
			return nil
		},
	}, nil
}

// streamEnd returns how a stream ends, in the words of gRPC.
func streamEnd(err error) (status int, message string) {
	switch {
	case err == nil:
		return grpcOK, ""
	case core.KindOf(err) == core.Unauthorized:
		return grpcUnauthenticated, err.Error()
	case errors.Is(err, errDraining):
		return grpcUnavailable, err.Error()
	default:
		return grpcUnavailable, "something went wrong on the server"
	}
}

// frame returns a message as gRPC sends it: not compressed, its length, its bytes.
func frame(message []byte) []byte {
	framed := make([]byte, 5, 5+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...)
}

// The fields of the message that says what an agent is to do; each is a message of its own.
const (
	resumeField      protowire.Number = 2
	pauseField       protowire.Number = 3
	disconnectField  protowire.Number = 4
	jobAssignedField protowire.Number = 5
)

// protobuf returns what an agent is told as the stream sends it.
func (told instruction) protobuf() []byte {
	switch {
	case told.jobID != "":
		return nest(jobAssignedField, nest(1, nest(1, []byte(told.jobID))))
	case told.action == actionPause:
		return nest(pauseField, nest(1, []byte(told.message)))
	case told.action == actionDisconnect:
		return nest(disconnectField, nest(1, []byte(told.message)))
	default:
		return nest(resumeField, nil)
	}
}

// nest returns a message that has one field, with text or with another message.
func nest(field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
}
