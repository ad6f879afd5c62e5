package kubestack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stackyard/internal/clients/stackctl"
)

// Compute runs agents in pods.
type Compute struct {
	Options
	Cluster *Cluster
	Stack   string // key of the stack
	Log     *slog.Logger

	watcher watcher
}

// New returns a compute that watches the objects of a stack until ctx is done.
func New(ctx context.Context, cluster *Cluster, stack string, options Options, log *slog.Logger) (*Compute, error) {
	c := &Compute{Options: options, Cluster: cluster, Stack: stack, Log: log, watcher: watcher{jobs: map[string]*observed{}}}
	return c, c.watcher.run(ctx, cluster, options.Namespace, stack)
}

// Limit returns how many more jobs can be reserved: a cluster without room gets no more pods, and a crash leaves
// no more jobs reserved than these.
func (c *Compute) Limit() int { return c.MaxPending - c.watcher.pending() }

// Running implements [stackctl.Persistent]. It also removes Secrets whose Kubernetes Job was never created.
func (c *Compute) Running(ctx context.Context) ([]stackctl.Workload, error) {
	selector := managedLabel + "=" + managedBy + "," + stackLabel + "=" + c.Stack
	jobs, err := c.Cluster.jobs(ctx, c.Namespace, selector)
	if err != nil {
		return nil, err
	}
	var running []stackctl.Workload
	owned := map[string]bool{}
	for _, job := range jobs {
		owned[job.Name] = true
		if job.DeletionTimestamp == nil && job.Status.CompletionTime == nil && failedJob(&job) == "" {
			running = append(running, stackctl.Workload{JobID: job.Labels[jobLabel], Queue: job.Annotations[queueAnnotation]})
		}
	}
	secrets, err := c.Cluster.secrets(ctx, c.Namespace, selector)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		if !owned[secret.Name] {
			if err := c.Cluster.deleteSecret(ctx, c.Namespace, secret.Name); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
	}
	return running, nil
}

// tokenRenewal is how often a pod that waits gets a new token, before the old one expires.
const tokenRenewal = stackctl.TokenLifetime / 2

// Run implements [stackctl.Compute].
func (c *Compute) Run(ctx context.Context, w stackctl.Workload) error {
	changed, unfollow := c.watcher.follow(w.JobID)
	defer unfollow()
	if !w.Adopted {
		if err := c.create(ctx, w); err != nil {
			return c.left(ctx, err)
		}
	}
	f := follower{Compute: c, w: w, since: time.Now(), told: map[string]bool{}}
	err := f.wait(ctx, changed)
	if errors.Is(err, stackctl.ErrLeft) {
		return err
	}
	return errors.Join(err, f.clean(context.WithoutCancel(ctx), err))
}

// left returns ErrLeft if the process stops, else the error.
func (c *Compute) left(ctx context.Context, err error) error {
	if _, ended := errors.AsType[stackctl.Ended](context.Cause(ctx)); ctx.Err() != nil && !ended {
		return stackctl.ErrLeft
	}
	return err
}

// create creates the Secret with the token and the Kubernetes Job. Objects that exist are those of a previous
// controller, which died between creating and watching them.
func (c *Compute) create(ctx context.Context, w stackctl.Workload) error {
	job, err := w.Job(ctx)
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	p := podFor{options: c.Options, stack: c.Stack, workload: w, job: job}
	wanted, err := p.build()
	if err != nil {
		return err
	}
	if err := c.storeToken(ctx, p); err != nil {
		return fmt.Errorf("create the Secret of the job: %w", err)
	}
	created, err := c.Cluster.createJob(ctx, wanted)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create the Kubernetes Job: %w", err), c.Cluster.deleteSecret(context.WithoutCancel(ctx), c.Namespace, wanted.Name))
	}
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: created.Name, UID: created.UID}
	return c.Cluster.patchSecret(ctx, c.Namespace, wanted.Name, map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
}

// storeToken creates the Secret of a job, or replaces the token in it.
func (c *Compute) storeToken(ctx context.Context, p podFor) error {
	err := c.Cluster.createSecret(ctx, p.secret(p.workload.Token))
	if apierrors.IsAlreadyExists(err) {
		return c.replaceToken(ctx, p.workload.JobID, p.workload.Token)
	}
	return err
}

func (c *Compute) replaceToken(ctx context.Context, jobID, token string) error {
	return c.Cluster.patchSecret(ctx, c.Namespace, objectName(jobID), map[string]any{"stringData": map[string]string{tokenKey: token}})
}

// A follower waits for the end of one pod.
type follower struct {
	*Compute
	w     stackctl.Workload
	since time.Time // when the pod was created, or adopted

	told    map[string]bool // notices that were sent
	last    string          // why the pod does not run
	podName string
	started bool
	refresh time.Time // of the token
}

// maxNotices limits the notices of one job. The server has a limit of its own.
const maxNotices = 30

// checkInterval is how often time limits are checked.
const checkInterval = 5 * time.Second

// endGrace is how long a pod may run after the server has the result of its job: hooks and disconnecting.
const endGrace = 30 * time.Second

// wait waits until the pod has ended, cannot start, or must be stopped.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}) error {
	f.refresh = f.since.Add(tokenRenewal)
	if f.w.Adopted {
		f.refresh = f.since // the token's age is not known
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	stop, over := ctx.Done(), (<-chan time.Time)(nil)
	for {
		if done, err := f.look(ctx); done {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-stop:
			if err := f.left(ctx, nil); err != nil {
				return err
			}
			ended, _ := errors.AsType[stackctl.Ended](context.Cause(ctx))
			if ended.State != "finished" {
				return ended // canceled or lost: there is nothing to wait for
			}
			stop, over = nil, time.After(endGrace)
		case <-over:
			return errors.New("the pod did not end after its job")
		}
	}
}

// look reads what is known about the pod. done means that there is nothing more to wait for.
func (f *follower) look(ctx context.Context) (done bool, err error) {
	state := f.watcher.state(f.w.JobID)
	for _, notice := range state.notices {
		if !f.started {
			f.notify(ctx, notice)
		}
	}
	if state.jobGone {
		return true, errors.New("the Kubernetes Job was deleted")
	}
	if state.pod != nil {
		status := statusOf(state.pod)
		f.podName, f.started, f.last = state.pod.Name, status.started, status.notice
		f.notify(ctx, status.notice)
		if status.ended {
			if status.failure != "" {
				return true, errors.New(status.failure)
			}
			return true, nil
		}
	}
	if state.job != nil {
		if failure := failedJob(state.job); failure != "" {
			return true, errors.New(failure)
		}
	}
	if !f.started && ctx.Err() == nil {
		return f.checkWaiting(ctx)
	}
	return false, nil
}

// checkWaiting ends the wait for a pod that does not start, and gives it a new token from time to time.
func (f *follower) checkWaiting(ctx context.Context) (done bool, err error) {
	now := time.Now()
	if now.Sub(f.since) > f.StartTimeout {
		reason := f.last
		if reason == "" {
			reason = "there is no reason in its status"
		}
		return true, fmt.Errorf("the pod did not start within %s: %s", f.StartTimeout, reason)
	}
	if now.Before(f.refresh) {
		return false, nil
	}
	f.refresh = now.Add(tokenRenewal)
	token, err := f.w.NewToken(ctx)
	if err == nil {
		err = f.replaceToken(ctx, f.w.JobID, token)
	}
	if err != nil && ctx.Err() == nil {
		f.Log.Warn("replace acquisition token failed", "job", f.w.JobID, "error", err)
	}
	return false, nil
}

// notify sends a notice once.
func (f *follower) notify(ctx context.Context, notice string) {
	if notice == "" || f.told[notice] || len(f.told) >= maxNotices {
		return
	}
	f.told[notice] = true
	f.w.Notify(context.WithoutCancel(ctx), notice)
}

// cleanTimeout limits the calls that remove a job's objects.
const cleanTimeout = 10 * time.Second

// clean removes the objects of a job whose pod did not end well. Kubernetes removes the others after a while.
func (f *follower) clean(ctx context.Context, cause error) error {
	if cause == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if f.podName != "" && !f.watchedEnd() {
		// Deleting the Kubernetes Job would leave its pod the whole grace period.
		if err := f.Cluster.deletePod(ctx, f.Namespace, f.podName, 1); err != nil && !apierrors.IsNotFound(err) {
			f.Log.Warn("delete pod failed", "job", f.w.JobID, "pod", f.podName, "error", err)
		}
	}
	if f.watchedEnd() {
		return nil // people may want to read its logs
	}
	if err := f.Cluster.deleteJob(ctx, f.Namespace, objectName(f.w.JobID)); err != nil && !apierrors.IsNotFound(err) {
		f.Log.Warn("delete Kubernetes Job failed", "job", f.w.JobID, "error", err)
	}
	return nil
}

// watchedEnd reports whether the pod has ended.
func (f *follower) watchedEnd() bool {
	pod := f.watcher.state(f.w.JobID).pod
	return pod != nil && statusOf(pod).ended
}
