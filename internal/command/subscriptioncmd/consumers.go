package subscriptioncmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ConsumersCmd shows wake consumers.
type ConsumersCmd struct {
	Sub   string `arg:"" help:"Subscription of mode wake."`
	Path  string `arg:"" optional:"" help:"Consumer to show with the attempts of its last wake: its ID, or the path of its stream."`
	State string `help:"Filter by state: idle, waking, live or removed; default: all except removed." enum:",idle,waking,live,removed" default:"" placeholder:"STATE"`
	Limit int    `help:"Maximum number of results; 0: all." default:"100"`
}

// Run lists consumers, or shows one. The list is in the order of the paths; removed consumers are
// listed with --state removed only. The argument of one consumer is a path, or an ID with a colon:
// "orders:%2Fa%2Fb" (S1-12). Code Unprocessable for a subscription of mode push.
func (c *ConsumersCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Path != "" {
		if !strings.HasPrefix(c.Path, "/") && !strings.Contains(c.Path, ":") {
			return terminal.Usagef("path %q does not start with /", c.Path)
		}
		one, err := api.Consumer(ctx, c.Sub, c.Path)
		if err != nil {
			return err
		}
		return s.Show(one, func() error { return consumerTable(s, one) })
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.WakeConsumer], error) {
		return api.Consumers(ctx, c.Sub, client.ConsumersQuery{State: sluice.WakeState(c.State), Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			one := &all[i]
			rows[i] = []string{
				string(one.Path), string(one.State), strconv.FormatUint(one.Epoch, 10), acked(one), strconv.Itoa(len(one.Streams)),
				terminal.FormatTimePtr(one.WokenAt), terminal.FormatTimePtr(deadline(one)), strconv.Itoa(one.Failures), terminal.OrDash(one.LastError),
			}
		}
		return s.Table("PATH | STATE | EPOCH | ACKED | STREAMS | WOKEN | DEADLINE | FAILURES | ERROR", rows)
	})
}

// deadline returns the consumer's next deadline. It is the next notice of a waking consumer (C27),
// or the end of a live one's lease (S1-43); nil for an idle one, which waits for events.
func deadline(one *sluice.WakeConsumer) *time.Time {
	if one.NextAttempt != nil {
		return one.NextAttempt
	}
	return one.LiveUntil
}

// acked returns the acknowledged offset of the consumer's own stream. "-1" means that nothing was
// acknowledged (S1-19); "-" that the worker does not read its own stream.
func acked(one *sluice.WakeConsumer) string {
	for _, stream := range one.Streams {
		if stream.Path == one.Path {
			return stream.Acked
		}
	}
	return "-"
}

// whether formats a fact that may be unknown. Nil means that the server did not determine it.
func whether(known *bool) string {
	if known == nil {
		return "-"
	}
	return strconv.FormatBool(*known)
}

// consumerTable prints the consumer, its streams, and the attempts of its last wake, if there are
// any.
func consumerTable(s *terminal.Session, one sluice.WakeConsumer) error {
	err := s.Facts("consumer", one.ID, "state", string(one.State), "epoch", strconv.FormatUint(one.Epoch, 10), "wake", one.WakeID,
		"pending", whether(one.Pending), "woken", terminal.FormatTimePtr(one.WokenAt), "next attempt", terminal.FormatTimePtr(one.NextAttempt),
		"live until", terminal.FormatTimePtr(one.LiveUntil), "failures", strconv.Itoa(one.Failures), "failing since", terminal.FormatTimePtr(one.FailingSince), "error", one.LastError)
	if err != nil {
		return err
	}
	rows := make([][]string, len(one.Streams))
	for i, stream := range one.Streams {
		rows[i] = []string{string(stream.Path), stream.Acked, terminal.OrDash(stream.Tail), whether(stream.Pending)}
	}
	if err := s.Say(""); err != nil {
		return err
	}
	if err := s.Table("STREAM | ACKED | TAIL | PENDING", rows); err != nil || len(one.Attempts) == 0 {
		return err
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return attemptTable(s, one.Attempts)
}
