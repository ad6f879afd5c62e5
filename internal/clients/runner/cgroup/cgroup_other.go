//go:build !linux

package cgroup

import "syscall"

// A Group is a control group, which only Linux has.
type Group struct{}

// New returns ErrUnsupported.
func New(string, Limits) (*Group, error) { return nil, ErrUnsupported }

// Attach does nothing.
func (g *Group) Attach(*syscall.SysProcAttr) {}

// Usage returns that nothing is counted.
func (g *Group) Usage() Usage { return Usage{-1, -1, -1, -1, -1} }

// Count returns 0.
func (g *Group) Count() int { return 0 }

// Kill does nothing.
func (g *Group) Kill() error { return nil }

// Remove does nothing.
func (g *Group) Remove() error { return nil }
