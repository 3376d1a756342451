package delivery_test

import (
	"context"
	"flag"
	"log/slog"
	"testing"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// shared lets all engines of the tests get their events from the shared reader.
var shared = flag.Bool("shared", false, "run the engines over the shared reader in place of consumers")

// withConsumers skips a test of what only subscriptions with consumers of their own have.
func withConsumers(t *testing.T) {
	t.Helper()
	if *shared {
		t.Skip("it is about durable consumers")
	}
}

// share lets an engine get its events from the shared reader, if the tests are run so.
func (p *process) share(ports *delivery.Deps) {
	if !*shared {
		return
	}
	always := func(*sluice.Subscription, fanout.Stored) bool { return true }
	router := fanout.New(fanout.Deps{
		Log: eventlog.Shared{Log: p.store.Log}, Records: mortalRecords{p.deliveries.Positions(), p}, Shares: always,
		Filters: streams.Names{}.PushFilters, Slog: slog.New(slog.DiscardHandler),
	})
	ports.Sources, ports.Arrivals = records.SharedSources{Router: router, Own: p}, records.Arrivals{Router: router}
}

// mortalRecords does nothing once its process is dead.
type mortalRecords struct {
	fanout.Records

	process *process
}

func (r mortalRecords) PutPosition(ctx context.Context, sub *sluice.Subscription, at fanout.Position) error {
	if r.process.dead.Load() {
		return errCut
	}
	return r.Records.PutPosition(ctx, sub, at)
}

func (r mortalRecords) Adopt(ctx context.Context, sub *sluice.Subscription) (fanout.Position, error) {
	if r.process.dead.Load() {
		return fanout.Position{}, errCut
	}
	return r.Records.Adopt(ctx, sub)
}

func (r mortalRecords) PutCursor(ctx context.Context, ns string, shard int, c fanout.Cursor) (fanout.Cursor, error) {
	if r.process.dead.Load() {
		return c, errCut
	}
	return r.Records.PutCursor(ctx, ns, shard, c)
}
