package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/artifact"
	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/inside"
	"stackyard/internal/clients/runner/shell"
)

// run runs the phases of a job. The phases after the command run even if it failed; the first failure counts.
func (j *job) run() outcome {
	if err := j.check(); err != nil {
		return j.conclude(err)
	}
	if err := j.addSecrets(); err != nil {
		return j.broken(err)
	}
	socket := j.sh.Env.Service(inside.SocketVariable)
	stop, err := inside.Serve(socket, inside.Agent{Redact: func(value string) { j.redactor.Add(value) }, Sign: j.signer()})
	if err != nil {
		return j.broken(err)
	}
	defer stop()
	if err := j.sh.Chown(socket); err != nil {
		return j.broken(err)
	}

	err = j.prepare()
	if err == nil {
		err = j.command()
		j.keepForDebugging(err)
		j.cleanUp()
		err = first(err, j.runHooks("post-command"))
		err = first(err, j.uploadArtifacts())
	}
	j.cleanUp()
	err = first(err, j.runHooks("pre-exit"))
	return j.conclude(err)
}

// first returns the first error that is not nil.
func first(err, later error) error {
	if err != nil {
		return err
	}
	return later
}

// prepare runs the phases before the command.
func (j *job) prepare() error {
	if err := j.preparePlugins(); err != nil {
		return err
	}
	if err := j.runHooks("environment"); err != nil {
		return err
	}
	if err := j.checkOut(); err != nil {
		return err
	}
	if err := j.findVendoredPlugins(); err != nil {
		return err
	}
	err := j.runHooks("pre-command")
	j.markPlace()
	return err
}

// cleanUp starts the phases that get no SIGTERM when the job is canceled, so that they can finish.
func (j *job) cleanUp() {
	if j.cancel.requested() {
		j.sh.Env.SetService("JOB_CANCELLED", "true")
		j.sh.Env.SetService("JOB_TIMED_OUT", strconv.FormatBool(j.cancel.timedOut))
	}
	j.sh.Stop = j.cancel.cleanupStop()
}

// checkOut checks out the repository, unless there is none or the job skips it.
func (j *job) checkOut() error {
	env := j.sh.Env
	j.spec.Step.Checkout.SetVariables(env)
	if j.w.o.WorkDir != "" {
		j.sh.Dir = j.w.o.WorkDir
		env.SetService("BUILD_CHECKOUT_PATH", j.sh.Dir)
		return nil
	}
	if env.Service("SKIP_CHECKOUT") == "true" {
		j.sh.Section(shell.Muted, "Skipping the checkout, because SERVICE_SKIP_CHECKOUT is true")
		return j.useEmptyDir()
	}
	if why := checkout.Unusable(j.ctx, env.Service("REPO")); why != "" {
		j.sh.Section(shell.Muted, "Skipping the checkout: "+why)
		return j.useEmptyDir()
	}
	if err := j.runHooks("pre-checkout"); err != nil {
		return err
	}
	workspace, err := checkout.Claim(j.w.o.BuildPath, env.Service("ORGANIZATION_SLUG"), env.Service("PIPELINE_SLUG"))
	if err != nil {
		return err
	}
	j.workspace = workspace
	c := checkout.Of(env)
	c.Dir, c.Timeout, c.Mirrors = workspace.Dir, j.w.o.GitTimeout, j.w.o.GitMirrors
	c.CredentialHelper = filepath.Join(env.Service("BIN_PATH"), "stackyard") + " agent git-credentials-helper"
	j.sh.Section(shell.Muted, "Preparing the working folder")
	if err := j.fetchRepository(c); err != nil {
		return err
	}
	env.SetService("BUILD_CHECKOUT_PATH", j.sh.Dir)
	j.reportCommit()
	return j.runHooks("post-checkout")
}

// fetchRepository checks out the repository, with git or with a checkout hook.
func (j *job) fetchRepository(c checkout.Checkout) error {
	hook, ok := j.replacement("checkout")
	if !ok {
		if err := c.Run(j.sh); err != nil {
			return fmt.Errorf("check out: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return err
	}
	if err := j.sh.Chown(c.Dir); err != nil {
		return err
	}
	j.sh.Dir = c.Dir
	j.sh.Env.SetService("BUILD_CHECKOUT_PATH", c.Dir)
	return j.runHook(hook)
}

// useEmptyDir continues in the empty directory of the job.
func (j *job) useEmptyDir() error {
	j.sh.Env.SetService("BUILD_CHECKOUT_PATH", j.sh.Dir)
	return nil
}

// commitKey is the meta-data key from which the server reads a build's commit. The protocol defines the name.
const commitKey = "buildkite:git:commit"

// reportCommit reports the checked-out commit to the server. A failure does not fail the job.
func (j *job) reportCommit() {
	env := j.sh.Env
	if sha, err := j.sh.Output("git", "rev-parse", "HEAD"); err == nil {
		env.SetService("COMMIT", sha)
	}
	if env.Service("COMMIT_RESOLVED") == "true" {
		return
	}
	err := j.sendCommit()
	if err != nil {
		j.sh.Warning("The commit could not be reported: %v", err)
	}
}

func (j *job) sendCommit() error {
	known, err := j.api.HasMetaData(j.ctx, api.InJob(j.spec.ID), commitKey)
	if err != nil || known {
		return err
	}
	about, err := j.sh.Output("git", "--no-pager", "log", "-1", "--no-color", "--format=commit %H%nabbrev-commit %h%nAuthor: %an <%ae>%n%n%w(0,4,4)%B")
	if err != nil {
		return err
	}
	return j.api.SetMetaData(j.ctx, j.spec.ID, api.MetaDatum{Key: commitKey, Value: about})
}

// command runs the step's command, or the command hook that replaces it.
func (j *job) command() error {
	err := j.runCommand()
	j.sh.Env.SetService("COMMAND_EXIT_STATUS", strconv.Itoa(statusOf(err)))
	return err
}

func (j *job) runCommand() error {
	if hook, ok := j.replacement("command"); ok {
		return j.runHook(hook)
	}
	command := j.sh.Env.Service("COMMAND")
	if strings.TrimSpace(command) == "" {
		return errNoCommand
	}
	j.sh.Section(shell.Open, "Running command")
	j.sh.Prompt(command)
	if script, ok := j.script(command); ok {
		command = script
	}
	if j.w.commands != nil {
		return j.sh.RunIn(j.w.commands, command)
	}
	if image := j.image(); image != "" {
		return j.runInContainer(command, image)
	}
	return j.sh.RunQuietly(slices.Concat(j.w.o.Shell, []string{command})...)
}

// script returns the command that runs a file of the checkout, if command names one.
func (j *job) script(command string) (string, bool) {
	name := filepath.Clean(strings.TrimSpace(command))
	// Links must not lead outside: the agent may have access to files that the job does not.
	root, err := os.OpenRoot(j.sh.Dir)
	if err != nil {
		return "", false
	}
	defer root.Close()
	about, err := root.Stat(name)
	if err != nil || !about.Mode().IsRegular() {
		return "", false
	}
	if about.Mode()&0o111 == 0 {
		root.Chmod(name, about.Mode()|0o111) // if this fails, running it reports the error
	}
	return shell.Quote([]string{"./" + name}), true
}

// uploadArtifacts uploads the files of artifact_paths.
func (j *job) uploadArtifacts() error {
	globs := j.sh.Env.Service("ARTIFACT_PATHS")
	if strings.TrimSpace(globs) == "" {
		return nil
	}
	j.sh.Section(shell.Muted, "Uploading artifacts")
	if j.sh.User != nil {
		// Run it as the job's user, because the files may be links to files that only the agent may read.
		return j.sh.RunQuietly(j.w.o.Executable, "agent", "artifact", "upload", "--", globs)
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	go func() {
		select {
		case <-j.cancel.kill:
			cancel()
		case <-ctx.Done():
		}
	}()
	upload := artifact.Upload{API: j.api, JobID: j.spec.ID, Dir: j.sh.Dir, Destination: j.sh.Env.Service("ARTIFACT_UPLOAD_DESTINATION"), Env: j.sh.Env, Logf: j.sh.Comment}
	if err := upload.Run(ctx, globs); err != nil {
		return fmt.Errorf("upload artifacts: %w", err)
	}
	return nil
}

// conclude logs why the job failed, if it did, and returns its outcome.
func (j *job) conclude(err error) outcome {
	if j.cancel.requested() {
		j.sh.Error("The job was canceled")
		return j.cancel.outcome(j.sh.Killed)
	}
	if err == nil {
		return outcome{}
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		j.sh.Error("%s", refused.message)
		return outcome{status: -1, reason: refused.reason}
	}
	j.sh.Error("The job failed: %v", err)
	return outcome{status: statusOf(err)}
}

// killedStatus is the exit status of a process that ended by a signal which the agent did not send.
const killedStatus = 255

// statusOf returns the exit status for an error.
func statusOf(err error) int {
	exit, ok := errors.AsType[*shell.ExitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		return 1
	case exit.Signal != 0:
		return killedStatus
	default:
		return exit.ExitStatus
	}
}
