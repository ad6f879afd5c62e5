// Package osuser looks up operating system users that jobs run as.
package osuser

import (
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// A User is an operating system user.
type User struct {
	Name     string
	Home     string
	UID, GID uint32
	Groups   []uint32
}

// LookUp finds a user by name or id.
func LookUp(name string) (*User, error) {
	found, err := user.Lookup(name)
	if _, numeric := strconv.Atoi(name); err != nil && numeric == nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		return nil, fmt.Errorf("find the user %q: %w", name, err)
	}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("find the groups of the user %q: %w", name, err)
	}
	ids := make([]uint32, 0, len(groups)+2)
	for _, text := range append([]string{found.Uid, found.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the user %q has the id %q, which is not a number", name, text)
		}
		ids = append(ids, uint32(id))
	}
	return &User{Name: found.Username, Home: found.HomeDir, UID: ids[0], GID: ids[1], Groups: ids[2:]}, nil
}

// Attributes makes a process run in its own group, and as the user unless u is nil.
func (u *User) Attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if u != nil {
		attributes.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return attributes
}
