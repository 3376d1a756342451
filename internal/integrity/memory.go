// Package integrity keeps the last known state of the streams outside NATS, detects damaged and
// missing data, and recreates missing streams where possible (docs/operations.md, "Damaged files";
// decision 0029).
package integrity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Files of the data directory about the data stored in NATS.
const (
	countsFile  = "counts.json"  // the end of each stream
	recordsFile = "records.json" // the revisions of the records of the guarded buckets
	DamageFile  = "damage.json"  // known damage, until an operator acknowledges it
)

const (
	rememberEvery = time.Second
	rememberShare = 50               // counting takes at most a fiftieth of the time
	rememberRest  = 10 * time.Second // maximum delay of reporting damage and recreating streams
	rememberLast  = 2 * time.Second
	examineAgain  = 250 * time.Millisecond // pause after a failed try
)

// guarded returns the buckets with a remembered revision for each record: an older record would
// restore lost rights, or resume paused deliveries.
func guarded() []string {
	return []string{streams.Subscriptions, streams.Access, streams.Keys, streams.Namespaces}
}

// Memory keeps the state of all streams outside NATS, so that a start detects damage
// (docs/operations.md, "Damaged files"). mu guards records, changed, counts, damage, untold, gone
// and missed; Gaps needs no lock. The files, each replaced in one step:
//
//	counts.json   {"EVENTS_shop":{"created":"…","first":1,"last":420,"count":420}, …}
//	records.json  {"subscriptions":{"created":"…","last":31,"revisions":{"s1":29}}, …}
//	damage.json   [{"kind":"unreadable","stream":"EVENTS_shop","from":7,"to":9, …}]
//	missed.json   the positions of subscriptions, and the damage without dead letters
//
// The state is behind by up to rememberRest plus rememberEvery, so a loss within that time may go
// unnoticed. A loss that is reported is real, because sequences only grow.
type Memory struct {
	// Run calls Found for new damage, unless it is nil.
	Found func(ctx context.Context, found []sluice.Damage)
	// Missed stores dead letters about damage of logs, for the subscriptions that had not reached
	// the damaged part. Run calls it, again after an error, unless it is nil.
	Missed func(ctx context.Context, owed []Owed) error
	// Remade has a function for some streams that Run calls after the stream was recreated, by this
	// server or another one.
	Remade map[string]func(ctx context.Context)

	dir     string
	store   *natsstore.Store
	names   streams.Names
	streams *streamstore.Store
	had     func(ctx context.Context) (map[string]deliverystore.Had, error)
	log     *slog.Logger

	told    chan struct{}        // a record was added or removed, so the file must be written
	created map[string]time.Time // when the streams of Remade were created; only Run and Leave use it

	mu      sync.Mutex
	records map[string]streamstore.Records // as reported; a bucket has a Created once all of its records were reported
	changed bool                           // records have changed since the last write
	counts  map[string]streamstore.Count   // as last written
	damage  []sluice.Damage
	untold  []sluice.Damage // damage that Found was not called for
	gone    map[string]absence
	missed  missed
	gaps    atomic.Pointer[map[string][]sluice.Gap] // of damage, by namespace
}

// New returns the memory of a data directory. Had returns the position of each subscription. Call
// Examine before the other methods.
func New(dir string, store *natsstore.Store, had func(ctx context.Context) (map[string]deliverystore.Had, error), log *slog.Logger) *Memory {
	return &Memory{
		dir: dir, store: store, names: store.Names(), streams: streamstore.New(store), had: had, log: log,
		told: make(chan struct{}, 1), created: map[string]time.Time{}, records: map[string]streamstore.Records{}, gone: map[string]absence{},
	}
}

// Examine compares the stored data with the remembered state. It advances a stream that has lost
// its end, so that no sequence is used twice. It waits for a store that does not respond yet. Call
// it once, before anything is delivered or written. Damage is not an error: the server starts, and
// reports it (Fresh, Found). An unreadable counts.json or records.json counts as missing; an
// unreadable damage.json is an error.
func (m *Memory) Examine(ctx context.Context) error {
	if err := readJSON(filepath.Join(m.dir, DamageFile), &m.damage); err != nil {
		return fmt.Errorf("%w; remove the file if it is damaged", err)
	}
	m.publishGaps()
	was, records := map[string]streamstore.Count{}, map[string]streamstore.Records{}
	if err := errors.Join(readJSON(filepath.Join(m.dir, countsFile), &was), readJSON(filepath.Join(m.dir, recordsFile), &records)); err != nil {
		m.log.WarnContext(ctx, "last known ends of the streams unavailable", slog.Any("error", err))
	}
	for {
		found, err := m.compare(ctx, was, records)
		if err == nil {
			return m.enter(ctx, found, nil)
		}
		if sluice.CodeOf(err) != sluice.Unavailable || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(examineAgain):
		}
	}
}

func (m *Memory) compare(ctx context.Context, was map[string]streamstore.Count, records map[string]streamstore.Records) ([]sluice.Damage, error) {
	is, err := m.streams.Counts(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.openMissed(ctx, is); err != nil {
		return nil, err
	}
	if len(was) > 0 && !sameStore(was, is) {
		m.log.WarnContext(ctx, "none of the streams known to this data directory exists: this is a different or an empty NATS")
		was, records = nil, nil
	}
	found, err := m.lost(ctx, m.streams.CompareCounts(was, is))
	if err != nil {
		return nil, err
	}
	for _, bucket := range guarded() {
		if is[m.names.BucketStream(bucket)].Created.IsZero() {
			continue
		}
		now, err := m.streams.Records(ctx, bucket)
		if err != nil {
			return nil, err
		}
		found = append(found, m.streams.CompareRecords(bucket, records[bucket], now)...)
	}
	for _, d := range append(slices.Clone(m.damage), found...) {
		if err := m.goOn(ctx, d, is); err != nil {
			m.log.ErrorContext(ctx, "lost sequences may be assigned again", slog.String("stream", d.Stream), slog.Any("error", err))
		}
	}
	return found, nil
}

// lost returns the damage without the logs that are missing because their namespaces were deleted.
func (m *Memory) lost(ctx context.Context, all []sluice.Damage) (found []sluice.Damage, err error) {
	for _, d := range all {
		lost := true
		if d.Kind == sluice.DamageMissing && d.Namespace != "" {
			if lost, err = m.store.Lacks(ctx, d.Stream); err != nil {
				return nil, err
			}
		}
		if lost {
			found = append(found, d)
		}
	}
	return found, nil
}

// goOn advances a stream that lost its end, or everything, so that it uses no sequence twice.
func (m *Memory) goOn(ctx context.Context, d sluice.Damage, is map[string]streamstore.Count) error {
	_, there := is[d.Stream]
	switch {
	case d.Kind == sluice.DamageShorter && there:
		return m.streams.MoveOn(ctx, d.Stream, d.To)
	case d.Kind == sluice.DamageMissing && !there:
		err := m.store.Remake(ctx, d.Stream, d.To)
		if sluice.CodeOf(err) == sluice.NotFound {
			return nil // its namespace is gone too
		}
		return err
	}
	return nil
}

// sameStore reports whether any remembered stream still exists.
func sameStore(was, is map[string]streamstore.Count) bool {
	for name, c := range was {
		if is[name].Created.Equal(c.Created) {
			return true
		}
	}
	return false
}

// enter adds to the known damage. Had is the position of each subscription while the log was
// intact; nil stands for their positions when the server started. Damage that is known already is
// not entered again (sluice.Damage.Same).
func (m *Memory) enter(ctx context.Context, found []sluice.Damage, had map[string]deliverystore.Had) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.untold)
	for _, d := range found {
		if slices.ContainsFunc(m.damage, d.Same) {
			continue
		}
		d.FoundAt = time.Now().UTC()
		m.owe(d, had)
		m.damage, m.untold = append(m.damage, d), append(m.untold, d)
		m.log.ErrorContext(ctx, "stored data is damaged", slog.String("kind", string(d.Kind)), slog.String("stream", d.Stream),
			slog.String("key", d.Key), slog.Uint64("from", d.From), slog.Uint64("to", d.To), slog.Uint64("messages", d.Messages))
	}
	if len(m.untold) == before {
		return nil
	}
	m.publishGaps()
	if len(m.missed.Owed) > 0 { // before the damage file, because known damage is not entered again
		if err := m.keepMissed(); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(m.dir, DamageFile), m.damage)
}

// Known returns the known damage.
func (m *Memory) Known() []sluice.Damage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.damage)
}

// Fresh returns the damage for which Found was not called yet. Found will not be called for it any
// more.
func (m *Memory) Fresh() (fresh []sluice.Damage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh, m.untold = m.untold, nil
	return fresh
}

// Forget acknowledges all damage. It recreates missing streams as empty ones. Repeat it after an
// error.
func (m *Memory) Forget(ctx context.Context) error {
	if err := m.restore(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.damage = nil
	m.publishGaps()
	return remove(filepath.Join(m.dir, DamageFile))
}

// OfBucket returns the known damage of a bucket, by key. The result is empty if there is none.
func (m *Memory) OfBucket(bucket string) map[string]sluice.Damage {
	all := map[string]sluice.Damage{}
	for _, d := range m.Known() {
		if d.Stream == m.names.BucketStream(bucket) && d.Key != "" {
			all[d.Key] = d
		}
	}
	return all
}

// Run keeps the remembered state current until ctx is done. It returns the error of ctx. Run calls
// Found and Missed from its goroutine. They must not block for long, because no state is remembered
// meanwhile.
func (m *Memory) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, bucket := range guarded() {
		watches.Go(func() { m.watch(ctx, bucket) })
	}
	for ctx.Err() == nil {
		begun := time.Now()
		if err := m.remember(ctx); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "ends of the streams not recorded", slog.Any("error", err))
		}
		if fresh := m.Fresh(); len(fresh) > 0 && m.Found != nil {
			m.Found(ctx, fresh)
		}
		m.tellMissed(ctx)
		rest(ctx, m.store.Missed(), min(rememberShare*time.Since(begun), rememberRest)) // leases without a bucket expire
		rest(ctx, m.told, rememberEvery)
	}
	return ctx.Err()
}

// rest waits for a time, for an element of a channel, or for the end of ctx.
func rest(ctx context.Context, until <-chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-until:
	case <-time.After(d):
	}
}

// watch keeps the revisions of the records of a bucket up to date.
func (m *Memory) watch(ctx context.Context, bucket string) {
	told := streamstore.Records{Revisions: map[string]uint64{}}
	err := m.streams.WatchRecords(ctx, bucket, func(key string, revision uint64, change natsstore.Change) {
		m.mu.Lock()
		defer m.mu.Unlock()
		told.Last = max(told.Last, revision)
		switch change {
		case natsstore.Set:
			told.Revisions[key] = revision
		case natsstore.Removed:
			delete(told.Revisions, key)
		case natsstore.CaughtUp:
			told.Created = time.Now() // not zero: all records were reported
		}
		m.records[bucket], m.changed = told, true
		select {
		case m.told <- struct{}{}:
		default: // a write is pending
		}
	})
	if ctx.Err() == nil {
		m.log.WarnContext(ctx, "records not listed", slog.String("bucket", bucket), slog.Any("error", err))
	}
}

// remember stores the changed state of all streams.
func (m *Memory) remember(ctx context.Context) error {
	is, err := m.streams.Counts(ctx)
	if err == nil && m.checkMissing(ctx, is) {
		is, err = m.streams.Counts(ctx)
	}
	if err != nil {
		return err
	}
	m.tellRemade(ctx, is)
	counts := m.toRemember(ctx, is)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(counts, m.counts) {
		if err := writeJSON(filepath.Join(m.dir, countsFile), counts); err != nil {
			return err
		}
		m.counts = counts
	}
	if !m.changed {
		return nil
	}
	now := map[string]streamstore.Records{}
	for bucket, told := range m.records {
		stream := counts[m.names.BucketStream(bucket)]
		if told.Created.IsZero() || stream.Created.IsZero() || told.Last > stream.Last {
			return nil // some records were not reported yet
		}
		told.Created = stream.Created
		now[bucket] = told
	}
	if len(now) < len(guarded()) {
		return nil
	}
	m.changed = false
	return writeJSON(filepath.Join(m.dir, recordsFile), now)
}

// Leave remembers the state of all streams when the server stops. Call it after Run has ended. It
// takes at most rememberLast.
func (m *Memory) Leave(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, rememberLast)
	defer cancel()
	for _, bucket := range guarded() { // not all may have been reported
		now, err := m.streams.Records(limit, bucket)
		if err != nil {
			m.left(ctx, err)
			return // the store does not answer
		}
		m.mu.Lock()
		m.records[bucket], m.changed = now, true
		m.mu.Unlock()
	}
	if err := m.remember(limit); err != nil {
		m.left(ctx, err)
	}
}

// left logs that Leave failed, unless the store is stopping with the server.
func (m *Memory) left(ctx context.Context, err error) {
	if !shutdown.Left(ctx, "counts of the streams", 1) {
		m.log.WarnContext(ctx, "ends of the streams not recorded", slog.Any("error", err))
	}
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file) //nolint:gosec // in the data directory that the operator chose
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return replace(file, string(text)+"\n")
}

// replace replaces a file in one step.
func replace(file, content string) error {
	temp := file + ".new"
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, file)
}
