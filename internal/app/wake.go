package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/durable/tails"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/notify"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openWakes constructs the wake engine, which also handles callbacks.
func (s *server) openWakes(ctx context.Context) error {
	keys, err := s.Store.Keys().For(ctx, sluice.UseWake)
	if err != nil {
		return err
	}
	s.wakeKeys.Set(keys)
	s.wakes = wake.New(wake.Deps{
		Watch:    records.WakeWatcher{Subscriptions: s.Store.Subscriptions(), Applied: s.woken},
		Owns:     s.owns.Part(),
		Records:  records.NewWakes(s.Store),
		Streams:  tails.Wakes{Log: s.log, Engine: s.durable, Index: s.index},
		Sources:  records.WakeSources{Store: s.deliveries},
		Poster:   notify.Wakes{Sender: s.sender},
		Gate:     s.index,
		Pace:     s.limits,
		Log:      s.attempts,
		Registry: s.registry,
		Keys:     &s.wakeKeys,
		Observe:  s.observed(),
	}, wake.Options{PublicURL: s.publicURL(), Log: s.opts.Log, MaxInFlight: s.cfg.Webhooks.MaxInFlight})
	s.metrics.WatchWakes(s.wakes.Gauges)
	return nil
}

// openStreamSubs constructs the engine of stream subscriptions.
func (s *server) openStreamSubs() {
	s.streamSubsOwn = s.owns.Part()
	s.notices = notify.Streams{Endpoints: s.limits, Sender: s.sender, Keys: &s.keys}
	s.streamSubs = streamsub.New(streamsub.Deps{
		Records: records.NewStreamSubscriptions(s.Store, s.counts, s.counted[1]),
		Logs:    records.StreamLogs{Log: s.log, Namespaces: s.Store.Namespaces()},
		Streams: tails.Subscriptions{Engine: s.durable, Index: s.index},
		Post:    s.notices,
		Gate:    authz.StreamGate{Index: s.index},
		Owns:    s.streamSubsOwn,
		Account: streamsub.Book{Ledger: s.ledger},
		Quota:   s.counts,
		Pace:    s.limits,
		Keys:    &s.wakeKeys,
		Offset:  durable.FormatOffset,
	}, streamsub.Options{
		BaseURL: s.publicURL() + "/streams",
		Log:     s.opts.Log,
	})
}
