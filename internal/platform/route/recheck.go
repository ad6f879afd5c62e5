package route

import (
	"context"
	"net/http"

	"stackyard/internal/platform/core"
)

// WhileAllowed returns a context for an answer that takes long. It ends when the request would be refused now: the token
// was revoked or has expired, the organization was suspended, or access to the resource was taken away. stop
// releases what it holds.
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
	if r.recheck(ctx) != nil { // it changed before there was anything to hear of it
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

// recheck takes a request through its gates once more, apart from rate limits.
func (r *Request) recheck(ctx context.Context) error {
	again := &Request{Request: r.Request.WithContext(ctx), Address: r.Address, route: r.route, server: r.server, w: unanswered{}}
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

// unanswered stands for the response to a request that is only checked.
type unanswered struct{}

func (unanswered) Header() http.Header         { return http.Header{} }
func (unanswered) Write(b []byte) (int, error) { return len(b), nil }
func (unanswered) WriteHeader(int)             {}
