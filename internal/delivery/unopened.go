package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// openError says that a runner could not open its subscription, and why.
type openError struct{ error }

// Unwrap returns the cause.
func (e *openError) Unwrap() error { return e.error }

const (
	unopenedNoted = 2               // consecutive failures before the status shows it, because one may be a restart of NATS
	unopenedQuiet = 5 * time.Second // how long the position of a subscription may be unknown without a warning
	unopenedLimit = 2 * time.Second // timeout for storing it
)

// unopened handles the end of a run. If the runner could not open its subscription, the metrics
// show that and, after several failures, so does the subscription's status, until the runner
// succeeds. The status does not show a store that does not answer, because that is not a fault of
// the subscription, and the server's readiness reports it.
func (r *runner) unopened(ctx context.Context, err error) {
	failed, ok := errors.AsType[*openError](err)
	if !ok {
		r.failures = 0
		return
	}
	if r.failures++; r.failures == 1 {
		r.unopenedAt = time.Now()
	}
	r.board.unopened()
	if r.failures < unopenedNoted || sluice.CodeOf(failed) == sluice.Unavailable {
		return
	}
	limit, cancel := context.WithTimeout(ctx, unopenedLimit)
	defer cancel()
	err = r.restoreHealth(limit)
	if err == nil && r.record.stored.Unopened != failed.Error() {
		h := r.record.stored
		h.Unopened, h.Revision = failed.Error(), r.sub.Revision
		err = r.record.put(limit, r.sub, h)
	}
	if err != nil {
		r.log.WarnContext(ctx, "health not stored", slog.String("subscription", r.id), slog.Any("error", err))
	}
}

// severity returns the level at which the end of a run is logged.
func (r *runner) severity(err error) slog.Level {
	switch {
	case errors.Is(err, errMoved), r.failures > 0 && sluice.CodeOf(err) == sluice.Unavailable && time.Since(r.unopenedAt) < unopenedQuiet: // its position is not known yet
		return slog.LevelDebug
	case errors.Is(err, errSourceEnded):
		return slog.LevelInfo
	}
	return slog.LevelWarn
}
