package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// leap is the distance between the last known sequence of a lost stream and the first sequence of
// its replacement. It exceeds the number of messages that are stored between two writes of the last
// known sequence.
const leap = 100_000

// Missed returns a channel that receives a value when a stream of the layout does not respond. It may
// have been deleted.
func (s *Store) Missed() <-chan struct{} { return s.missed }

func (s *Store) miss() {
	select {
	case s.missed <- struct{}{}:
	default: // not received yet
	}
}

// Lacks reports whether a stream of the layout is missing in NATS. A log is missing only if its
// namespace has a record. Code Unavailable if NATS does not answer. It returns false for a stream
// that is not of this installation.
func (s *Store) Lacks(ctx context.Context, name string) (bool, error) {
	_, err := s.js.Stream(ctx, name)
	if err == nil {
		return false, nil
	}
	if !IsGone(err) {
		return false, fmt.Errorf("stream %s: %w", name, StoreError(ctx, err))
	}
	ns, isLog := s.names.LogOf(name)
	if !isLog {
		return s.names.Ours(name), nil
	}
	_, wanted, err := s.recordOf(ctx, ns)
	return wanted, err
}

// recordOf returns the record of a namespace and whether there is one. The default namespace always has one.
func (s *Store) recordOf(ctx context.Context, ns string) (record sluice.Namespace, there bool, err error) {
	record, _, err = s.namespaces().Get(ctx, ns)
	switch {
	case err == nil:
		return record, true, nil
	case ns == sluice.DefaultNamespace:
		return sluice.Namespace{Name: ns}, true, nil
	case sluice.CodeOf(err) == sluice.NotFound:
		return sluice.Namespace{}, false, nil
	}
	return sluice.Namespace{}, false, err
}

// unlessDeleted is to be called after the log of a namespace was created. If the namespace has no
// record, because it was deleted meanwhile, it deletes the log again. Code NotFound if there is no
// such namespace. A log with events is left: the namespace may have been created again, by a process
// that stores the record and then takes the log that it finds.
func (s *Store) unlessDeleted(ctx context.Context, ns string) error {
	if _, there, err := s.recordOf(ctx, ns); err != nil || there {
		return err
	}
	name, left := s.names.EventsStream(ns), false
	log, err := s.js.Stream(ctx, name)
	if err == nil {
		if left = log.CachedInfo().State.Msgs > 0; !left {
			err = s.js.DeleteStream(ctx, name)
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	record, there, err := s.recordOf(ctx, ns)
	switch {
	case err != nil:
		return err
	case there: // created again meanwhile
		return s.ensureOnce(ctx, s.eventsConfig(record), s.keepData)
	case left:
		s.opts.Log.WarnContext(ctx, "log of a deleted namespace left, because it has events", slog.String("stream", name))
	}
	return NamespaceMissing(ns)
}

// Remake creates a missing stream of the layout again, empty, with the settings of Provision. Its
// first sequence is last + leap, where last is the highest sequence that is known to have been
// assigned. Therefore no event, revision or ledger entry gets the sequence of a lost one. If the
// stream exists, its data and sequences stay, and missing settings are added. Code NotFound for the
// log of a namespace without a record. last is 0 if nothing is known of the lost stream. A log that
// Remake creates gets a new incarnation, so that readers with a position in the lost one notice.
func (s *Store) Remake(ctx context.Context, name string, last uint64) error {
	config, err := s.layoutConfig(ctx, name)
	if err != nil {
		return err
	}
	config.FirstSeq = last + leap
	if err := s.ensure(ctx, config, s.keepData); err != nil {
		return err
	}
	if name == s.names.DeadLetters() {
		_, err = s.LettersConsumer(ctx)
	}
	return err
}

// layoutConfig returns the settings of a stream of the layout.
func (s *Store) layoutConfig(ctx context.Context, name string) (jetstream.StreamConfig, error) {
	if ns, isLog := s.names.LogOf(name); isLog {
		record, there, err := s.recordOf(ctx, ns)
		if err == nil && !there {
			err = NamespaceMissing(ns)
		}
		return s.eventsConfig(record), err
	}
	for _, d := range s.names.Singles() {
		if d.Name == name {
			return s.singleConfig(d), nil
		}
	}
	for _, b := range streams.Buckets() {
		if s.names.BucketStream(b.Name) == name {
			return s.bucketConfig(b), nil
		}
	}
	return jetstream.StreamConfig{}, sluice.Errorf(sluice.NotFound, "the server has no stream %s", name)
}
