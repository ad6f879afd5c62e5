package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// streamPath is relative to the root of the host, not to the endpoint.
const streamPath = "/agentedge.v1.AgentEdgeService/StreamPings"

// maxFrame limits the size of a message; they are tiny.
const maxFrame = 64 << 10

// ErrNoStream means that the server has no stream for this agent, and that retrying is useless.
var ErrNoStream = errors.New("the server has no ping stream")

// Stream opens the ping stream, over which a server pushes orders, and calls receive with each until the stream
// or ctx ends. It returns nil if the server closed the stream normally. The protocol is gRPC server streaming;
// this file implements only the needed part.
func (c *Client) Stream(ctx context.Context, agentID string, receive func(Order)) error {
	resp, err := c.openStream(ctx, agentID)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for {
		frame, err := readFrame(resp.Body)
		if errors.Is(err, io.EOF) {
			return streamEnd(resp)
		}
		if err != nil {
			return &Error{Call: "POST " + streamPath, Err: err}
		}
		order, err := decodeOrder(frame)
		if err != nil {
			return &Error{Call: "POST " + streamPath, Err: err}
		}
		receive(order)
	}
}

func (c *Client) openStream(ctx context.Context, agentID string) (*http.Response, error) {
	address, err := url.Parse(c.endpoint)
	if err != nil {
		return nil, err
	}
	address.Path, address.RawPath, address.RawQuery = streamPath, "", ""
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), agentID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(frame(message)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Token "+c.token)
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Content-Type", "application/grpc+proto")
	req.Header.Set("TE", "trailers")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &Error{Call: "POST " + streamPath, Err: withoutURL(err)}
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		resp.Body.Close()
		return nil, ErrNoStream
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, shownBody))
	return nil, refusal("POST "+streamPath, resp, body)
}

// frame adds the gRPC header to a message: not compressed, and the length.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func readFrame(r io.Reader) ([]byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if header[0] != 0 || size > maxFrame {
		return nil, errors.New("the stream has a message that cannot be read")
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return message, nil
}

// The gRPC statuses of an ended stream.
const (
	grpcOK               = 0
	grpcDeadlineExceeded = 4
	grpcPermissionDenied = 7
	grpcUnimplemented    = 12
	grpcUnauthenticated  = 16
)

func streamEnd(resp *http.Response) error {
	text := resp.Trailer.Get("Grpc-Status")
	if text == "" {
		text = resp.Header.Get("Grpc-Status") // for a response without messages
	}
	status, err := strconv.Atoi(text)
	if err != nil {
		return &Error{Call: "POST " + streamPath, Err: errors.New("the stream was interrupted")}
	}
	switch status {
	case grpcOK, grpcDeadlineExceeded:
		return nil
	case grpcPermissionDenied, grpcUnimplemented, grpcUnauthenticated:
		return ErrNoStream
	}
	return &Error{Call: "POST " + streamPath, Err: fmt.Errorf("the stream ended with status %d %s", status, resp.Trailer.Get("Grpc-Message"))}
}

// The fields of a message. One of them is set.
const (
	fieldPause       = 3
	fieldDisconnect  = 4
	fieldJobAssigned = 5
)

// decodeOrder decodes a message. An unknown message means "resume".
func decodeOrder(message []byte) (Order, error) {
	var order Order
	err := eachField(message, func(field protowire.Number, value []byte) (err error) {
		switch field {
		case fieldPause:
			order.Action = Pause
			order.Message, err = firstText(value)
		case fieldDisconnect:
			order.Action = Disconnect
			order.Message, err = firstText(value)
		case fieldJobAssigned:
			err = eachField(value, func(field protowire.Number, job []byte) (err error) {
				if field == 1 {
					order.JobID, err = firstText(job)
				}
				return err
			})
		}
		return err
	})
	return order, err
}

// firstText returns the text in field 1 of a message, or "".
func firstText(message []byte) (text string, err error) {
	err = eachField(message, func(field protowire.Number, value []byte) error {
		if field == 1 {
			text = string(value)
		}
		return nil
	})
	return text, err
}

// eachField calls fn with the text and message fields of a message, and skips others.
func eachField(message []byte, fn func(field protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := fn(field, value); err != nil {
			return err
		}
	}
	return nil
}
