package servertest

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// A Caller sends HTTP requests over one connection, for fleets and benchmarks. It does less than http.Client
// and has no goroutine, so that the measurement is of the server. It is not safe for concurrent use.
type Caller struct {
	Scheme    string // of the Authorization header: Token, for agents, or Bearer
	conn      net.Conn
	host      string
	responses *bufio.Reader
}

// Dial connects to the server at a URL. The caller closes the connection.
func Dial(address string) (*Caller, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	return &Caller{Scheme: "Token", conn: conn, host: u.Host}, nil
}

// Close closes the connection. Another goroutine can call it; Receive then fails.
func (c *Caller) Close() error { return c.conn.Close() }

// Send sends a request with a token and does not wait for the response.
func (c *Caller) Send(method, path, token, body string) error {
	_, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, c.host, c.Scheme, token, len(body), body)
	return err
}

// Receive waits for the response to the request sent before.
func (c *Caller) Receive() (status int, body []byte, err error) {
	if c.responses == nil {
		c.responses = bufio.NewReader(c.conn)
	}
	resp, err := http.ReadResponse(c.responses, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// Idle releases what is needed only to receive.
func (c *Caller) Idle() { c.responses = nil }

// Ask sends a request and waits for the response.
func (c *Caller) Ask(method, path, token, body string) (status int, response []byte, err error) {
	if err := c.Send(method, path, token, body); err != nil {
		return 0, nil, err
	}
	return c.Receive()
}

// Call sends a request and decodes the response, which must be a success, into a value, unless that is nil.
func (c *Caller) Call(method, path, token, body string, into any) error {
	status, response, err := c.Ask(method, path, token, body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case status/100 != 2:
		return fmt.Errorf("%s %s: status %d: %s", method, path, status, response)
	case into == nil:
		return nil
	}
	return json.Unmarshal(response, into)
}
