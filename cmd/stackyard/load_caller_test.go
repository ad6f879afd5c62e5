package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// A repeater sends the same request over one connection again and again. It builds and parses as little as possible,
// because the load shares the machine with the server that is measured.
type repeater struct {
	conn    net.Conn
	request []byte
	answers *bufio.Reader
}

// dialRepeater connects to the server at a URL. headers are whole lines without their ends.
func dialRepeater(url, method, path, body string, headers ...string) (*repeater, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: " + host, "Content-Length: " + strconv.Itoa(len(body))}, headers...)
	request := strings.Join(lines, "\r\n") + "\r\n\r\n" + body
	return &repeater{conn: conn, request: []byte(request), answers: bufio.NewReader(conn)}, nil
}

func (r *repeater) close() { r.conn.Close() }

// do sends the request and waits for the response, which must be a success.
func (r *repeater) do() error {
	if _, err := r.conn.Write(r.request); err != nil {
		return err
	}
	return discardResponse(r.answers)
}

// discardResponse reads a response that has a Content-Length, and expects a success.
func discardResponse(answers *bufio.Reader) error {
	line, err := answers.ReadSlice('\n')
	if err != nil {
		return err
	}
	success := bytes.HasPrefix(line, []byte("HTTP/1.1 2"))
	status := strings.TrimSpace(string(line))
	size := 0
	for {
		if line, err = answers.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
	if !success {
		body := make([]byte, size)
		io.ReadFull(answers, body)
		return fmt.Errorf("%s: %s", status, body)
	}
	_, err = answers.Discard(size)
	return err
}
