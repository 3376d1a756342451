package delivery

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// errReplayed tells the engine that a replay has delivered everything.
var errReplayed = errors.New("the replay is done")

// progressEvery is the interval at which a replay's progress is stored. After a crash, the attempt
// log has the deliveries since the last write.
const progressEvery = time.Second

const replayBatch = 64 // events per read

// replaying makes a runner deliver a replay. It wraps the dependencies of the subscription's
// runner, and provides a source that reads the replay's range of the log, or its dead letters,
// once.
type replaying struct {
	replay sluice.Replay // as it was when the runner was created
	ports  Deps
	log    *slog.Logger

	pattern sluice.Pattern // of the subscription

	works func() // called when the endpoint accepts a request

	letters atomic.Pointer[deadLetterSource] // for a replay of dead letters: set when its source is opened

	mu       sync.Mutex
	sent     uint64
	dead     uint64
	next     uint64   // position at the last save
	stored   uint64   // sent plus dead at the last save
	answered []uint64 // delivered events with letters to delete
}

func newReplaying(rep sluice.Replay, ports Deps, log *slog.Logger) *replaying {
	return &replaying{works: func() {}, replay: rep, ports: ports, log: log, sent: rep.Sent, dead: rep.Dead, stored: rep.Sent + rep.Dead}
}

// runner returns the runner of a replay, with lanes, attempts and progress of its own.
func (r *replaying) runner(sub *sluice.Subscription, e *Engine) *runner {
	ports := r.ports
	r.pattern = sub.Pattern
	if r.replay.Kind == sluice.ReplayDeadLetters {
		ports.Events = replayLetters{r}
	}
	// Only live deliveries report the endpoint's health.
	ports.Healths, ports.Announce = noHealths{}, replayAnnouncer{r.ports.Announce}
	ports.Sources, ports.Log, ports.Lanes, ports.Registry = replaySources{r}, replayLog{r.ports.Log, r}, replayLanes{r.ports.Lanes, r}, replayRegistry{r.ports.Registry, r}
	run := e.newRunner(sub, ports)
	run.scope = scope{
		lanesOf: streams.ReplayLanes(r.replay.ID), only: r.wants, rate: r.replay.Rate,
		conclude: r.conclude,
	}
	return run
}

// wants reports whether the replay delivers an event that its subscription wants.
func (r *replaying) wants(ev *sluice.Event) bool { return ev.Seq <= r.end() && r.replay.Wants(ev) }

// end returns the last sequence of the log that the replay may deliver.
func (r *replaying) end() uint64 {
	if r.replay.Kind == sluice.ReplayDeadLetters {
		return math.MaxUint64 - 1
	}
	return r.replay.To
}

// arrived counts a delivered event. In a replay of dead letters, it also marks the event's letter
// for deletion.
func (r *replaying) arrived(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if r.letters.Load() != nil {
		r.answered = append(r.answered, seq)
	}
}

// deleteLetters deletes the letters of delivered events. The next call retries failed deletions.
func (r *replaying) deleteLetters(ctx context.Context) error {
	r.mu.Lock()
	seqs := r.answered
	r.answered = nil
	r.mu.Unlock()
	for n, seq := range seqs {
		if err := r.letters.Load().delivered(ctx, seq); err != nil {
			r.mu.Lock()
			r.answered = append(r.answered, seqs[n:]...)
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

// replayLetters reads dead letters in place of the log.
type replayLetters struct{ r *replaying }

// ReadLane returns the next events of the letters.
func (l replayLetters) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) ([]model.ReadEvent, uint64, error) {
	return l.r.letters.Load().ReadLane(ctx, sub, path, from, limit)
}

// save stores the replay's position and counters.
func (r *replaying) save(ctx context.Context, next uint64) error {
	var counted uint64
	err := r.ports.Replays.Progress(ctx, r.replay, func(rep *sluice.Replay) {
		r.mu.Lock()
		defer r.mu.Unlock()
		rep.Next, rep.Sent, rep.Dead = max(rep.Next, next), max(rep.Sent, r.sent), max(rep.Dead, r.dead)
		rep.Unreadable = max(rep.Unreadable, r.unreadable(rep))
		counted = r.sent + r.dead
	})
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stored, r.next = counted, max(r.next, next)
	}
	return err
}

// counted reports whether counters changed since the last save. Deliveries of lanes that are read
// back change them without moving the replay's position.
func (r *replaying) counted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent+r.dead != r.stored
}

// goOn takes over the stored counters, because the previous owner may have stored more after this
// one was created.
func (r *replaying) goOn(from sluice.Replay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.dead, r.next = max(r.sent, from.Sent), max(r.dead, from.Dead), max(r.next, from.Next)
}

// conclude stores that everything was delivered. It first deletes the letters that are left: after
// an error the runner starts again, and retries.
func (r *replaying) conclude(ctx context.Context) error {
	if err := r.deleteLetters(ctx); err != nil {
		return err
	}
	return r.finish(ctx, sluice.ReplayDone, "")
}

// finish stores that the replay has ended.
func (r *replaying) finish(ctx context.Context, state sluice.ReplayState, reason string) error {
	return r.ports.Replays.Progress(ctx, r.replay, func(rep *sluice.Replay) {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := time.Now().UTC()
		rep.State, rep.Reason, rep.EndedAt = state, reason, &now
		rep.Sent, rep.Dead = max(rep.Sent, r.sent), max(rep.Dead, r.dead)
		if state == sluice.ReplayDone {
			rep.Next = rep.To + 1
		}
		rep.Unreadable = max(rep.Unreadable, r.unreadable(rep))
	})
}

// unreadable returns how many events before the replay's position may be lost to damage, as far as
// that is known.
func (r *replaying) unreadable(rep *sluice.Replay) (n uint64) {
	if rep.Kind != sluice.ReplayRange || r.ports.Lost == nil {
		return 0
	}
	for _, gap := range sluice.GapsWithin(r.ports.Lost(rep.Namespace), max(rep.From, 1)-1, max(rep.Next, 1)-1, r.pattern.Match) {
		n += gap.Events
	}
	return n
}

// replaySources opens the replay's source.
type replaySources struct{ r *replaying }

// Open opens the source at the replay's position.
func (s replaySources) Open(ctx context.Context, sub *sluice.Subscription) (Source, error) {
	now, err := s.r.ports.Replays.Replay(ctx, s.r.replay)
	if err != nil {
		return nil, err
	}
	if now.State != sluice.ReplayRunning {
		return nil, errReplayed
	}
	s.r.goOn(now)
	start, events := max(now.Next, now.From), s.r.ports.Events
	if now.Kind == sluice.ReplayDeadLetters {
		found, err := readDeadLetters(ctx, s.r.ports.Letters, sub, &s.r.replay)
		if err != nil {
			return nil, err
		}
		s.r.letters.Store(found)
		start, events = 1, found
	}
	reading, cancel := context.WithCancel(shutdown.Lasting(ctx))
	src := &replaySource{
		replaying: s.r, sub: sub, cancel: cancel, next: start, start: start, events: events,
		out: make(chan *model.Delivery), ended: make(chan struct{}), exhausted: make(chan struct{}),
		open: map[uint64]struct{}{}, room: make(chan struct{}, 1),
	}
	src.reading.Go(func() { src.read(reading) })
	src.reading.Go(func() { src.keepProgress(reading) })
	return src, nil
}

// Look does nothing, because events that left the log cannot be replayed.
func (replaySources) Look(context.Context, *sluice.Subscription, func(*sluice.Event) bool, func(from, to uint64) error) error {
	return nil
}

// replayLog marks the attempts of a replay, and counts the outcomes of its events.
type replayLog struct {
	Log

	r *replaying
}

// Record stores an attempt as one of the replay.
func (l replayLog) Record(a *sluice.Attempt, namespace string, done func(error)) {
	a.Replay = l.r.replay.ID
	l.Log.Record(a, namespace, func(err error) {
		if err == nil && a.Outcome == sluice.Delivered {
			for one := range a.Events() {
				l.r.arrived(one.Seq)
			}
			l.r.works()
		}
		done(err)
	})
}

// Recover returns the progress of the replay's latest attempts. It counts those that the stored
// counters lack, and marks the letters of settled events for deletion, because a crash may have come
// before either.
func (l replayLog) Recover(ctx context.Context, sub *sluice.Subscription, _, _ uint64) (map[uint64]model.Progress, error) {
	known, err := l.r.ports.Replays.Recover(ctx, sub, l.r.replay)
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	sent, dead := outcomes(known)
	l.r.sent, l.r.dead = max(l.r.sent, sent), max(l.r.dead, dead)
	if letters := l.r.letters.Load(); letters != nil {
		l.r.answered = append(l.r.answered, letters.settled(known)...)
	}
	return known, err
}

// outcomes returns the numbers of deliveries that arrived and that became dead letters.
func outcomes(known map[uint64]model.Progress) (sent, dead uint64) {
	for _, p := range known {
		if p.Delivered {
			sent++
		}
		if p.Dead {
			dead++
		}
	}
	return sent, dead
}

// Bury stores a dead letter as one of the replay.
func (l replayLog) Bury(ctx context.Context, d sluice.DeadLetter) error {
	if l.r.discarded(&d) {
		return nil
	}
	d.Replay = l.r.replay.ID
	err := l.Log.Bury(ctx, d)
	if err == nil {
		l.r.mu.Lock()
		l.r.dead++
		l.r.mu.Unlock()
	}
	return err
}

// discarded reports whether an event expired in the replay only because an operator discarded its
// dead letter meanwhile.
func (r *replaying) discarded(d *sluice.DeadLetter) bool {
	return d.Reason == sluice.Expired && r.replay.Kind == sluice.ReplayDeadLetters
}

// replayAnnouncer announces only the outcomes of a replay's deliveries.
type replayAnnouncer struct{ Announcer }

// Failing does nothing, because live deliveries announce a failing endpoint.
func (replayAnnouncer) Failing(*sluice.Subscription, int, time.Time) {}

// Turned does nothing, because the breaker of a replay is not that of the subscription.
func (replayAnnouncer) Turned(*sluice.Subscription, sluice.Breaker, time.Time) {}

// replayLanes provides the lanes of a replay.
type replayLanes struct {
	Lanes

	r *replaying
}

// Parked returns the replay's parked lanes.
func (l replayLanes) Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error) {
	return l.r.ports.Replays.Parked(ctx, sub, streams.ReplayLanes(l.r.replay.ID))
}

// replayRegistry leaves disabling a subscription that has failed for too long to the live
// deliveries.
type replayRegistry struct {
	Registry

	r *replaying
}

// SuspendCostly ends only the replay, because the events in its range say nothing about later ones.
func (r replayRegistry) SuspendCostly(ctx context.Context, _ *sluice.Subscription, reason string) error {
	return r.r.finish(ctx, sluice.ReplayCancelled, reason)
}

// DisableFailing does nothing.
func (replayRegistry) DisableFailing(context.Context, *sluice.Subscription, string) error { return nil }
