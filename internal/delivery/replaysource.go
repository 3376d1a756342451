package delivery

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// replaySource delivers the events of a replay. At most one window of them are unacknowledged.
type replaySource struct {
	*replaying

	sub       *sluice.Subscription
	events    Events
	cancel    context.CancelFunc
	reading   sync.WaitGroup
	out       chan *model.Delivery
	ended     chan struct{}
	exhausted chan struct{} // closed when everything was handed out
	start     uint64
	room      chan struct{} // receives a value when an event was acknowledged

	lock sync.Mutex
	next uint64              // everything before it was handed out
	open map[uint64]struct{} // handed out and not acknowledged
}

// Deliveries returns the channel of deliveries.
func (s *replaySource) Deliveries() <-chan *model.Delivery { return s.out }

// Ended returns a channel that is closed when the source cannot continue.
func (s *replaySource) Ended() <-chan struct{} { return s.ended }

// Exhausted returns a channel that is closed when everything was handed out.
func (s *replaySource) Exhausted() <-chan struct{} { return s.exhausted }

// Seen returns the last sequence before the start of the source: it hands out the later events of
// parked lanes again.
func (s *replaySource) Seen(sluice.Path) uint64 { return s.start - 1 }

// Floor returns 0, because Recover returns all attempts of the replay.
func (s *replaySource) Floor() uint64 { return 0 }

// Look does nothing, see replaySources.
func (s *replaySource) Look(context.Context, func(*sluice.Event) bool, func(from, to uint64) error) error {
	return nil
}

// Close ends the source and stores the replay's position.
func (s *replaySource) Close() {
	s.cancel()
	s.reading.Wait()
}

// read hands out the events of the range.
func (s *replaySource) read(ctx context.Context) {
	for from := s.start; from <= s.end(); {
		events, err := s.batch(ctx, from)
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "replay cannot read the log", slog.String("replay", s.replay.ID), slog.Any("error", err))
				close(s.ended)
			}
			return
		}
		for i := range events {
			if !s.handOver(ctx, &events[i]) {
				return
			}
		}
		from = s.end() + 1
		if len(events) > 0 {
			from = events[len(events)-1].Seq + 1
		}
		s.passed(from)
	}
	close(s.exhausted)
}

// batch returns the next events, up to the end of the range.
func (s *replaySource) batch(ctx context.Context, from uint64) ([]model.ReadEvent, error) {
	events, _, err := s.events.ReadLane(ctx, s.sub, "", from, replayBatch)
	end := slices.IndexFunc(events, func(ev model.ReadEvent) bool { return ev.Seq > s.end() })
	if end >= 0 {
		events = events[:end]
	}
	return events, err
}

func (s *replaySource) handOver(ctx context.Context, ev *model.ReadEvent) bool {
	for {
		s.lock.Lock()
		fits := len(s.open) < s.sub.Policy.MaxPending()
		if fits {
			s.open[ev.Seq] = struct{}{}
		}
		s.lock.Unlock()
		if fits {
			break
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case s.out <- &model.Delivery{Event: ev.Event, Err: ev.Err, Receipt: replayReceipt{s, ev.Seq}}:
		s.passed(ev.Seq + 1)
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *replaySource) passed(next uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.next = max(s.next, next)
}

// place returns the first sequence that is neither settled nor parked.
func (s *replaySource) place() uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	first := s.next
	for seq := range s.open {
		first = min(first, seq)
	}
	return first
}

// keepProgress stores the replay's position every progressEvery and when ctx ends.
func (s *replaySource) keepProgress(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	saved := s.start
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		limit, cancel := context.WithTimeout(shutdown.Lasting(ctx), recordLimit)
		place, err := s.progress(limit, saved)
		if err != nil {
			s.log.WarnContext(limit, "replay's progress not stored yet", slog.String("replay", s.replay.ID), slog.Any("error", err))
		}
		saved = place
		cancel()
	}
}

// progress stores the replay's position and counters if they changed, and returns the stored
// position.
func (s *replaySource) progress(ctx context.Context, saved uint64) (uint64, error) {
	place := s.place()
	if s.replay.Kind == sluice.ReplayDeadLetters {
		if err := s.deleteLetters(ctx); err != nil {
			return saved, err
		}
	}
	if place == saved && !s.counted() {
		return saved, nil
	}
	next := place
	if s.replay.Kind == sluice.ReplayDeadLetters {
		next = s.replay.From // the remaining letters are its progress
	}
	if err := s.save(ctx, next); err != nil {
		return saved, err
	}
	return place, nil
}

// replayReceipt acknowledges to the replay's source.
type replayReceipt struct {
	source *replaySource
	seq    uint64
}

// Ack records that the delivery is settled or parked.
func (r replayReceipt) Ack() error {
	r.source.lock.Lock()
	delete(r.source.open, r.seq)
	r.source.lock.Unlock()
	select {
	case r.source.room <- struct{}{}:
	default:
	}
	return nil
}

// Hold does nothing, because deliveries of a replay have no acknowledgement timeout.
func (replayReceipt) Hold() error { return nil }
