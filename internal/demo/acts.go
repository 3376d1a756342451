package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// play runs the acts. It stops at the first act that does not hold; each act needs the state that
// the one before it left.
func (d *demo) play(ctx context.Context) error {
	for _, act := range []func(context.Context) error{d.trouble, d.crash, d.question} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The first two events of the failing path.
const (
	head   = "evt-0003"
	behind = "evt-0007"
)

// trouble is act 1: one path fails, and the others do not wait for it.
func (d *demo) trouble(ctx context.Context) error {
	d.stage.begin(ctx, 1, "one path is in trouble",
		fmt.Sprintf("Four orders get three events each. The receiver returns 503 for %s.", troubled))
	d.stage.say("")
	d.receiver.show(true)
	if err := d.publish(ctx, lives(), time.Second); err != nil {
		return err
	}
	err := d.record.until(ctx, d.cmd.Timeout, func() bool {
		return d.record.count(func(ev *sent) bool { return elsewhere(ev) && missing(ev) }) == 0 && d.record.events[head].attempts > 1
	})
	d.receiver.show(false)
	var others, sentBehind, waiting int
	d.record.read(func() {
		others = d.record.count(func(ev *sent) bool { return elsewhere(ev) && ev.accepted })
		waiting = d.record.count(func(ev *sent) bool { return !elsewhere(ev) }) - 1
		sentBehind = d.record.count(func(ev *sent) bool { return !elsewhere(ev) && ev.attempts > 0 }) - 1
	})
	d.stage.say("")
	if err := d.stage.holds(errors.Join(err, d.record.faults()), "The other paths have all %d events, verified and in order.", others); err != nil {
		return err
	}
	if sentBehind > 0 {
		err = fmt.Errorf("%d were sent", sentBehind)
	}
	if err := d.stage.holds(err, "%s retries its first event; the %d events behind it were not sent.", troubled, waiting); err != nil {
		return err
	}
	st, err := d.server.client().Status(ctx, subscription)
	if err == nil && st.Parked != 1 {
		err = fmt.Errorf("there are %d", st.Parked)
	}
	return d.stage.holds(err, "The server has one parked lane: one record in its store.")
}

// crash is act 2: the server is killed while events are published.
func (d *demo) crash(ctx context.Context) error {
	d.stage.begin(ctx, 2, "kill -9", fmt.Sprintf("%d events are published. In the middle, the server is killed.", len(d.events)))
	before := 0
	acknowledged := func() int { return d.record.count(func(ev *sent) bool { return ev.acknowledged }) }
	d.record.read(func() { before = acknowledged() })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	published := make(chan error, 1)
	go func() { // awaited below
		err := d.publish(ctx, d.events, d.cmd.Over)
		if err != nil {
			cancel(err)
		}
		published <- err
	}()
	err := d.record.until(ctx, d.cmd.Timeout, func() bool { return acknowledged() >= before+len(d.events)/3 })
	number := 0
	if err == nil {
		number, err = d.restart(ctx)
	}
	if err != nil {
		cancel(err)
	}
	if err := errors.Join(err, <-published); err != nil {
		return err
	}
	return d.survived(ctx, number)
}

// restart kills the server and starts it again. It returns the number of the last attempt before
// that at the head of the failing path.
func (d *demo) restart(ctx context.Context) (number int, err error) {
	pid, at := d.server.pid(), time.Now()
	if err := d.server.kill(); err != nil {
		return 0, err
	}
	var stored, arrived int
	d.record.read(func() {
		stored = d.record.count(func(ev *sent) bool { return ev.acknowledged })
		arrived = d.record.count(func(ev *sent) bool { return ev.accepted })
		number = d.record.events[head].number
	})
	d.stage.say("\n  $ kill -9 %d\n  Process %d is dead: %d events were acknowledged, %d have arrived.", pid, pid, stored, arrived)
	if err := d.server.start(ctx); err != nil {
		return 0, err
	}
	d.stage.say("  Process %d has opened the same data and answers, %s after the kill.\n", d.server.pid(), time.Since(at).Round(10*time.Millisecond))
	return number, nil
}

// survived checks and states that the kill has lost nothing.
func (d *demo) survived(ctx context.Context, number int) error {
	var all, stored, repeated, others, twice int
	err := d.record.until(ctx, d.cmd.Timeout, func() bool {
		all, repeated = len(d.record.events), d.record.repeated
		stored = d.record.count(func(ev *sent) bool { return ev.acknowledged })
		others, twice = d.record.count(elsewhere), d.record.tally.Twice
		return d.record.count(func(ev *sent) bool { return elsewhere(ev) && missing(ev) }) == 0
	})
	var unstored error
	if stored != all {
		unstored = fmt.Errorf("%d are", stored)
	}
	if err := d.stage.holds(unstored, "All %d events are acknowledged. Requests without a response, repeated with the same event ID: %d.", all, repeated); err != nil {
		return err
	}
	if err := d.stage.holds(errors.Join(err, d.record.faults()),
		"All %d events of the other paths have arrived, in order: lost 0, sent twice %d.", others, twice); err != nil {
		return err
	}
	err = d.record.until(ctx, d.cmd.Timeout, func() bool { return d.record.events[head].number > number })
	return d.stage.holds(err, "%s went on behind attempt %d, as if nothing had happened.", troubled, number)
}

// question is act 3: the server explains deliveries.
func (d *demo) question(ctx context.Context) error {
	d.stage.begin(ctx, 3, "why has my event not arrived?", "The server has the answer for every event.")
	if err := d.explain(ctx, head, "retrying"); err != nil {
		return err
	}
	if err := d.explain(ctx, behind, "waiting"); err != nil {
		return err
	}
	waits, err := d.server.client().Delivery(ctx, subscription, behind)
	if err == nil && (waits.Behind == nil || waits.Behind.EventID != head) {
		err = fmt.Errorf("the server says: %s", waits.Explanation)
	}
	d.stage.say("")
	if err := d.stage.holds(err, "The second event waits for the first one, and the server names it."); err != nil {
		return err
	}
	d.receiver.repair()
	d.stage.say("The receiver accepts %s again.", troubled)
	var all, number int
	err = d.record.until(ctx, d.cmd.Timeout, func() bool {
		all, number = d.record.count(func(ev *sent) bool { return !elsewhere(ev) }), d.record.events[head].number
		return d.record.count(missing) == 0
	})
	if err := d.stage.holds(errors.Join(err, d.record.faults()), "Its %d events have arrived in order, the first one with attempt %d.", all, number); err != nil {
		return err
	}
	return d.explain(ctx, head, "delivered")
}

// explain prints the command deliveries with its output, as soon as the output names a state. It
// asks again until then, for the time limit of the demo at most.
func (d *demo) explain(ctx context.Context, id, state string) error {
	limited, cancel := context.WithTimeoutCause(ctx, d.cmd.Timeout, fmt.Errorf("event %s is not %s within %s", id, state, d.cmd.Timeout))
	defer cancel()
	for {
		text, err := d.server.run(limited, "deliveries", subscription, id)
		if limited.Err() != nil {
			return fmt.Errorf("demo: %w", context.Cause(limited))
		}
		if err != nil {
			return err
		}
		if strings.Contains(text, state) {
			d.stage.output(fmt.Sprintf("sluice deliveries %s %s", subscription, id), text)
			d.stage.pause(ctx)
			return nil
		}
		select {
		case <-time.After(moment): // an attempt is in progress, or about to be recorded
		case <-limited.Done():
		}
	}
}

// publish publishes the events at a constant rate. It repeats a request without a response at the
// next server, with the same ID. An event is recorded before its request and acknowledged after the
// response, so a request that the kill interrupted counts as neither lost nor stored.
func (d *demo) publish(ctx context.Context, events []sluice.Event, over time.Duration) error {
	tick := time.NewTicker(max(over/time.Duration(len(events)), time.Microsecond))
	defer tick.Stop()
	for _, ev := range events {
		d.record.publishing(ev)
		if err := d.publishOne(ctx, ev); err != nil {
			return fmt.Errorf("demo: publish: %w", err)
		}
		d.record.acknowledged(ev.ID)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("demo: publish: %w", context.Cause(ctx))
		}
	}
	return nil
}

// publishOne repeats an event while the server is unavailable. The same ID makes the repetition
// safe: a stored event is recognized as a duplicate.
func (d *demo) publishOne(ctx context.Context, ev sluice.Event) error {
	var failed *client.Client
	for {
		api, err := d.server.next(ctx, failed)
		if err != nil {
			return err
		}
		if _, err = api.Publish(ctx, sluice.DefaultNamespace, ev); err == nil || sluice.CodeOf(err) != sluice.Unavailable {
			return err
		}
		d.record.repeat()
		failed = api
	}
}
