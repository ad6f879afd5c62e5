package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"stackyard/internal/clients/runner/container"
	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/inside"
)

// ImagePolicy says what an agent does with steps that have an image.
type ImagePolicy string

// The policies.
const (
	RunImages    ImagePolicy = ""       // run their commands in a container
	IgnoreImages ImagePolicy = "ignore" // run them on the machine, which is of the right image already
	RefuseImages ImagePolicy = "refuse"
)

// image returns the image that the command runs in, or "".
func (j *job) image() string {
	if j.w.o.Images == IgnoreImages {
		return ""
	}
	return j.spec.Step.ImageName()
}

// checkImage returns a refusal if the agent cannot run the step's image.
func (j *job) checkImage() error {
	image := j.image()
	switch {
	case image == "":
		return nil
	case j.w.o.Images == RefuseImages:
		return &refusal{agentRefused, "The step has the image " + image + ", and this agent runs no containers (--step-images refuse). Use another queue."}
	case j.w.o.Containers == nil:
		return &refusal{agentRefused, "The step has the image " + image + ", and this machine has no container runtime. Install " +
			strings.Join(container.Programs(), ", ") + ", name one with --container-command, or use another queue."}
	}
	if err := container.CheckImage(image); err != nil {
		return &refusal{agentRefused, "The image of the step cannot be run: " + err.Error() + "."}
	}
	return nil
}

// runInContainer runs the command in a container of the step's image.
func (j *job) runInContainer(command, image string) error {
	runtime := j.w.o.Containers
	files := filepath.Join(j.temp, "container")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	uid, gid, err := j.containerUser()
	if err != nil {
		return err
	}
	args, err := runtime.Args(container.Job{
		ID: j.spec.ID, Image: image, Command: command, Dir: j.sh.Dir, Files: files, Env: j.sh.Env,
		Program: j.w.o.Executable, Socket: j.sh.Env.Service(inside.SocketVariable), UID: uid, GID: gid,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := runtime.Remove(j.spec.ID); err != nil {
			j.log.Warn("remove container failed", "error", err)
		}
	}()
	host := *j.sh
	host.User, host.Dir, host.Env = nil, j.temp, environ.Parse(os.Environ())
	for _, name := range hiddenSettings {
		host.Env.Delete("SERVICE_" + name)
	}
	j.sh.Comment("In a container of %s as the user %d", image, uid)
	err = host.RunQuietly(args...)
	j.sh.Killed = host.Killed
	return err
}

// nobody is the user of containers that an agent starts as root without a user for jobs.
const nobody = 65534

// containerUser returns the user of the container, who must own the workspace. It is never root, except for a working
// tree of root's own.
func (j *job) containerUser() (uid, gid int, err error) {
	if user := j.w.o.JobUser; user != nil {
		return int(user.UID), int(user.GID), nil
	}
	if os.Geteuid() != 0 {
		return os.Getuid(), os.Getgid(), nil
	}
	if j.w.o.WorkDir != "" {
		about, err := os.Stat(j.w.o.WorkDir)
		if err != nil {
			return 0, 0, err
		}
		owner, ok := about.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, 0, errors.New("the owner of the working tree is not known")
		}
		return int(owner.Uid), int(owner.Gid), nil
	}
	err = filepath.WalkDir(j.sh.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		about, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := about.Sys().(*syscall.Stat_t); ok && !entry.IsDir() && stat.Nlink > 1 {
			return nil // git links objects of repositories on this machine, which must not change
		}
		return os.Lchown(path, nobody, nobody)
	})
	// Git refuses repositories of other users, which later hooks are in.
	count, _ := strconv.Atoi(j.sh.Env["GIT_CONFIG_COUNT"])
	n := strconv.Itoa(count)
	j.sh.Env["GIT_CONFIG_KEY_"+n], j.sh.Env["GIT_CONFIG_VALUE_"+n] = "safe.directory", j.sh.Dir
	j.sh.Env["GIT_CONFIG_COUNT"] = strconv.Itoa(count + 1)
	if socket := j.sh.Env.Service(inside.SocketVariable); err == nil && socket != "" {
		err = os.Lchown(socket, nobody, nobody)
	}
	return nobody, nobody, err
}
