package route

import (
	"context"
	"net/http"

	"stackyard/internal/platform/core"
)

// WhileAllowed returns a context for a stream. It ends when the request would be refused now: the token was
// revoked or has expired, the organization was suspended, or access to the resource was removed. stop releases
// its resources.
func (r *Request) WhileAllowed(clock core.Clock) (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(r.Context())
	if c := r.Caller; c != nil && !c.Token.ExpiresAt.IsZero() {
		stop()
		ctx, stop = context.WithTimeout(r.Context(), c.Token.ExpiresAt.Sub(clock()))
	}
	if r.server.accessChanges == nil {
		return ctx, stop
	}
	changed := r.server.accessChanges(ctx)
	if r.recheck(ctx) != nil { // access changed before the subscription
		stop()
		return ctx, stop
	}
	go func() {
		defer stop()
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			if r.recheck(ctx) != nil {
				return
			}
		}
	}()
	return ctx, stop
}

// recheck checks a request again, apart from rate limits.
func (r *Request) recheck(ctx context.Context) error {
	again := &Request{Request: r.Request.WithContext(ctx), Address: r.Address, route: r.route, server: r.server, w: discardResponse{}}
	if err := r.server.authenticate(again); err != nil {
		return err
	}
	if err := r.server.enterOrganization(again); err != nil {
		return err
	}
	if err := r.server.authorize(again); err != nil {
		return err
	}
	if r.route.Handler.reload == nil {
		return nil
	}
	return r.route.Handler.reload(again)
}

// discardResponse replaces the response writer of a request that is only checked.
type discardResponse struct{}

func (discardResponse) Header() http.Header         { return http.Header{} }
func (discardResponse) Write(b []byte) (int, error) { return len(b), nil }
func (discardResponse) WriteHeader(int)             {}
