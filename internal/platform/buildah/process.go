package buildah

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// limits bound a command.
type limits struct {
	memory int64        // resident bytes of all its processes; 0: none
	disk   int64        // bytes; 0: none
	use    func() int64 // how many bytes it uses on the disk
}

// ErrMemory is returned for a command that used more memory than its limit.
var ErrMemory = errors.New("it used too much memory")

// checkEvery is how often the memory of a command is measured. Measuring the disk takes longer, and is done at most a tenth of
// the time.
const checkEvery = 200 * time.Millisecond

// run runs buildah. Standard error goes to log, and so does standard output if stdout is nil.
func (s *Store) run(ctx context.Context, l limits, stdout, log io.Writer, args ...string) error {
	return s.runWith(ctx, l, nil, stdout, log, args...)
}

// runWith is run with standard input.
func (s *Store) runWith(ctx context.Context, l limits, stdin io.Reader, stdout, log io.Writer, args ...string) error {
	last := &tail{most: 4000}
	log = io.MultiWriter(log, last)
	cmd := s.command(ctx, append(s.flags(), args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, log, log
	if stdout != nil {
		cmd.Stdout = stdout
	}
	var exceeded atomic.Pointer[error]
	err := runLocked(cmd, func(done <-chan struct{}) { l.watch(cmd, &exceeded, done) })
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case exceeded.Load() != nil:
		return *exceeded.Load()
	case ctx.Err() != nil:
		return ctx.Err()
	case failed:
		return &Failure{Command: args[0], Status: exit.ExitCode(), Message: errorIn(last.String())}
	}
	return err
}

// command returns a command of buildah as the first process of a PID namespace of its own, if this process may create
// one. Its environment has nothing of this process.
func (s *Store) command(ctx context.Context, args ...string) *exec.Cmd {
	name, args := s.program, args
	if unshare, err := exec.LookPath("unshare"); err == nil && os.Geteuid() == 0 {
		args = append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", name}, args...)
		name = unshare
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.dir, "home"), "TMPDIR=" + filepath.Join(s.dir, "tmp"), "LANG=C.UTF-8",
	}
	for _, name := range []string{"REGISTRY_AUTH_FILE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if value := os.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	DieWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// runLocked runs a command on one thread: the kernel kills the command when the thread that started it ends.
func runLocked(cmd *exec.Cmd, watch func(done <-chan struct{})) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go watch(done)
	return cmd.Wait()
}

// watch kills a command when it exceeds a limit. Runtimes do not enforce limits on memory everywhere: not without
// cgroups, and not in a chroot.
func (l limits) watch(cmd *exec.Cmd, exceeded *atomic.Pointer[error], done <-chan struct{}) {
	if l.memory <= 0 && l.disk <= 0 {
		return
	}
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var nextDisk time.Time
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		var err error
		if l.memory > 0 && memoryOf(cmd.Process.Pid) > l.memory {
			err = fmt.Errorf("%w: the limit is %d MB", ErrMemory, l.memory>>20)
		}
		if start := time.Now(); l.disk > 0 && start.After(nextDisk) {
			if l.use() > l.disk {
				err = fmt.Errorf("%w: the limit is %d MB", ErrDisk, l.disk>>20)
			}
			nextDisk = time.Now().Add(10 * time.Since(start))
		}
		if err != nil {
			exceeded.Store(&err)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return
		}
	}
}

// memoryOf returns the resident bytes of a process and its descendants.
func memoryOf(pid int) (bytes int64) {
	parents, resident := map[int]int{}, map[int]int64{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 22 || fields[0] == "Z" {
			continue
		}
		parents[id], _ = strconv.Atoi(fields[1])
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		resident[id] = pages * int64(os.Getpagesize())
	}
	for id, size := range resident {
		for p, depth := id, 0; p != 0 && depth < 100; p, depth = parents[p], depth+1 {
			if p == pid {
				bytes += size
				break
			}
		}
	}
	return bytes
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-t.most):]...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
