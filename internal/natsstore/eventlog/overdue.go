package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Interval of the searches for overdue events, and the time after max_age of the namespace from
// which on an event counts as overdue. JetStream deletes other events before that.
const (
	overdueEvery  = time.Minute
	overdueGrace  = 10 * time.Second
	overdueAtOnce = 10_000 // maximum number of events that one sweep of a namespace reads
)

// SweepOverdue deletes events that exceed the retention of their namespace, until ctx is done, and
// then returns nil. An event exceeds it if its publisher has set Nats-TTL to "never" or to more
// than max_age over NATS. The logs must allow that header because the records of streams use it,
// and JetStream does not allow turning it off. All replicas may run it: deleting an event twice
// does nothing.
func (l *Log) SweepOverdue(ctx context.Context) error {
	tick := time.NewTicker(overdueEvery)
	defer tick.Stop()
	for {
		if err := l.SweepOverdueOnce(ctx, overdueGrace); err != nil && ctx.Err() == nil {
			l.core.Log().WarnContext(ctx, "events older than max_age not deleted yet", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// SweepOverdueOnce sweeps every namespace once, and deletes the events that are overdue by more
// than grace.
func (l *Log) SweepOverdueOnce(ctx context.Context, grace time.Duration) error {
	all, err := natsstore.OpenBucket[sluice.Namespace](l.core, streams.Namespaces).List(ctx, ">")
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range all {
		errs = append(errs, l.sweepNamespace(ctx, entry.Value.Name, grace))
	}
	return errors.Join(errs...)
}

// sweepNamespace deletes overdue events, and stops at the first event that is not overdue. It uses
// the max_age of the log and the clock of NATS: neither a setting that was not applied nor a wrong
// clock of this server may delete events.
func (l *Log) sweepNamespace(ctx context.Context, ns string, grace time.Duration) error {
	log, err := l.core.JetStream().Stream(ctx, l.core.Names().EventsStream(ns))
	if err != nil {
		return fmt.Errorf("namespace %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	info := log.CachedInfo()
	if info.Config.MaxAge <= 0 {
		return nil
	}
	before := info.TimeStamp.Add(-info.Config.MaxAge - grace)
	seq := uint64(1)
	for range overdueAtOnce {
		stored, err := l.leaders(ctx, ns, natsstore.MessageRequest{Seq: seq, Next: l.core.Names().EventsSubjects(ns)})
		if err != nil {
			return fmt.Errorf("namespace %s: %w", ns, natsstore.StoreError(ctx, err))
		}
		if stored.Seq == 0 || !stored.Time.Before(before) {
			return nil
		}
		seq = stored.Seq + 1
		header, err := stored.Header()
		if err != nil || header.Get(jetstream.MsgTTLHeader) == "" {
			continue // JetStream deletes it
		}
		if err := log.DeleteMsg(ctx, stored.Seq); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return fmt.Errorf("namespace %s: delete %d: %w", ns, stored.Seq, natsstore.StoreError(ctx, err))
		}
		l.core.Log().InfoContext(ctx, "deleted an event whose Nats-TTL outlived max_age", slog.String("namespace", ns), slog.Uint64("seq", stored.Seq))
	}
	return nil
}
