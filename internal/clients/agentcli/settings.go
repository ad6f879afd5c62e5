package agentcli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/cgroup"
	"stackyard/internal/clients/runner/container"
	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/platform/rfb"
)

// connectionSettings are shared by agents and stacks: the server and the token.
var connectionSettings = []cmdline.Setting{
	{Flag: "endpoint", Variable: "SERVICE_AGENT_ENDPOINT", Unset: "http://127.0.0.1:8080/v3", Usage: "agent URL of the server, ending with /v3"},
	{Flag: "token", Variable: "SERVICE_AGENT_TOKEN", Usage: "agent token of a cluster, or for an agent a job acquisition token; required", Secret: true, FileFlag: true},
}

// JobUserSetting is the setting for the user that runs jobs.
var JobUserSetting = cmdline.Setting{Flag: "job-user", Variable: "SERVICE_AGENT_JOB_USER", Usage: "user that runs jobs; the agent must run as root (default: the agent's user)"}

var agentSettings = slices.Concat(connectionSettings, []cmdline.Setting{
	{Flag: "name", Variable: "SERVICE_AGENT_NAME", Unset: "%hostname-%spawn", Usage: "name of the agent; %hostname, %pid, %spawn and %random are replaced"},
	{Flag: "queue", Variable: "SERVICE_AGENT_QUEUE", Usage: "queue to take jobs from (default: the cluster's default queue)"},
	{Flag: "tags", Variable: "SERVICE_AGENT_TAGS", Usage: "tags as key=value, repeatable", List: true},
	{Flag: "priority", Variable: "SERVICE_AGENT_PRIORITY", Usage: "agents with a higher priority get jobs first"},
	{Flag: "spawn", Variable: "SERVICE_AGENT_SPAWN", Unset: "1", Usage: "number of agents; each runs one job at a time"},
	{Flag: "acquire-job", Variable: "SERVICE_AGENT_ACQUIRE_JOB", Usage: "run only the job with this id, then disconnect"},
	{Flag: "disconnect-after-job", Variable: "SERVICE_AGENT_DISCONNECT_AFTER_JOB", Usage: "disconnect after one job", OnOff: true},
	{Flag: "disconnect-after-idle", Variable: "SERVICE_AGENT_DISCONNECT_AFTER_IDLE", Unset: "0", Usage: "disconnect after this many seconds without a job; 0: never"},
	{Flag: "build-path", Variable: "SERVICE_AGENT_BUILD_PATH", Usage: "directory of checkouts (default: below the system's temporary directory)"},
	{Flag: "hooks-path", Variable: "SERVICE_AGENT_HOOKS_PATH", Usage: "directory of the agent's hooks (default: none)"},
	{Flag: "plugins-path", Variable: "SERVICE_AGENT_PLUGINS_PATH", Usage: "directory that keeps checkouts of plugins for later jobs (default: each job fetches its own)"},
	{Flag: "plugins-lock", Variable: "SERVICE_AGENT_PLUGINS_LOCK", Usage: "file with the plugins that may run and their checksums, from \"stackyard tool lock-plugins\" (default: all may run)"},
	{Flag: "plugins-offline", Variable: "SERVICE_AGENT_PLUGINS_OFFLINE", Usage: "fetch no plugins; use those in --plugins-path", OnOff: true},
	{Flag: "no-plugins", Variable: "SERVICE_AGENT_NO_PLUGINS", Usage: "refuse steps with plugins", OnOff: true},
	{Flag: "shell", Variable: "SERVICE_AGENT_SHELL", Usage: "shell that runs commands (default: /bin/bash -e -c, or /bin/sh where there is no bash)"},
	{Flag: "cancel-grace-period", Variable: "SERVICE_AGENT_CANCEL_GRACE_PERIOD", Unset: "10", Usage: "seconds a canceled job has to stop before it is killed"},
	JobUserSetting,
	{Flag: "git-mirrors-path", Variable: "SERVICE_AGENT_GIT_MIRRORS_PATH", Usage: "directory of mirrors of repositories that all jobs of this machine share (default: none)"},
	{Flag: "git-timeout", Variable: "SERVICE_AGENT_GIT_TIMEOUT", Unset: "1800", Usage: "maximum seconds of a checkout; 0: no limit"},
	{Flag: "vnc-address", Variable: "SERVICE_AGENT_VNC_ADDRESS", Usage: "VNC server with the desktop of this machine, as HOST:PORT or the path of a socket (default: none)"},
	{Flag: "vnc-password", Variable: "SERVICE_AGENT_VNC_PASSWORD", Usage: "password of --vnc-address, if it requires one", Secret: true, FileFlag: true},
	{Flag: "job-memory", Variable: "SERVICE_AGENT_JOB_MEMORY", Usage: "most memory of a job, such as 4g; needs control groups (default: no limit)"},
	{Flag: "job-cpus", Variable: "SERVICE_AGENT_JOB_CPUS", Usage: "most CPUs of a job, such as 1.5; needs control groups (default: no limit)"},
	{Flag: "job-tasks", Variable: "SERVICE_AGENT_JOB_TASKS", Usage: "most processes and threads of a job; needs control groups (default: no limit)"},
	{Flag: "step-images", Variable: "SERVICE_AGENT_STEP_IMAGES", Unset: "run", Usage: "what to do with steps that have an image: run them in a container, ignore it, or refuse them"},
	{Flag: "container-command", Variable: "SERVICE_AGENT_CONTAINER_COMMAND", Usage: "container runtime with its global arguments (default: the first of podman, docker and nerdctl that is installed)"},
	{Flag: "container-run-args", Variable: "SERVICE_AGENT_CONTAINER_RUN_ARGS", Usage: "further arguments of the runtime's run command, such as --network host"},
	{Flag: "signing-jwks-file", Variable: "SERVICE_AGENT_SIGNING_JWKS_FILE", Usage: "private keys that sign the pipelines which jobs upload; jobs cannot read them if they run as --job-user (default: none)"},
	{Flag: "signing-jwks-key-id", Variable: "SERVICE_AGENT_SIGNING_JWKS_KEY_ID", Usage: "key of --signing-jwks-file, if it has several"},
	{Flag: "verification-jwks-file", Variable: "SERVICE_AGENT_VERIFICATION_JWKS_FILE", Usage: "public keys that verify the signatures of jobs before they run (default: none)"},
	{Flag: "unsigned-jobs", Variable: "SERVICE_AGENT_UNSIGNED_JOBS", Unset: "block", Usage: "with --verification-jwks-file, what to do with jobs that have no signature: block or warn"},
	{Flag: "notice", Variable: "SERVICE_AGENT_NOTICE", Usage: "line at the start of each job's log, for example about the machine (default: none)"},
	{Flag: "command-socket", Variable: "SERVICE_AGENT_COMMAND_SOCKET", Usage: "socket of \"stackyard agent run-commands\" in another container, which runs the commands of jobs (default: they run here)"},
	{Flag: "log-format", Variable: "SERVICE_AGENT_LOG_FORMAT", Usage: "text or json (default: text on a terminal, else json)"},
})

// acquisitionTokenPrefix is how tokens for one job start.
const acquisitionTokenPrefix = "svcjat_"

// agentOptions parses the settings of an agent. It returns all errors at once.
func agentOptions(cmd *cobra.Command) (runner.Options, error) {
	values, gathered := cmdline.Gather(cmd, agentSettings, nil)
	p := agentParser{values: values, errs: []error{gathered}}
	log, err := cmdline.NewLogger(values["log-format"], "")
	p.note(err)
	executable, err := os.Executable()
	p.note(err)
	o := runner.Options{
		Endpoint:            p.url("endpoint"),
		Token:               p.required("token"),
		Version:             cmdline.Version,
		Name:                values["name"],
		Priority:            p.integer("priority"),
		Tags:                p.tags("tags"),
		Queue:               values["queue"],
		Spawn:               p.number("spawn", 1),
		AcquireJob:          values["acquire-job"],
		DisconnectAfterJob:  p.onOff("disconnect-after-job"),
		DisconnectAfterIdle: p.seconds("disconnect-after-idle"),
		BuildPath:           p.path("build-path"),
		HooksPath:           p.path("hooks-path"),
		PluginsPath:         p.path("plugins-path"),
		PluginsLock:         p.pluginsLock(),
		PluginsOffline:      p.onOff("plugins-offline"),
		NoPlugins:           p.onOff("no-plugins"),
		Shell:               DefaultShell(values["shell"]),
		CancelGrace:         p.seconds("cancel-grace-period"),
		GitMirrors:          p.path("git-mirrors-path"),
		GitTimeout:          p.seconds("git-timeout"),
		JobUser:             p.user("job-user"),
		Executable:          executable,
		VNC:                 rfb.Server{Address: p.address("vnc-address"), Password: values["vnc-password"]},
		Limits:              cgroup.Limits{Memory: p.size("job-memory"), CPUs: p.cpus("job-cpus"), Tasks: p.optional("job-tasks")},
		Containers:          p.containers(),
		Images:              p.images(),
		SigningKey:          p.signingKey(),
		VerifyKeys:          p.verifyKeys(),
		AllowNoSign:         p.oneOf("unsigned-jobs", "block", "warn") == "warn",
		Notice:              values["notice"],
		CommandSocket:       p.path("command-socket"),
		Log:                 log,
	}
	if o.BuildPath == "" {
		o.BuildPath, err = temporaryBuildPath(o.JobUser)
		p.note(err)
	}
	if strings.HasPrefix(o.Token, acquisitionTokenPrefix) && o.AcquireJob == "" {
		p.note(errors.New("--token is a job acquisition token, which is for one job only; name that job with --acquire-job [SERVICE_AGENT_ACQUIRE_JOB]"))
	}
	if o.PluginsPath != "" && o.JobUser != nil {
		p.note(errors.New("--plugins-path: the user of --job-user could change plugins of later jobs; remove one of them"))
	}
	if o.GitMirrors != "" && o.JobUser != nil {
		p.note(errors.New("--git-mirrors-path: the user of --job-user could not write mirrors that only the agent may change; remove one of them"))
	}
	if o.AcquireJob != "" && o.Spawn > 1 {
		p.note(errors.New("--acquire-job: one job can be run by one agent only; leave out --spawn"))
	}
	return o, errors.Join(p.errs...)
}

// An agentParser parses settings and collects errors.
type agentParser struct {
	values map[string]string
	errs   []error
}

func (p *agentParser) note(err error) { p.errs = append(p.errs, err) }

func (p *agentParser) wrong(flag, format string, args ...any) {
	p.note(fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

func (p *agentParser) required(flag string) string {
	if p.values[flag] == "" {
		p.wrong(flag, "is required; create one with \"stackyard token create\"")
	}
	return p.values[flag]
}

func (p *agentParser) url(flag string) string {
	address, err := url.Parse(p.values[flag])
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		p.wrong(flag, "%q is not a URL such as https://ci.example.com/v3", p.values[flag])
	}
	return p.values[flag]
}

// integer returns a text that is an integer or empty.
func (p *agentParser) integer(flag string) string {
	if _, err := strconv.Atoi(p.values[flag]); err != nil && p.values[flag] != "" {
		p.wrong(flag, "%q is not a whole number", p.values[flag])
	}
	return p.values[flag]
}

func (p *agentParser) number(flag string, least int) int {
	n, err := strconv.Atoi(p.values[flag])
	if err != nil || n < least {
		p.wrong(flag, "%q is not a whole number from %d on", p.values[flag], least)
	}
	return n
}

func (p *agentParser) seconds(flag string) time.Duration {
	return time.Duration(p.number(flag, 0)) * time.Second
}

func (p *agentParser) onOff(flag string) bool {
	if p.values[flag] == "" {
		return false
	}
	on, err := strconv.ParseBool(p.values[flag])
	if err != nil {
		p.wrong(flag, "%q is neither true nor false", p.values[flag])
	}
	return on
}

func (p *agentParser) tags(flag string) []string {
	tags, err := runner.ParseTags(p.values[flag])
	if err != nil {
		p.wrong(flag, "%v", err)
	}
	return tags
}

func (p *agentParser) user(flag string) *osuser.User {
	user, err := JobUser(p.values[flag])
	p.note(err)
	return user
}

// JobUser returns the user that jobs run as, or nil.
func JobUser(name string) (*osuser.User, error) {
	if name == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("--job-user: only root can run jobs as another user; start this as root, or run it as %s without --job-user", name)
	}
	user, err := osuser.LookUp(name)
	if err != nil {
		return nil, fmt.Errorf("--job-user: %w", err)
	}
	if user.UID == 0 {
		return nil, fmt.Errorf("--job-user: %s is root, which can read all secrets; choose another user", name)
	}
	return user, nil
}

// size returns a number of bytes, with an optional unit k, m, g or t, or 0.
func (p *agentParser) size(flag string) int64 {
	text := strings.ToLower(p.values[flag])
	if text == "" {
		return 0
	}
	shift := 10 * (strings.IndexByte("kmgt", text[len(text)-1]) + 1)
	digits := text
	if shift > 0 {
		digits = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		p.wrong(flag, "%q is not a size such as 512m or 4g", p.values[flag])
		return 0
	}
	return n << shift
}

func (p *agentParser) cpus(flag string) float64 {
	if p.values[flag] == "" {
		return 0
	}
	n, err := strconv.ParseFloat(p.values[flag], 64)
	if err != nil || n < 0.01 || n > 10_000 {
		p.wrong(flag, "%q is not a number of CPUs such as 1.5", p.values[flag])
	}
	return n
}

// optional returns a positive number, or 0 if there is none.
func (p *agentParser) optional(flag string) int {
	if p.values[flag] == "" {
		return 0
	}
	return p.number(flag, 1)
}

// containers returns the container runtime, or nil if there is none.
func (p *agentParser) containers() *container.Runtime {
	runtime := container.Find()
	if words := strings.Fields(p.values["container-command"]); len(words) > 0 {
		path, err := exec.LookPath(words[0])
		if err != nil {
			p.wrong("container-command", "%v", err)
			return nil
		}
		words[0] = path
		runtime = &container.Runtime{Command: words}
	}
	if runtime != nil {
		runtime.RunArgs = strings.Fields(p.values["container-run-args"])
	}
	return runtime
}

func (p *agentParser) images() runner.ImagePolicy {
	policy := p.oneOf("step-images", "run", string(runner.IgnoreImages), string(runner.RefuseImages))
	if policy == "run" {
		return runner.RunImages
	}
	return runner.ImagePolicy(policy)
}

// address returns a host and port, or the path of a socket.
func (p *agentParser) address(flag string) string {
	text := p.values[flag]
	if _, _, err := net.SplitHostPort(text); err != nil && text != "" && !filepath.IsAbs(text) {
		p.wrong(flag, "%q is neither an address such as 127.0.0.1:5900 nor an absolute path", text)
	}
	return text
}

// path returns an absolute path.
func (p *agentParser) path(flag string) string {
	if p.values[flag] == "" {
		return ""
	}
	path, err := filepath.Abs(p.values[flag])
	p.note(err)
	return path
}

// temporaryBuildPath returns a directory for checkouts below the system's temporary directory. Every user can
// write there, so it must not belong to another user, who could inject code into jobs.
func temporaryBuildPath(jobUser *osuser.User) (string, error) {
	path := filepath.Join(os.TempDir(), "stackyard-builds-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("--build-path: %w", err)
	}
	about, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("--build-path: %w", err)
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); !about.IsDir() || ok && int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("--build-path: %s does not belong to you; choose another directory", path)
	}
	if jobUser != nil { // the user must be able to reach the checkouts
		if err := os.Chmod(path, 0o711); err != nil {
			return "", fmt.Errorf("--build-path: %w", err)
		}
	}
	return path, nil
}

// DefaultShell splits the command line of a shell; "" is the default shell.
func DefaultShell(given string) []string {
	if given != "" {
		return strings.Fields(given)
	}
	if _, err := os.Stat("/bin/bash"); err == nil {
		return []string{"/bin/bash", "-e", "-c"}
	}
	return []string{"/bin/sh", "-e", "-c"}
}
