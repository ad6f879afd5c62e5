package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// An Event is a server-sent event.
type Event struct {
	Name string
	Data []byte
}

const (
	// maxEvent limits the size of a line.
	maxEvent = 4 << 20
	// maxCuts limits consecutive interruptions without an event.
	maxCuts = 30
)

// Follow passes the events of a stream to a function until it is done. An interrupted stream, for example after
// a server restart, is resumed after the last event.
func (c *Client) Follow(ctx context.Context, path string, give func(Event) (done bool, err error)) error {
	s := stream{give: give, pause: time.Second}
	for cuts := 1; ; cuts++ {
		before := s.last
		done, err := s.follow(ctx, c, path)
		if refusal, ok := errors.AsType[*Error](err); done || ok && refusal.Status < 500 {
			return err
		}
		if s.last != before {
			cuts = 1
		}
		if cuts == maxCuts {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.pause):
		}
	}
}

// stream is the progress in a stream of events.
type stream struct {
	give  func(Event) (done bool, err error)
	last  string        // id of the last event
	pause time.Duration // before it is resumed; set by the server
}

// follow reads the stream on one connection.
func (s *stream) follow(ctx context.Context, c *Client, path string) (done bool, err error) {
	headers := []string{"Accept", "text/event-stream"}
	if s.last != "" {
		headers = append(headers, "Last-Event-ID", s.last)
	}
	res, err := c.send(ctx, http.MethodGet, path, nil, headers...)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxEvent)
	var e Event
	id := s.last
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			id = string(value)
		case "event":
			e.Name = string(value)
		case "data":
			if e.Data != nil {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				s.pause = min(time.Duration(ms)*time.Millisecond, time.Minute)
			}
		case "":
			if len(lines.Bytes()) > 0 { // a comment
				continue
			}
			if e.Data != nil {
				if done, err := s.give(e); done || err != nil {
					return true, err
				}
				s.last = id
			}
			e = Event{}
		}
	}
	return false, lines.Err()
}
