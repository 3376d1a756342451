package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// boundKey is the key of the metadata of a bound stream that holds its own limits, as "<max_bytes>
// <discard>".
const boundKey = "sluice.bound"

// rollRoom is how close to its own max_bytes a log counts as full: it then discards its oldest
// events for new ones, and is not bound.
const rollRoom = 1 << 20

// Bind limits streams to their present size: from StorageTight on those that grow with published
// events, from StorageScarce on also those that grow with deliveries. From StorageScarce on, no
// lane is parked. A bound stream refuses new messages, except the stream of attempts, which
// discards its oldest ones. At a lower level, the streams get their own limits back. Bind does not
// change a log that is full by its own limit, because it does not grow. All bound streams together
// get at most share bytes. JetStream counts a limit as reserved space, so Bind changes the streams
// first that will reserve less. The error names the streams that could not be changed; the others
// are changed. Bind lists all streams of the account, and changes only those whose limits differ.
func (s *Store) Bind(ctx context.Context, level sluice.StorageLevel, share uint64) error {
	s.level.Store(int32(level)) //nolint:gosec // one of four
	infos, err := s.allStreams(ctx)
	if err != nil {
		return err
	}
	type change struct {
		config  jetstream.StreamConfig
		promise int64 // how many more bytes are reserved
	}
	var changes []change
	part := s.partOf(infos, level, share)
	for _, info := range infos {
		next := bound(info, s.bindingOf(info.Config.Name, level), part)
		if !reflect.DeepEqual(next, info.Config) {
			changes = append(changes, change{next, max(next.MaxBytes, 0) - max(info.Config.MaxBytes, 0)})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.promise, b.promise) })
	var errs []error
	for _, c := range changes {
		if _, err := s.js.UpdateStream(ctx, c.config); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("stream %s: %w", c.config.Name, StoreError(ctx, err)))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) allStreams(ctx context.Context) ([]*jetstream.StreamInfo, error) {
	var infos []*jetstream.StreamInfo
	list := s.js.ListStreams(ctx)
	for info := range list.Info() {
		infos = append(infos, info)
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list streams: %w", StoreError(ctx, err))
	}
	return infos, nil
}

// binding is how a level limits a stream.
type binding int

const (
	free   binding = iota // only its own limits apply
	refuse                // it refuses new messages
	forget                // it discards its oldest messages
)

func (s *Store) bindingOf(stream string, level sluice.StorageLevel) binding {
	switch share := s.names.ShareOf(stream); {
	case share == streams.Published && level >= sluice.StorageTight, share == streams.Delivered && level >= sluice.StorageScarce:
		return refuse
	case share == streams.Remembered && level >= sluice.StorageScarce:
		return forget
	}
	return free
}

// partOf returns the part of its present size to which each stream is bound: 1, or less if the
// bound streams together have more than share.
func (s *Store) partOf(infos []*jetstream.StreamInfo, level sluice.StorageLevel, share uint64) float64 {
	var sum uint64
	for _, info := range infos {
		if s.bindingOf(info.Config.Name, level) != free {
			sum += info.State.Bytes * uint64(max(info.Config.Replicas, 1))
		}
	}
	return float64(share) / float64(max(share, sum, 1))
}

// bound returns the configuration of a stream under a binding.
func bound(info *jetstream.StreamInfo, b binding, part float64) jetstream.StreamConfig {
	have := info.Config
	// A second binding would take the bound limit for the stream's own, and lose that for good.
	if _, isBound := have.Metadata[boundKey]; isBound == (b != free) {
		return have // keep the first limit, even if the stream has shrunk since
	}
	if b == free {
		return released(have)
	}
	if have.Discard == jetstream.DiscardOld && have.MaxBytes > 0 && info.State.Bytes+rollRoom >= uint64(have.MaxBytes) {
		return have
	}
	if b == forget {
		part = 1 // binding it must not discard messages at once
	}
	limit := max(int64(float64(info.State.Bytes)*part), 1) // 0 would mean no limit
	if have.MaxBytes > 0 {
		limit = min(limit, have.MaxBytes)
	}
	next := have
	next.MaxBytes, next.Discard = limit, jetstream.DiscardNew
	if b == forget {
		next.Discard = jetstream.DiscardOld
	}
	next.Metadata = maps.Clone(have.Metadata)
	if next.Metadata == nil {
		next.Metadata = map[string]string{}
	}
	next.Metadata[boundKey] = strconv.FormatInt(have.MaxBytes, 10) + " " + have.Discard.String()
	return next
}

// released returns the configuration of a stream with its own limits.
func released(config jetstream.StreamConfig) jetstream.StreamConfig {
	if before, isBound := config.Metadata[boundKey]; isBound {
		config.MaxBytes, config.Discard = unbound(before)
		config.Metadata = maps.Clone(config.Metadata)
		delete(config.Metadata, boundKey)
	}
	return config
}

// unbound returns the limits that a stream had before it was bound; no limit if they cannot be
// read.
func unbound(before string) (maxBytes int64, discard jetstream.DiscardPolicy) {
	size, policy, _ := strings.Cut(before, " ")
	maxBytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		maxBytes = -1
	}
	if policy == jetstream.DiscardNew.String() {
		discard = jetstream.DiscardNew
	}
	return maxBytes, discard
}

// crowded turns the error of a full store into one that says so. The refusal of a bound stream
// reads like that of the stream's own limit. An account without room refuses every write, as a
// server without room does.
func (s *Store) crowded(err error) error {
	if APICode(err) == codeAccountResources {
		return fmt.Errorf("%w: %w", storeCannotWrite(), err)
	}
	if s.level.Load() >= int32(sluice.StorageTight) && APICode(err) == codeStoreFailed && strings.Contains(err.Error(), maxBytesExceeded) {
		return fmt.Errorf("%w: %w", sluice.StorageTight.Problem(), err)
	}
	return err
}

// MayAdd returns an error (Unavailable) if the store has no room for another record of deliveries
// or wakes. It reads the level of the last call of Bind, and makes no request.
func (s *Store) MayAdd() error {
	if level := sluice.StorageLevel(s.level.Load()); level >= sluice.StorageScarce {
		return level.Problem()
	}
	return nil
}

// MayPublish returns an error (Unavailable) if the store has no room for events, like MayAdd. Logs
// refuse events themselves; scheduled events are records, which NATS stores at any level.
func (s *Store) MayPublish() error {
	if level := sluice.StorageLevel(s.level.Load()); level >= sluice.StorageTight {
		return level.Problem()
	}
	return nil
}

// Writable returns an error (Unavailable) if the server in this process cannot write any more. It
// makes no request. It returns nil without Options.Intact, as for an external NATS, which refuses
// writes itself.
func (s *Store) Writable() error {
	if s.opts.Intact == nil {
		return nil
	}
	if intact := s.opts.Intact(); intact.Err() != nil {
		return fmt.Errorf("%w: %w", sluice.StorageBroken.Problem(), context.Cause(intact))
	}
	return nil
}

// Retryable returns the error of a write in the form for backoff.Retry: permanent unless a retry
// may succeed.
func (s *Store) Retryable(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if broken := s.Writable(); broken != nil { //nolint:contextcheck // it reads a context of the server
		return backoff.Permanent(broken)
	}
	if ctx.Err() == nil && (isTransient(err) || errors.Is(err, context.Canceled)) { // canceled: the server was restarted meanwhile
		return err
	}
	return backoff.Permanent(s.crowded(err))
}

// WhileWritable returns a context for one write. It ends with ctx, after RequestTimeout, or when
// the server in this process cannot write any more and so would not answer.
func (s *Store) WhileWritable(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, done := context.WithTimeout(ctx, RequestTimeout)
	intact, cancel := s.whileIntact(limited)
	return intact, func() { cancel(); done() }
}

// whileIntact returns a context that ends with ctx, or when the server in this process cannot write
// any more.
func (s *Store) whileIntact(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s.opts.Intact == nil {
		return ctx, cancel
	}
	unwatch := context.AfterFunc(s.opts.Intact(), cancel)
	return ctx, func() { unwatch(); cancel() }
}
