//go:build !linux

package parked

import (
	"net"
	"time"
)

// watcher is not implemented: nothing is parked.
type watcher struct{}

func newWatcher(func(net.Conn)) *watcher { return nil }

func (*watcher) close()                 {}
func (*watcher) add(net.Conn, *watched) {}
func (*watcher) remove(net.Conn)        {}
func (*watcher) closeIdle(time.Time)    {}
