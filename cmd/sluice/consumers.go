package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// consumersCmd looks at wake consumers.
type consumersCmd struct {
	Sub   string `arg:"" help:"Subscription of mode wake."`
	Path  string `arg:"" optional:"" help:"Consumer to show with the attempts of its last wake: its ID, or the path of its stream."`
	State string `help:"Filter by state: idle, waking, live or removed; default: all except removed." enum:",idle,waking,live,removed" default:"" placeholder:"STATE"`
	Limit int    `help:"Maximum number of results; 0: all." default:"100"`
}

// Run lists consumers, or shows one.
func (c *consumersCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	if c.Path != "" {
		if !strings.HasPrefix(c.Path, "/") && !strings.Contains(c.Path, ":") {
			return usagef("path %q does not start with /", c.Path)
		}
		one, err := api.Consumer(ctx, c.Sub, c.Path)
		if err != nil {
			return err
		}
		return s.show(one, func() error { return s.consumerTable(one) })
	}
	all, err := collect(c.Limit, func(cursor string, most int) (client.Page[sluice.WakeConsumer], error) {
		return api.Consumers(ctx, c.Sub, client.ConsumersQuery{State: sluice.WakeState(c.State), Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			one := &all[i]
			rows[i] = []string{
				string(one.Path), string(one.State), strconv.FormatUint(one.Epoch, 10), acked(one), strconv.Itoa(len(one.Streams)),
				maybeWhen(one.WokenAt), maybeWhen(deadline(one)), strconv.Itoa(one.Failures), orDash(one.LastError),
			}
		}
		return s.table("PATH | STATE | EPOCH | ACKED | STREAMS | WOKEN | DEADLINE | FAILURES | ERROR", rows)
	})
}

// deadline is when something happens to the consumer unless something comes first.
func deadline(one *sluice.WakeConsumer) *time.Time {
	if one.NextAttempt != nil {
		return one.NextAttempt
	}
	return one.LiveUntil
}

// acked is how far the consumer's own stream is acknowledged.
func acked(one *sluice.WakeConsumer) string {
	for _, stream := range one.Streams {
		if stream.Path == one.Path {
			return stream.Acked
		}
	}
	return "-"
}

func (s *session) consumerTable(one sluice.WakeConsumer) error {
	err := s.facts("consumer", one.ID, "state", string(one.State), "epoch", strconv.FormatUint(one.Epoch, 10), "wake", one.WakeID,
		"pending", strconv.FormatBool(one.Pending), "woken", maybeWhen(one.WokenAt), "next attempt", maybeWhen(one.NextAttempt),
		"live until", maybeWhen(one.LiveUntil), "failures", strconv.Itoa(one.Failures), "failing since", maybeWhen(one.FailingSince), "error", one.LastError)
	if err != nil {
		return err
	}
	rows := make([][]string, len(one.Streams))
	for i, stream := range one.Streams {
		rows[i] = []string{string(stream.Path), stream.Acked, orDash(stream.Tail), strconv.FormatBool(stream.Pending)}
	}
	if err := s.say(""); err != nil {
		return err
	}
	if err := s.table("STREAM | ACKED | TAIL | PENDING", rows); err != nil || len(one.Attempts) == 0 {
		return err
	}
	if err := s.say(""); err != nil {
		return err
	}
	return s.attemptTable(one.Attempts)
}
