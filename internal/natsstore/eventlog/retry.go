package eventlog

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// publishPatience is the time for which publishing is retried: an unplanned change of the leader
// takes five to eight seconds.
const publishPatience = 20 * time.Second

// retry calls try, which stores messages with IDs, until it succeeds or its error is final, for
// publishPatience at most. When the dedup window of the namespace may have forgotten the IDs of a
// try without an answer, no other one begins: it might store the messages twice.
func (l *Log) retry(ctx context.Context, ns string, try func() error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(publishPatience))
	var began time.Time // the first try without an answer
	var failed error    // of the last try
	var window time.Duration
	return backoff.Retry(func() error {
		err := l.core.Writable() //nolint:contextcheck // it asks a context of the server's
		if err == nil {
			err = l.core.Reachable(ctx)
		}
		if err == nil && !began.IsZero() && window == 0 {
			window, err = l.dedupWindow(ctx, ns)
		}
		if err != nil {
			return l.core.Retryable(ctx, err)
		}
		now := time.Now()
		if !began.IsZero() && now.Sub(began) > retryWithin(window) {
			return backoff.Permanent(failed)
		}
		if failed = try(); began.IsZero() && isUnsure(failed) {
			began = now
		}
		return l.core.Retryable(ctx, failed)
	}, backoff.WithContext(wait, ctx))
}

// retryWithin returns how long after a try another one may begin, so that it arrives within the
// dedup window.
func retryWithin(window time.Duration) time.Duration {
	return max(window/2, window-natsstore.RequestTimeout)
}

// isUnsure reports whether a try with this error may have stored its messages.
func isUnsure(err error) bool {
	return err != nil && natsstore.APICode(err) == 0 && !isUnanswered(err) && !errors.Is(err, errTryRest)
}

// dedupWindow returns for how long the log of a namespace remembers the IDs of its messages.
func (l *Log) dedupWindow(ctx context.Context, ns string) (time.Duration, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return 0, err
	}
	return info.Config.Duplicates, nil
}
