package main

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A balancer is a load balancer in front of replicas. Each connection goes to the next replica.
type balancer struct {
	listener net.Listener

	mu    sync.Mutex
	links []link // by replica
	next  int
}

// A link is the network between the balancer and a replica.
type link struct {
	address string // "": there is no replica
	cut     bool
	open    map[net.Conn]struct{} // both ends of all connections
}

// newBalancer starts a balancer for some replicas, which connect adds.
func newBalancer(t testing.TB, replicas int) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, links: make([]link, replicas)}
	for i := range b.links {
		b.links[i].open = map[net.Conn]struct{}{}
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.forward(client)
		}
	}()
	return b
}

// URL returns where clients reach the balancer.
func (b *balancer) URL() string { return "http://" + b.listener.Addr().String() }

// connect makes a process a replica.
func (b *balancer) connect(replica int, p *process) {
	at, err := url.Parse(p.URL)
	if err != nil {
		panic(err) // from its ready line
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links[replica].address = at.Host
}

// cut breaks all connections to a replica, and refuses others until it is called with false.
func (b *balancer) cut(replica int, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.links[replica]
	l.cut = cut
	if cut {
		for conn := range l.open {
			conn.Close()
		}
	}
}

// forward connects a client with the next replica until one of them closes the connection.
func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	b.next = (b.next + 1) % len(b.links)
	l := &b.links[b.next]
	address, cut := l.address, l.cut
	b.mu.Unlock()
	if address == "" || cut {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	if !b.opened(l, client, server) {
		return
	}
	defer b.closed(l, client, server)
	var both sync.WaitGroup
	for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			io.Copy(ends[0], ends[1])
			ends[0].Close()
		})
	}
	both.Wait()
}

// opened records a connection, unless the link was cut meanwhile.
func (b *balancer) opened(l *link, ends ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, end := range ends {
		l.open[end] = struct{}{}
	}
	return !l.cut
}

func (b *balancer) closed(l *link, ends ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, end := range ends {
		delete(l.open, end)
	}
}
