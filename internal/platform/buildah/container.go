package buildah

import (
	"context"
	"io"
	"strconv"
	"strings"
)

// NewContainer creates a container from an image, which it pulls if the store does not have it, and returns its id.
func (s *Store) NewContainer(ctx context.Context, ref string, memory int64) (string, error) {
	args := []string{"from", "--quiet"}
	if s.runtime != "" && memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(memory, 10))
	}
	if s.Insecure != "" && strings.HasPrefix(ref, s.Insecure) {
		args = append(args, "--tls-verify=false")
	}
	s.creating.RLock()
	defer s.creating.RUnlock()
	out, err := s.output(ctx, append(args, ref)...)
	id := strings.TrimSpace(string(out))
	if err == nil {
		s.mu.Lock()
		s.containers[id] = true
		s.mu.Unlock()
	}
	return id, err
}

// A Command runs in a container.
type Command struct {
	Args  []string
	Env   []string          // name=value; not secret
	Mount map[string]string // files of this machine by their path in the container, read-only
	Stdin io.Reader
	// Memory is the limit of all its processes, in bytes; 0: none.
	Memory int64
}

// Run runs a command in a container, with the network of this machine, until it ends.
func (s *Store) Run(ctx context.Context, container string, c Command, out io.Writer) error {
	args := append([]string{"run"}, s.isolation()...)
	args = append(args, "--network", "host", "--cap-drop", "CAP_SYS_CHROOT", "--cap-drop", "CAP_MKNOD")
	for inside, path := range c.Mount {
		args = append(args, "--volume", path+":"+inside+":ro")
	}
	for _, line := range c.Env {
		args = append(args, "--env", line)
	}
	args = append(append(args, container, "--"), c.Args...)
	return s.runWith(ctx, limits{memory: c.Memory}, c.Stdin, nil, out, args...)
}

// RemoveContainer removes a container.
func (s *Store) RemoveContainer(ctx context.Context, container string) error {
	_, err := s.output(ctx, "rm", container)
	if err == nil {
		s.mu.Lock()
		delete(s.containers, container)
		s.mu.Unlock()
	}
	return err
}
