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

// streamPath is the path of the only gRPC call that agents make. It starts at the root of the host, outside
// APIPath.
const streamPath = "/agentedge.v1.AgentEdgeService/StreamPings"

// streamRoutes push instructions to agents with gRPC server streaming, which needs only frames and trailers,
// over HTTP/1.1 and HTTP/2. Requests without a valid token get a plain HTTP status; agents fall back to
// polling.
func (s *Service) streamRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodPost, Path: streamPath, Tag: agentTag, Summary: "Stream instructions to an agent",
		Auth:    route.Session,
		Hidden:  true,
		Media:   []string{"application/grpc"},
		Handler: route.On(s.loadCaller, s.postStream),
	}}
}

// Statuses of gRPC.
const (
	grpcOK              = 0
	grpcUnavailable     = 14 // agents poll and try again later
	grpcUnauthenticated = 16 // agents do not try again
)

const (
	// maxStreamRequest bounds the message that opens a stream. It contains an id.
	maxStreamRequest = 4 << 10
	// streamWriteTimeout bounds the time to send a message to an agent.
	streamWriteTimeout = 30 * time.Second
)

func (s *Service) postStream(r *route.Request, a caller) (route.Stream, error) {
	if _, err := r.ReadBody(maxStreamRequest); err != nil { // the agent's id, which the token also names
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
			err := s.stream(r.Context(), a.session, func(next instruction) error {
				connection.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
				defer connection.SetWriteDeadline(time.Time{})
				if _, err := w.Write(frame(next.protobuf())); err != nil {
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

// streamEnd returns the gRPC status of a stream's end.
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

// frame returns a gRPC frame: a zero byte for "not compressed", the length, the message.
func frame(message []byte) []byte {
	framed := make([]byte, 5, 5+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...)
}

// The fields of the message that carries an instruction. The value of each is a message.
const (
	resumeField      protowire.Number = 2
	pauseField       protowire.Number = 3
	disconnectField  protowire.Number = 4
	jobAssignedField protowire.Number = 5
)

// protobuf returns the instruction as a protobuf message.
func (next instruction) protobuf() []byte {
	switch {
	case next.jobID != "":
		return nest(jobAssignedField, nest(1, nest(1, []byte(next.jobID))))
	case next.action == actionPause:
		return nest(pauseField, nest(1, []byte(next.message)))
	case next.action == actionDisconnect:
		return nest(disconnectField, nest(1, []byte(next.message)))
	default:
		return nest(resumeField, nil)
	}
}

// nest returns a message with one field, whose value is text or another message.
func nest(field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
}
