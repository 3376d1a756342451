package authz

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// waiting is a long-running request under a grant.
type waiting struct{ end context.CancelCauseFunc }

// Live returns an error unless a grant and all grants that it derives from are in force. Codes:
// Unauthenticated, with the reason in the details; Unavailable if permissions have not loaded.
// Known is false if the grant is unknown.
func (x *Index) Live(grant string, now time.Time) (known bool, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case !x.knows(now):
		return true, unknown.err("", Target{})
	case x.grants[grant] == nil:
		return false, ended()
	case x.each(grant, now, func(*granted) answer { return granting }) != granting:
		return true, ended()
	}
	return true, nil
}

func ended() *sluice.Error {
	return refuse(Revoked, "the grant, or a grant that it derives from, was revoked or has expired")
}

// While returns a context that ends with ctx, or as soon as the caller's grant ends. In the latter
// case its cause is the error that Lost returns. For a caller without a grant it ends only with
// ctx.
func (x *Index) While(ctx context.Context, c sluice.Caller) (context.Context, context.CancelFunc) {
	if c.Grant == "" {
		return context.WithCancel(ctx)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	ctx, expire := context.WithDeadlineCause(ctx, x.lasts(c.Grant), ended())
	ctx, end := context.WithCancelCause(ctx)
	w := &waiting{end}
	if x.waits[c.Grant] == nil {
		x.waits[c.Grant] = map[*waiting]struct{}{}
	}
	x.waits[c.Grant][w] = struct{}{}
	return ctx, func() {
		expire()
		x.leave(c.Grant, w)
	}
}

// Lost returns the error (Unauthenticated) if a context of While has ended because the caller's
// grant has; nil otherwise.
func Lost(ctx context.Context) error {
	if err := context.Cause(ctx); sluice.CodeOf(err) == sluice.Unauthenticated {
		return err //nolint:wrapcheck // an error of this package
	}
	return nil
}

func (x *Index) leave(grant string, w *waiting) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if delete(x.waits[grant], w); len(x.waits[grant]) == 0 {
		delete(x.waits, grant)
	}
}

// lasts returns the end of a grant, which is the earliest end in its chain; the zero time if a
// grant in the chain was revoked or is unknown. The caller holds the lock.
func (x *Index) lasts(grant string) (until time.Time) {
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[grant]
		if g == nil || g.RevokedAt != nil {
			break
		}
		if until.IsZero() || g.ExpiresAt.Before(until) {
			until = g.ExpiresAt
		}
		if grant = g.Parent; grant == "" {
			return until
		}
	}
	return time.Time{}
}

// stopWaiting ends the requests that wait under a revoked grant. The caller holds the lock.
func (x *Index) stopWaiting() {
	for grant, all := range x.waits {
		if !x.lasts(grant).IsZero() {
			continue
		}
		for w := range all {
			w.end(ended())
		}
	}
}
