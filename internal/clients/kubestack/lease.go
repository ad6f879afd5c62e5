package kubestack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stackyard/internal/clients/sleep"
)

// Times of the election. A new leader follows a dead one after the lease's duration, and one that stops
// releases the lease at once.
const (
	leaseDuration = 15 * time.Second
	leaseRenewal  = 3 * time.Second
	leaseTimeout  = 2 * time.Second
)

// A Lease makes one of several controllers the leader. It guards efficiency, not correctness: two leaders for a
// moment would create objects with the same names, and the second gets them refused.
type Lease struct {
	Cluster   *Cluster
	Namespace string
	Name      string
	Holder    string // identifies this process
	Log       *slog.Logger

	seen     string    // the holder and renewal that were read last
	seenTime time.Time // by our clock, so that clocks of nodes need not agree
}

// Lead calls lead while this process is the leader, and returns when ctx is done or lead fails. The context of
// lead ends when another process may have become the leader.
func (l *Lease) Lead(ctx context.Context, lead func(context.Context) error) error {
	for {
		if !l.acquire(ctx) {
			return nil
		}
		l.Log.Info("leading", "lease", l.Name, "holder", l.Holder)
		leading, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- lead(leading) }()
		lost := l.hold(leading, ended)
		stop()
		err := <-ended
		if !lost {
			l.release(context.WithoutCancel(ctx))
		}
		if ctx.Err() != nil || err != nil {
			return err
		}
	}
}

// acquire waits until this process has the lease. It returns false when ctx is done first.
func (l *Lease) acquire(ctx context.Context) bool {
	for {
		ok, err := l.try(ctx)
		if ok {
			return true
		}
		if err != nil && ctx.Err() == nil {
			l.Log.Warn("acquire lease failed", "lease", l.Name, "error", err)
		}
		if !sleep.For(ctx, leaseRenewal) {
			return false
		}
	}
}

// hold renews the lease until ctx is done, lead has ended, or the lease is lost.
func (l *Lease) hold(ctx context.Context, ended chan error) (lost bool) {
	renewed := time.Now()
	tick := time.NewTicker(leaseRenewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case err := <-ended:
			ended <- err
			return false
		case <-tick.C:
		}
		began := time.Now()
		ok, err := l.try(ctx)
		if ok {
			renewed = began
			continue
		}
		if err == nil || time.Since(renewed) > leaseDuration-leaseRenewal {
			l.Log.Warn("lost lease", "lease", l.Name, "error", err)
			return true
		}
	}
}

// try takes or renews the lease if no other process has it.
func (l *Lease) try(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	var lease coordinationv1.Lease
	err := l.Cluster.coordination.Get().Namespace(l.Namespace).Resource("leases").Name(l.Name).Do(ctx).Into(&lease)
	if apierrors.IsNotFound(err) {
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}
		l.claim(&lease)
		return taken(l.Cluster.coordination.Post().Namespace(l.Namespace).Resource("leases").Body(&lease).Do(ctx).Error())
	}
	if err != nil {
		return false, fmt.Errorf("read the lease: %w", err)
	}
	if holder := value(lease.Spec.HolderIdentity); holder != "" && holder != l.Holder && !l.expired(&lease) {
		return false, nil
	}
	l.claim(&lease)
	// The resource version makes the update fail if another process was faster.
	return taken(l.Cluster.coordination.Put().Namespace(l.Namespace).Resource("leases").Name(l.Name).Body(&lease).Do(ctx).Error())
}

func taken(err error) (bool, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// expired reports whether the holder of a lease has not renewed it for its duration.
func (l *Lease) expired(lease *coordinationv1.Lease) bool {
	seen := value(lease.Spec.HolderIdentity)
	if lease.Spec.RenewTime != nil {
		seen += lease.Spec.RenewTime.Format(time.RFC3339Nano)
	}
	if seen != l.seen {
		l.seen, l.seenTime = seen, time.Now()
	}
	return time.Since(l.seenTime) > leaseDuration
}

func (l *Lease) claim(lease *coordinationv1.Lease) {
	now := metav1.NowMicro()
	if value(lease.Spec.HolderIdentity) != l.Holder {
		lease.Spec.AcquireTime = &now
		lease.Spec.LeaseTransitions = ptr(value(lease.Spec.LeaseTransitions) + 1)
	}
	lease.Spec.HolderIdentity = ptr(l.Holder)
	lease.Spec.LeaseDurationSeconds = ptr(int32(leaseDuration.Seconds()))
	lease.Spec.RenewTime = &now
}

// release gives the lease up, so that another process need not wait until it expires.
func (l *Lease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	var lease coordinationv1.Lease
	err := l.Cluster.coordination.Get().Namespace(l.Namespace).Resource("leases").Name(l.Name).Do(ctx).Into(&lease)
	if err == nil && value(lease.Spec.HolderIdentity) == l.Holder {
		lease.Spec.HolderIdentity = nil
		err = l.Cluster.coordination.Put().Namespace(l.Namespace).Resource("leases").Name(l.Name).Body(&lease).Do(ctx).Error()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		l.Log.Warn("release lease failed", "lease", l.Name, "error", err)
	}
}

// value returns what a pointer points to, or zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
