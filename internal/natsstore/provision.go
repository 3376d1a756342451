package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// provisionPatience is the time to wait for the servers that the replicas of a stream need.
const provisionPatience = time.Minute

// Provision creates the streams and buckets of the layout, including the logs of the namespaces,
// and the default namespace. Existing streams get the missing settings, consumers and replicas. A
// setting is kept and logged if its change would delete data, except for the retention of attempts and
// for that of a namespace's own settings, which Namespaces.Put may have stored without applying it.
// Secrets that are not sealed with the newest key are sealed with it.
// Provision can be called repeatedly, and by several processes concurrently. It returns a
// seal.LockedError if secrets are sealed with a key that is not available. The order matters: it
// seals the records after it has created their buckets, and before the default namespace and the
// logs. Therefore a server with the wrong key writes no record. It waits for NATS until ctx ends.
func (s *Store) Provision(ctx context.Context) error {
	if err := s.Bind(ctx, sluice.StorageAmple, 0); err != nil { // a killed server may have set them; the watch of the disk space sets them again if necessary
		s.opts.Log.WarnContext(ctx, "limits of a full store not lifted on some streams", slog.Any("error", err))
	}
	for _, stream := range s.names.Singles() {
		merge := s.keepData
		if stream.Name == s.names.Attempts() {
			merge = s.takeLimits(sluice.Retention{MaxAge: sluice.Duration(s.opts.AttemptsMaxAge)})
		}
		if err := s.ensure(ctx, s.singleConfig(stream), merge); err != nil {
			return err
		}
	}
	for _, bucket := range streams.Buckets() {
		if err := s.ensure(ctx, s.bucketConfig(bucket), s.keepData); err != nil {
			return err
		}
	}
	if err := s.sealStored(ctx); err != nil {
		return err
	}
	if err := s.ensureDefault(ctx); err != nil {
		return err
	}
	if err := s.ensureLogs(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// ensureLogs ensures the logs of all namespaces, except for those that are deleted meanwhile.
func (s *Store) ensureLogs(ctx context.Context) error {
	all, err := s.namespaces().List(ctx, ">")
	if err != nil {
		return err
	}
	for _, entry := range all {
		if err := s.ensure(ctx, s.eventsConfig(entry.Value), s.takeLimits(entry.Value.Retention)); err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
	}
	return nil
}

// finish calls the functions that the packages below registered.
func (s *Store) finish(ctx context.Context) error {
	s.mu.Lock()
	provisioned := slices.Clone(s.provisioned)
	s.mu.Unlock()
	for _, f := range provisioned {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// singleConfig returns the settings of a stream that exists once, not per namespace.
func (s *Store) singleConfig(d streams.Stream) jetstream.StreamConfig {
	if d.Name == s.names.Attempts() {
		d.MaxAge = cmp.Or(s.opts.AttemptsMaxAge, d.MaxAge)
	}
	return s.streamConfig(d)
}

func (s *Store) eventsConfig(ns sluice.Namespace) jetstream.StreamConfig {
	config := s.streamConfig(s.names.Events(s.effective(ns)))
	if s.opts.Readers {
		config.RePublish = &jetstream.RePublish{Source: s.names.EventsSubjects(ns.Name), Destination: s.names.LiveSubjects(ns.Name)}
	}
	return config
}

func (s *Store) ensureDefault(ctx context.Context) error {
	ns := sluice.Namespace{Name: sluice.DefaultNamespace, Description: "the default namespace", CreatedAt: time.Now().UTC()}
	_, err := s.namespaces().Put(ctx, ns.Name, ns, 0)
	if err != nil && sluice.CodeOf(err) != sluice.Conflict {
		return err
	}
	return nil
}

func (s *Store) streamConfig(d streams.Stream) jetstream.StreamConfig {
	discard := jetstream.DiscardOld
	if d.RefuseFull {
		discard = jetstream.DiscardNew
	}
	return jetstream.StreamConfig{
		Name:               d.Name,
		Description:        d.Description,
		Subjects:           d.Subjects,
		MaxConsumers:       d.MaxConsumers,
		MaxMsgs:            -1,
		MaxBytes:           unlimited(d.MaxBytes),
		MaxAge:             d.MaxAge,
		MaxMsgsPerSubject:  unlimited(d.PerSubject),
		MaxMsgSize:         -1,
		Discard:            discard,
		Replicas:           s.opts.Replicas,
		Duplicates:         d.Dedup,
		DenyDelete:         d.DenyDelete,
		DenyPurge:          d.DenyPurge,
		AllowDirect:        d.AllowDirect,
		AllowMsgTTL:        d.AllowTTL,
		AllowAtomicPublish: d.AllowAtomic,
	}
}

// bucketConfig returns the settings that NATS clients expect of a bucket, except AllowDirect and
// MaxConsumers, which nats.go does not let a caller set for a new bucket.
func (s *Store) bucketConfig(d streams.Bucket) jetstream.StreamConfig {
	dedup := 2 * time.Minute
	if d.TTL > 0 {
		dedup = min(dedup, d.TTL)
	}
	return jetstream.StreamConfig{
		Name:                   s.names.BucketStream(d.Name),
		Description:            d.Description,
		Subjects:               []string{s.names.KeySubject(d.Name, ">")},
		MaxConsumers:           d.MaxConsumers,
		MaxMsgs:                unlimited(d.MaxMsgs),
		MaxBytes:               -1,
		MaxAge:                 d.TTL,
		MaxMsgsPerSubject:      int64(max(d.History, 1)),
		MaxMsgSize:             -1,
		Discard:                jetstream.DiscardNew,
		Replicas:               s.opts.Replicas,
		Duplicates:             dedup,
		DenyDelete:             true,
		AllowRollup:            true,
		AllowDirect:            d.AllowDirect,
		AllowMsgTTL:            d.MarkerTTL > 0,
		SubjectDeleteMarkerTTL: d.MarkerTTL,
	}
}

func unlimited(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// ensure creates a stream, or changes an existing one to the configuration that merge returns. It
// retries until ctx ends while no server answers or a cluster is still starting, and for a minute
// while there are too few servers for the replicas, which may not change. Code NotFound for the log
// of a namespace that was deleted meanwhile.
func (s *Store) ensure(ctx context.Context, want jetstream.StreamConfig, merge merge) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	begun := time.Now()
	err := backoff.RetryNotify(func() error {
		err := s.ensureOnce(ctx, want, merge)
		waits := isTransient(err) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || APICode(err) == codeNoPeers && time.Since(begun) < provisionPatience
		if err == nil || waits {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		if time.Since(begun) > RequestTimeout {
			s.opts.Log.WarnContext(ctx, "stream not created yet", slog.String("stream", want.Name), slog.Any("error", err), slog.Duration("again", again))
		}
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, StoreError(ctx, err))
	}
	return nil
}

// ensureOnce is one try of ensure, with the time limit RequestTimeout: a request during an election
// may never be answered.
func (s *Store) ensureOnce(ctx context.Context, want jetstream.StreamConfig, merge merge) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.create(ctx, want)
	}
	if err != nil {
		return err
	}
	have := stream.CachedInfo().Config
	next, refused := merge(have, want)
	for _, setting := range refused {
		s.opts.Log.WarnContext(ctx, "setting not applied: it would delete data",
			slog.String("stream", want.Name), slog.String("setting", setting))
	}
	if !reflect.DeepEqual(have, next) {
		if _, err = s.js.UpdateStream(ctx, next); err != nil {
			return err
		}
		s.logShorter(ctx, have, next)
	}
	if ns, isLog := s.names.LogOf(want.Name); isLog && stream.CachedInfo().State.Msgs == 0 { // perhaps of an earlier try, whose answer was lost
		return s.unlessDeleted(ctx, ns)
	}
	return nil
}

// logShorter logs that a stream keeps less than before.
func (s *Store) logShorter(ctx context.Context, have, next jetstream.StreamConfig) {
	if isLess(next.MaxAge, have.MaxAge) || isLess(next.MaxBytes, released(have).MaxBytes) {
		s.opts.Log.InfoContext(ctx, "retention shortened", slog.String("stream", next.Name),
			slog.Duration("max_age", next.MaxAge), slog.Int64("max_bytes", next.MaxBytes))
	}
}

// create creates a stream. Only logs are deleted and created again.
func (s *Store) create(ctx context.Context, want jetstream.StreamConfig) error {
	ns, isLog := s.names.LogOf(want.Name)
	if isLog { // of two processes that create it concurrently, one is refused and finds the stream of the other
		want.Metadata = streams.WithIncarnation(want.Metadata, "")
	}
	made, err := s.js.CreateStream(ctx, want)
	if err != nil || !isLog {
		return err
	}
	if err := discardLeftovers(ctx, made); err != nil {
		return err
	}
	return s.unlessDeleted(ctx, ns)
}

// discardLeftovers deletes the messages that a new stream has from a deleted one with the same
// name: nats-server 2.15 cannot move the files of a stream away while it still deletes those of an
// earlier one, and then the next stream with the name takes them over. Until then the files stay on
// the disk without meta.inf: no server shows them, not even after a restart.
func discardLeftovers(ctx context.Context, made jetstream.Stream) error {
	info := made.CachedInfo()
	if last := info.State.LastSeq; last > 0 && info.State.LastTime.Before(info.Created) && !info.Config.DenyPurge {
		return made.Purge(ctx, jetstream.WithPurgeSequence(last+1))
	}
	return nil
}

// merge returns the new configuration of a stream, and the names of the wanted settings that it
// does not contain. Settings that this release does not know are kept.
type merge func(have, want jetstream.StreamConfig) (next jetstream.StreamConfig, refused []string)

// keepData adds the missing settings of a stream and deletes no data: limits may increase but not
// decrease, and a switch that cannot be turned off stays on.
func (s *Store) keepData(have, want jetstream.StreamConfig) (jetstream.StreamConfig, []string) {
	next, refused := s.shape(have, want), []string(nil)
	keep := func(name string, less bool) bool {
		if less {
			refused = append(refused, name)
		}
		return !less
	}
	if keep("max_age", isLess(want.MaxAge, have.MaxAge)) {
		next.MaxAge = want.MaxAge
	}
	if keep("max_bytes", isLess(want.MaxBytes, next.MaxBytes)) { // its own limit, not that of Bind
		next.MaxBytes = want.MaxBytes
	}
	if keep("max_msgs_per_subject", isLess(want.MaxMsgsPerSubject, have.MaxMsgsPerSubject)) {
		next.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	}
	if keep("num_replicas", want.Replicas < have.Replicas) {
		next.Replicas = want.Replicas
	}
	return next, refused
}

// takeLimits is keepData, except that MaxAge and MaxBytes are the wanted ones where one of the
// retentions is not 0: that limit was requested, and is not a default of the server.
func (s *Store) takeLimits(requested ...sluice.Retention) merge {
	return func(have, want jetstream.StreamConfig) (jetstream.StreamConfig, []string) {
		have = released(have)
		for _, r := range requested {
			if r.MaxAge != 0 {
				have.MaxAge = want.MaxAge
			}
			if r.MaxBytes != 0 {
				have.MaxBytes = want.MaxBytes
			}
		}
		return s.keepData(have, want)
	}
}

// shape sets all settings that do not affect stored data, and lifts the limits of Bind. It keeps the
// metadata, which contain the incarnation of a log.
func (s *Store) shape(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	next := released(have)
	next.Description = want.Description
	next.Subjects = slices.Clone(have.Subjects)
	for _, subject := range want.Subjects {
		if !slices.Contains(next.Subjects, subject) {
			next.Subjects = append(next.Subjects, subject)
		}
	}
	next.MaxConsumers = max(have.MaxConsumers, want.MaxConsumers)
	next.Discard = want.Discard
	next.Duplicates = want.Duplicates
	next.AllowDirect = want.AllowDirect
	next.DenyDelete = have.DenyDelete || want.DenyDelete
	next.DenyPurge = have.DenyPurge || want.DenyPurge
	next.AllowRollup = have.AllowRollup || want.AllowRollup
	next.AllowMsgTTL = have.AllowMsgTTL || want.AllowMsgTTL
	next.AllowAtomicPublish = have.AllowAtomicPublish || want.AllowAtomicPublish
	next.SubjectDeleteMarkerTTL = want.SubjectDeleteMarkerTTL
	if have.RePublish == nil || s.names.IsLive(have.RePublish.Destination) {
		next.RePublish = want.RePublish
	}
	return next
}

// isLess compares two limits. A limit that is not positive means that there is none.
func isLess[T ~int64](a, b T) bool { return a > 0 && (b <= 0 || a < b) }

// LettersConsumer returns the consumer of the dead letters, and creates it if it is missing. A new
// consumer starts with the dead letters that are stored from then on. All replicas share it: each
// dead letter goes to one of them, and again to any after AckWait.
func (s *Store) LettersConsumer(ctx context.Context) (jetstream.Consumer, error) {
	want := s.names.LettersConsumer()
	config := jetstream.ConsumerConfig{
		Durable: want.Name, Description: want.Description, FilterSubject: want.Filter.Subject, DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: want.AckWait, MaxDeliver: want.MaxDeliver, MaxAckPending: want.MaxPending,
	}
	if have, err := s.js.Consumer(ctx, want.Stream, want.Name); err == nil { // one that was restored under another prefix starts elsewhere
		was := have.CachedInfo().Config
		config.DeliverPolicy, config.OptStartSeq = was.DeliverPolicy, was.OptStartSeq
	}
	consumer, err := Asked(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return s.js.CreateOrUpdateConsumer(ctx, want.Stream, config)
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", want.Name, StoreError(ctx, err))
	}
	return consumer, nil
}
