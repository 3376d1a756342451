package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
	"github.com/sluice-io/sluice/streams"
)

// openWakes constructs the wake engine and its callback handler.
func (s *server) openWakes(ctx context.Context) error {
	keys, err := s.store.KeysFor(ctx, sluice.UseWake)
	if err != nil {
		return err
	}
	s.wakeKeys.set(keys)
	s.wakes = wake.New(wake.Ports{
		Watch:    wakeWatcher{s.store.Subscriptions()},
		Owns:     s.owns.part(),
		Records:  wakeRecords{natsstore.OpenBucket[wake.Consumer](s.store, streams.Wakes), natsstore.OpenBucket[wakeFloor](s.store, streams.Wakes)},
		Streams:  wakeStreams{s.store, s.durable, s.trust.index},
		Sources:  wakeSources{s.store},
		Poster:   wakePoster{s},
		Gate:     s.trust.index,
		Pace:     receivers{s},
		Log:      s.attempts,
		Registry: s.registry,
		Keys:     &s.wakeKeys,
		Observe:  s.metrics,
	}, wake.Options{PublicURL: s.publicURL(), Log: s.opts.Log, MaxInFlight: s.cfg.Webhooks.MaxInFlight})
	return nil
}

// wakeKeys holds the keys that sign callback tokens.
type wakeKeys struct{ macKeys }

// WakeKeys returns the keys, newest first.
func (k *wakeKeys) WakeKeys() [][]byte { return k.all() }

// followWakeKeys keeps the keys in step with the store until ctx is done.
func (s *server) followWakeKeys(ctx context.Context) error {
	return s.store.WatchKeys(ctx, sluice.UseWake, s.wakeKeys.set)
}

// wakeWatcher passes subscriptions to the wake engine.
type wakeWatcher struct{ subscriptions natsstore.Subscriptions }

// Watch calls change for every subscription, and then for every change.
func (w wakeWatcher) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	return w.subscriptions.Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		switch e.Change {
		case natsstore.Set:
			change(e.Key, e.Value)
		case natsstore.Removed:
			change(e.Key, nil)
		case natsstore.CaughtUp:
			change("", nil)
		}
	})
}

// wakeFloor is the last epoch of consumers whose records were removed.
type wakeFloor struct {
	Epoch uint64 `json:"epoch"`
}

// wakeRecords stores wake consumers.
type wakeRecords struct {
	consumers natsstore.Bucket[wake.Consumer]
	floors    natsstore.Bucket[wakeFloor]
}

// Get returns a record.
func (r wakeRecords) Get(ctx context.Context, subscription string, path sluice.Path) (wake.Entry, error) {
	c, revision, err := r.consumers.Get(ctx, streams.WakeKey(subscription, path))
	if sluice.CodeOf(err) == sluice.NotFound {
		return wake.Entry{}, nil
	}
	return wake.Entry{Consumer: c, Revision: revision}, err
}

// Put stores a record.
func (r wakeRecords) Put(ctx context.Context, subscription string, c wake.Consumer, revision uint64) (uint64, error) {
	return r.consumers.Put(ctx, streams.WakeKey(subscription, c.Path), c, revision)
}

// List returns a subscription's records.
func (r wakeRecords) List(ctx context.Context, subscription string) ([]wake.Entry, error) {
	entries, err := r.consumers.List(ctx, streams.WakeKeys(subscription))
	all := make([]wake.Entry, len(entries))
	for i, e := range entries {
		all[i] = wake.Entry{Consumer: e.Value, Revision: e.Revision}
	}
	return all, err
}

// Watch calls each for a subscription's records. Removals are reported by the removal of the
// subscription.
func (r wakeRecords) Watch(ctx context.Context, subscription string, each func(wake.Entry), caughtUp func()) error {
	return r.consumers.Follow(ctx, streams.WakeKeys(subscription), func(e natsstore.Entry[wake.Consumer]) {
		switch e.Change {
		case natsstore.Set:
			each(wake.Entry{Consumer: e.Value, Revision: e.Revision})
		case natsstore.CaughtUp:
			caughtUp()
		case natsstore.Removed:
		}
	})
}

// Floor returns the epoch after which new consumers start.
func (r wakeRecords) Floor(ctx context.Context, subscription string) (uint64, error) {
	floor, _, err := r.floors.Get(ctx, streams.WakeFloorKey(subscription))
	if sluice.CodeOf(err) == sluice.NotFound {
		err = nil
	}
	return floor.Epoch, err
}

// Forget raises the floor and then removes a subscription's records up to a revision.
func (r wakeRecords) Forget(ctx context.Context, subscription string, epoch, upTo uint64) error {
	for epoch > 0 {
		floor, revision, err := r.floors.Get(ctx, streams.WakeFloorKey(subscription))
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		if floor.Epoch >= epoch {
			break
		}
		_, err = r.floors.Put(ctx, streams.WakeFloorKey(subscription), wakeFloor{epoch}, revision)
		if err == nil {
			break
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return r.consumers.Clear(ctx, streams.WakeKeys(subscription), upTo)
}

// wakeStreams gives the wake engine access to streams.
type wakeStreams struct {
	store  *natsstore.Store
	engine *durable.Engine
	index  *authz.Index
}

// Visible returns the last message of a stream that a subscription's owner may see.
func (w wakeStreams) Visible(ctx context.Context, sub *sluice.Subscription, path sluice.Path, upTo uint64) (uint64, error) {
	return dsubStreams{w.engine, w.index}.Visible(ctx, authz.OwnerOf(sub), sub.Namespace, path, upTo)
}

// Tail returns the end of a stream.
func (w wakeStreams) Tail(ctx context.Context, namespace string, path sluice.Path) (wake.Tail, error) {
	st, err := w.engine.Standing(ctx, durable.Key{Namespace: namespace, Path: path})
	return wake.Tail{Seq: st.Last, Start: st.Start, Gone: st.Gone}, err
}

// Last returns the last message on a path.
func (w wakeStreams) Last(ctx context.Context, namespace string, path sluice.Path) (uint64, error) {
	return w.store.PathTail(ctx, namespace, path)
}

// Before returns the last message of a stream up to a sequence.
func (w wakeStreams) Before(ctx context.Context, namespace string, path sluice.Path, upTo uint64) (uint64, error) {
	return w.store.PathBefore(ctx, namespace, path, upTo)
}

// Ends calls each for the streams that a pattern matches.
func (w wakeStreams) Ends(ctx context.Context, namespace string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	return w.store.PathEnds(ctx, namespace, pattern, each)
}

// Follow calls each for new messages.
func (w wakeStreams) Follow(ctx context.Context, namespace string, each func(sluice.Path, uint64)) error {
	return w.store.FollowPaths(ctx, namespace, each)
}

// FormatOffset formats an offset.
func (wakeStreams) FormatOffset(seq uint64) string { return durable.FormatOffset(seq) }

// ParseOffset parses an offset.
func (wakeStreams) ParseOffset(text string) (uint64, error) { return durable.ParseOffset(text) }

// wakeSources opens sources.
type wakeSources struct{ store *natsstore.Store }

// Open opens a subscription's source.
func (w wakeSources) Open(ctx context.Context, sub *sluice.Subscription) (wake.Source, error) {
	src, err := w.store.OpenSource(ctx, sub)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// wakePoster signs notices and sends them.
type wakePoster struct{ server *server }

// Post makes an attempt to notify (S1-45, S1-66).
func (p wakePoster) Post(ctx context.Context, sub *sluice.Subscription, l wake.Letter) (a sluice.Attempt, body []byte) {
	now := time.Now()
	hash := sha256.Sum256(l.Body)
	a = sluice.Attempt{
		Subscription: sub.ID, EventID: l.WakeID, Seq: l.Seq, Path: l.Path, Type: sluice.TypeNotice, Number: l.Number,
		StartedAt: now.UTC(), PayloadHash: hex.EncodeToString(hash[:]),
	}
	secrets := sub.LiveSecrets(now)
	if len(secrets) == 0 {
		a.Outcome, a.Error = sluice.Refused, "the subscription has no live secret"
		return a, nil
	}
	header := http.Header{}
	for name, value := range sub.Endpoint.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", "application/json")
	header.Set(webhook.HeaderID, l.WakeID)
	header.Set(webhook.HeaderAttempt, strconv.Itoa(l.Number))
	header.Set(webhook.HeaderSignature, webhook.SignT(secrets[0], now, l.Body))
	reply := p.server.sender.Post(ctx, sub.Endpoint.URL, header, l.Body, sub.Policy.Timeout.Std())
	a.Duration = sluice.Duration(time.Since(now))
	a.Outcome, a.Status, a.Error = reply.Outcome, reply.Status, reply.Error
	a.Verdict.Settled = a.Outcome == sluice.Delivered
	return a, reply.Body
}

// forgetWakes removes a subscription's wake consumers.
func (s *server) forgetWakes(ctx context.Context, sub *sluice.Subscription) error {
	if sub.Mode != sluice.Wake {
		return nil
	}
	return s.wakes.Forget(ctx, sub)
}

func (s *server) wakeMoments() []metrics.Wakes {
	var all []metrics.Wakes
	for _, g := range s.wakes.Gauges() {
		all = append(all, metrics.Wakes(g))
	}
	return all
}

// withdrawing cancels requests in flight in all engines.
type withdrawing []interface {
	Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error
}

// Withdraw cancels requests in flight for subscriptions that lost their access.
func (w withdrawing) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	errs := make([]error, len(w))
	var all sync.WaitGroup
	for i, engine := range w {
		all.Go(func() { errs[i] = engine.Withdraw(ctx, lost) })
	}
	all.Wait()
	return errors.Join(errs...)
}
