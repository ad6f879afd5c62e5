package kubestack_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"stackyard/internal/clients/kubestack"
	"stackyard/internal/clients/kubestack/kubetest"
)

func TestLease_HasOneLeaderAndPassesOn(t *testing.T) {
	api := kubetest.NewAPI(t)
	lease := func(holder string) *kubestack.Lease {
		cluster, err := kubestack.NewCluster(&rest.Config{Host: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		return &kubestack.Lease{Cluster: cluster, Namespace: "builds", Name: "stack", Holder: holder, Log: slog.New(slog.DiscardHandler)}
	}
	leaders := make(chan string)
	ctx, stop := context.WithCancel(t.Context())
	firstCtx, stopFirst := context.WithCancel(ctx)
	ended := make(chan error, 2)
	lead := func(ctx context.Context, holder string) {
		ended <- lease(holder).Lead(ctx, func(ctx context.Context) error {
			leaders <- holder
			<-ctx.Done()
			return nil
		})
	}
	go lead(firstCtx, "first")
	if got := <-leaders; got != "first" {
		t.Fatalf("%s leads", got)
	}
	go lead(ctx, "second")
	stopFirst() // it releases the lease
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-leaders; got != "second" {
		t.Errorf("%s leads", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLease_EndsWhenLeadingFails(t *testing.T) {
	api := kubetest.NewAPI(t)
	cluster, err := kubestack.NewCluster(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	lease := &kubestack.Lease{Cluster: cluster, Namespace: "builds", Name: "stack", Holder: "x", Log: slog.New(slog.DiscardHandler)}
	wrong := errors.New("cannot register")
	if err := lease.Lead(t.Context(), func(context.Context) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}
