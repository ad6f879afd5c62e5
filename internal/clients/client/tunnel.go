package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"stackyard/api"
)

const (
	// maxTunnelMessage bounds a message of a tunnel.
	maxTunnelMessage = 1 << 20
	// tunnelKeepAlive is the time between two pings: proxies drop silent connections.
	tunnelKeepAlive = 20 * time.Second
	// tunnelTimeout is how long connecting takes at most.
	tunnelTimeout = 30 * time.Second
)

// Tunnel connects to the endpoint of a remote session with its access token, and copies between it and a reader and a
// writer until one of them ends. It returns nil if the session ended normally; reason says why, if the server said so.
func Tunnel(ctx context.Context, endpoint, token, userAgent string, in io.Reader, out io.Writer) (reason string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, connected := context.WithTimeout(ctx, tunnelTimeout)
	conn, resp, err := websocket.Dial(dialing, endpoint, &websocket.DialOptions{
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}, "User-Agent": {userAgent}},
		Subprotocols: []string{"binary"},
	})
	connected()
	if err != nil {
		if resp != nil {
			return "", refusal(resp)
		}
		return "", fmt.Errorf("reach %s: %w", endpoint, err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxTunnelMessage)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(tunnelKeepAlive):
				conn.Ping(ctx)
			}
		}
	}()
	var left atomic.Bool // the user has disconnected: errors of reading mean nothing more
	leave := func() {
		if left.CompareAndSwap(false, true) {
			conn.Close(websocket.StatusNormalClosure, "the user has disconnected")
		}
	}
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := in.Read(buffer)
			if n > 0 && conn.Write(ctx, websocket.MessageBinary, buffer[:n]) != nil {
				return // reading fails too
			}
			if err != nil {
				leave()
				return
			}
		}
	}()
	for {
		_, message, err := conn.Read(ctx)
		if closed, ok := errors.AsType[websocket.CloseError](err); ok {
			return closed.Reason, nil
		}
		if err != nil && left.Load() {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if _, err := out.Write(message); err != nil {
			leave()
			return "", nil
		}
	}
}

// refusal returns the error of a server that refused the connection.
func refusal(resp *http.Response) error {
	refused := &api.Error{Status: resp.StatusCode}
	if resp.Body == nil || json.NewDecoder(io.LimitReader(resp.Body, 4<<10)).Decode(refused) != nil || refused.Message == "" {
		refused.Message = resp.Status
	}
	return refused
}
