package wake

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// errWithin says that a consumer has no position beyond the end of the log.
var errWithin = errors.New("no position is beyond the end of the log")

// moveBack handles a log that lost its last messages in a crash: new messages get their sequences,
// and consumers that are beyond its end would not count them as new. It moves their positions back
// to the beginning: which messages are new is unknown, and some may be before the present end. A
// receiver of such a consumer gets messages again.
func (r *runner) moveBack(ctx context.Context) error {
	sub := r.sub.Load()
	end, err := r.engine.ports.Streams.End(ctx, sub.Namespace)
	if err != nil {
		return err
	}
	for _, path := range r.beyond(end) {
		back, err := r.engine.change(ctx, sub, path, Entry{}, func(ctx context.Context, c Consumer) (Input, error) {
			return r.backInput(ctx, sub, c)
		})
		switch {
		case r.isLost(ctx, sub, err):
			return backoff.Permanent(err)
		case errors.Is(err, errWithin):
			continue
		case err != nil:
			return err
		}
		r.engine.opts.Log.LogAttrs(ctx, slog.LevelWarn, "the log ends before the position of a wake consumer",
			slog.String("subscription", sub.ID), slog.String("path", string(back.Consumer.Path)), slog.Uint64("last", end))
	}
	return nil
}

// beyond returns the consumers that have a position beyond a sequence.
func (r *runner) beyond(end uint64) (paths []sluice.Path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, en := range r.all {
		if en.Consumer.Of == r.of && en.Consumer.beyond(end) {
			paths = append(paths, path)
		}
	}
	return paths
}

// backInput returns the input that moves a consumer back from beyond the end of the log. It reads
// the end again, after the consumer's record: messages that were stored since moveBack read it may
// have been acknowledged.
func (r *runner) backInput(ctx context.Context, sub *sluice.Subscription, c Consumer) (Input, error) {
	end, err := r.engine.ports.Streams.End(ctx, sub.Namespace)
	if err == nil && !c.beyond(end) {
		err = errWithin
	}
	if err != nil {
		return Input{}, err
	}
	back := c.back(end)
	tails, err := r.engine.tails(ctx, sub, c.Path, c.Paths())
	return Input{Instead: &back, Tails: tails}, err
}

// beyond reports whether the consumer has a position beyond a sequence.
func (c *Consumer) beyond(end uint64) bool {
	return c.Since > end || slices.ContainsFunc(c.Streams, func(p Position) bool { return p.Acked > end })
}

// back returns the consumer with the positions that are beyond a sequence at the beginning. An
// existing consumer began at the end at the latest: deletions of its stream before that do not
// affect it. A removed one begins again with any message.
func (c Consumer) back(end uint64) Consumer {
	c = c.clone()
	switch {
	case c.Since <= end:
	case c.State == sluice.WakeRemoved:
		c.Since = 0
	default:
		c.Since = end
	}
	for i, p := range c.Streams {
		if p.Acked > end {
			c.Streams[i].Acked = 0
		}
	}
	return c
}
