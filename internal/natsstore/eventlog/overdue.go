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

// Overdue events are looked for this often; one is overdue this much after its namespace's max_age, when
// JetStream would have dropped it.
const (
	overdueEvery  = time.Minute
	overdueGrace  = 10 * time.Second
	overdueAtOnce = 10_000 // events that one look at a namespace deletes at most
)

// SweepOverdue deletes events that outlive the retention of their namespace, until ctx is done, which is no
// error. An event outlives it if its publisher, over NATS, set Nats-TTL to "never" or to more than max_age.
// The logs have to allow that header, because the records of streams carry it, and JetStream does not let it
// be switched off.
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

// SweepOverdueOnce looks at every namespace once, and deletes the events that are overdue by more than grace.
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

// sweepNamespace deletes overdue events, and stops at the first that is not. The retention is that of the log,
// and the time that of NATS, so that neither a setting that was not applied nor a wrong clock here costs events.
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
			continue // JetStream drops it itself
		}
		if err := log.DeleteMsg(ctx, stored.Seq); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return fmt.Errorf("namespace %s: delete %d: %w", ns, stored.Seq, natsstore.StoreError(ctx, err))
		}
		l.core.Log().InfoContext(ctx, "deleted an event whose Nats-TTL outlived max_age", slog.String("namespace", ns), slog.Uint64("seq", stored.Seq))
	}
	return nil
}
