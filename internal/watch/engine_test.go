package watch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// site is a namespace in memory, on a faked clock. What the store does with all of this, the tests of package app show.
type site struct {
	mu      sync.Mutex
	changed chan struct{} // closed when there are more events, or rights are others

	events  []sluice.Event // their sequences are their places, from 1
	gone    uint64         // events up to it left the log
	slow    int            // so many of the last events are on their way
	record  watch.Record
	version uint64
	puts    int

	shows     sluice.Decision
	perform   func(n int) error // of the n-th try
	underWay  func(context.Context)
	engine    *watch.Engine
	tries     int
	published map[string]sluice.Event
	shut      error               // why nothing is told
	unknown   bool                // nobody knows whether something is there
	watch     chan *watch.Stored  // changes
	buried    []string            // watches of which nothing is left
	foreign   func(*watch.Record) // what somebody else stores before the next write of ours
	theirs    bool                // another process serves the watch; the engine is not told
}

func newSite() *site {
	return &site{changed: make(chan struct{}), published: map[string]sluice.Event{}, shows: sluice.Pass, watch: make(chan *watch.Stored), perform: func(int) error { return nil }}
}

func (s *site) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// publish stores events.
func (s *site) publish(kinds ...string) {
	s.locked(func() {
		for _, kind := range kinds {
			seq := uint64(len(s.events) + 1)
			s.events = append(s.events, sluice.Event{
				Namespace: "acme", Seq: seq, ID: fmt.Sprint("e", seq), Path: "/a", Type: kind, Stored: time.Now(),
				Extensions: map[string]string{"state": kind},
			})
		}
		s.wake()
	})
}

func (s *site) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *site) Watch(ctx context.Context, change func(string, *watch.Stored)) error {
	for {
		select {
		case w := <-s.watch:
			change("acme."+id(w), w)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *site) Get(context.Context, string) (watch.Record, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		return watch.Record{}, 0, sluice.Errorf(sluice.NotFound, "nothing is stored")
	}
	return s.record, s.version, nil
}

func (s *site) Put(_ context.Context, _ string, r watch.Record, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign != nil {
		s.foreign(&s.record)
		s.foreign = nil
		s.version++
	}
	if revision != s.version {
		return 0, sluice.Errorf(sluice.Conflict, "it was changed")
	}
	s.record, s.version, s.puts = r, s.version+1, s.puts+1
	s.record.Firing, s.record.Untold = slices.Clone(r.Firing), slices.Clone(r.Untold)
	return s.version, nil
}

func (s *site) Ends(context.Context, string) (first, last uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone + 1, uint64(len(s.events)), nil
}

func (s *site) Page(_ context.Context, _ string, _ sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < s.gone {
		return nil, 0, sluice.Errorf(sluice.WindowExceeded, "it is gone")
	}
	end := min(after+3, uint64(len(s.events))) // pages are small
	if end >= uint64(len(s.events)) {
		return slices.Clone(s.events[after:end]), max(end, upTo), nil
	}
	return slices.Clone(s.events[after:end]), end, nil
}

func (s *site) Tail(ctx context.Context, _ string, after uint64, each func(sluice.Event) error) error {
	for {
		s.mu.Lock()
		events, changed := slices.Clone(s.events[min(after, uint64(len(s.events)-s.slow)):len(s.events)-s.slow]), s.changed
		s.mu.Unlock()
		for i := range events {
			if err := each(events[i]); err != nil {
				return err
			}
			after = events[i].Seq
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *site) EventAt(_ context.Context, _ string, seq uint64) (sluice.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.gone {
		return sluice.Event{}, sluice.Errorf(sluice.WindowExceeded, "it is gone")
	}
	return s.events[seq-1], nil
}

func (s *site) Has(_ context.Context, _ string, _ sluice.Path, id string, _ uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown {
		return false, sluice.Errorf(sluice.Unavailable, "nobody knows")
	}
	_, ok := s.published[id]
	return ok, nil
}

func (s *site) Announce(_ context.Context, ev sluice.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut == nil {
		s.published[ev.ID] = ev
	}
	return s.shut
}

func (s *site) Shows(sluice.Creator, *sluice.Event) sluice.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shows
}

func (s *site) Applied() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 0, s.changed
}

func (s *site) Perform(ctx context.Context, _ sluice.Creator, ev sluice.Event) error {
	if s.underWay != nil {
		s.underWay(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if err := s.perform(s.tries); err != nil {
		return err
	}
	s.published[ev.ID] = ev
	return nil
}

// all is that this process owns everything, unless the site says otherwise.
type all struct{ site *site }

func (a all) Owns(string) bool {
	a.site.mu.Lock()
	defer a.site.mu.Unlock()
	return !a.site.theirs
}

func (all) Run(ctx context.Context, changed func() <-chan struct{}) error {
	changed()
	<-ctx.Done()
	return nil
}

// run looks after a watch which is met by events of type "on", while f does what happens.
func (s *site) run(t *testing.T, change func(*sluice.Watch), f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	e := watch.New(watch.Ports{Definitions: s, Records: s, Log: s, Gate: s, Perform: s, Owns: all{s}}, watch.Options{Ring: 4})
	s.engine = e
	go func() { ended <- e.Run(ctx) }()
	w := &sluice.Watch{
		ID: "hot", Namespace: "acme", Pattern: "/a", Filter: sluice.Filter{Labels: map[string][]string{"state": {"on"}}}, Trigger: sluice.TriggerEdge, Revision: 7,
		Action: sluice.Action{Path: "/b", Type: "alarm"}, Creator: sluice.Creator{CreatedBy: "user:ann"},
	}
	change(w)
	s.watch <- &watch.Stored{Watch: *w}
	f()
	synctest.Wait()
	cancel()
	require.NoError(t, <-ended)
}

// said returns the ids of all that was published, and the outcomes.
func (s *site) said() (ids, outcomes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids = slices.Sorted(maps.Keys(s.published))
	for _, id := range ids {
		if ev := s.published[id]; ev.Type == sluice.TypeWatchFired {
			_, rest, _ := strings.Cut(string(ev.Data), `"dispatch_outcome":"`)
			outcome, _, _ := strings.Cut(rest, `"`)
			outcomes = append(outcomes, outcome)
		}
	}
	return ids, outcomes
}

func asIs(*sluice.Watch) {}

func TestAnEventIsPublishedWhenTheConditionBeginsToHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off") // before anybody looks: from pages
		s.run(t, asIs, func() {
			synctest.Wait()
			s.publish("on", "on", "off", "off", "on")
		})
		ids, outcomes := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "fired-watch-hot-7-3", "fired-watch-hot-7-7", "watch-hot-7-1", "watch-hot-7-3", "watch-hot-7-7"}, ids)
		require.Equal(t, []string{"ok", "ok", "ok"}, outcomes)
		ev := s.published["watch-hot-7-3"]
		require.Equal(t, map[string]string{"causationid": "e3", "correlationid": "e3"}, ev.Extensions)
		require.Equal(t, uint64(7), s.record.Place, "it was stored at the end")
		require.Empty(t, s.record.Firing)
	})
}

func TestWhatIsNotKnownIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.shows = sluice.Undecided
		s.run(t, asIs, func() {
			s.publish("on")
			<-time.After(time.Minute)
			ids, _ := s.said()
			require.Empty(t, ids)
			s.locked(func() {
				s.shows = sluice.Pass
				s.wake()
			})
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "watch-hot-7-1"}, ids)
	})
}

func TestWhatMayNotBeReadIsAsIfItWereNotThere(t *testing.T) {
	t.Parallel()
	for _, d := range []sluice.Decision{sluice.Withhold, sluice.Lost} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.shows = d
				s.run(t, asIs, func() { s.publish("on", "off", "on") })
				ids, _ := s.said()
				require.Empty(t, ids)
				require.Equal(t, uint64(3), s.record.Place)
				require.Empty(t, s.record.Paths)
			})
		})
	}
}

func TestAnActionIsTriedUntilItIsKnownWhatCameOfIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		perform func(n int) error
		tries   int
		outcome string
	}{
		"the log cannot be reached": {func(n int) error {
			if n < 30 {
				return sluice.Errorf(sluice.Unavailable, "not now")
			}
			return nil
		}, 30, "ok"},
		"it is forbidden":                {func(int) error { return sluice.Errorf(sluice.Forbidden, "no") }, 1, "forbidden"},
		"it is more than may be":         {func(int) error { return sluice.Errorf(sluice.QuotaExceeded, "no") }, 1, "quota_exceeded"},
		"nobody knows why it goes wrong": {func(int) error { return errors.New("a fault of ours") }, 11, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.perform = tt.perform
				s.run(t, asIs, func() {
					s.publish("on")
					<-time.After(10 * time.Minute)
				})
				require.Equal(t, tt.tries, s.tries)
				_, outcomes := s.said()
				require.Equal(t, []string{tt.outcome}, outcomes)
			})
		})
	}
}

// What was decided and may have been done is done if it was not.
func TestWhatWasDecidedBeforeIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off", "on", "on")
		s.record, s.version = watch.Record{Revision: 7, Kept: watch.Kept{Place: 4}, Firing: []watch.Firing{{Seq: 1}, {Seq: 3}}}, 5
		s.published["watch-hot-7-1"] = sluice.Event{}
		s.unknown = true
		s.run(t, asIs, func() {
			<-time.After(time.Minute)
			require.Zero(t, s.tries, "while it is not known what was done, nothing is")
			s.locked(func() { s.unknown = false })
			<-time.After(time.Minute)
		})
		require.Equal(t, 1, s.tries)
		ids, outcomes := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "fired-watch-hot-7-3", "watch-hot-7-1", "watch-hot-7-3"}, ids)
		require.Equal(t, []string{"ok", "ok"}, outcomes)
	})
}

// Who finds that somebody else looked after the watch goes on from what that one stored.
func TestWhoComesSecondGoesOnFromWhatIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.foreign = func(r *watch.Record) {
			*r = watch.Record{Revision: 7, Kept: watch.Kept{Place: 3}}
		}
		s.run(t, asIs, func() {
			s.publish("on", "off", "on", "off", "on")
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-5", "watch-hot-7-5"}, ids, "the first two were the other's")
	})
}

// What has left the log, or may not be read any more, when a duration is over is told of.
func TestAReadingThatIsGoneWhenItsTimeComesDoesNotFire(t *testing.T) {
	t.Parallel()
	lasting := func(w *sluice.Watch) { w.For = sluice.Duration(time.Minute) }
	for name, tt := range map[string]struct {
		change func(*site)
		id     string
	}{
		"it left the log":                   {func(s *site) { s.gone = 1 }, "missed-watch-hot-7-1-expired"},
		"its creator may not read it again": {func(s *site) { s.shows = sluice.Withhold }, "missed-watch-hot-7-1-not_readable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.run(t, lasting, func() {
					s.publish("on")
					<-time.After(30 * time.Second)
					s.locked(func() { tt.change(s) })
					<-time.After(35 * time.Second)
				})
				ids, _ := s.said()
				require.Equal(t, []string{tt.id}, ids)
			})
		})
	}
}

// An event that ends a condition in time does so, though it arrives later.
func TestWhatIsOnItsWayCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, func(w *sluice.Watch) { w.For = sluice.Duration(time.Minute) }, func() {
			s.publish("on")
			<-time.After(59 * time.Second)
			s.locked(func() { s.slow = 1 })
			s.publish("off")
			<-time.After(time.Minute)
			s.locked(func() {
				s.slow = 0
				s.wake()
			})
			<-time.After(time.Minute)
			s.publish("on")
			<-time.After(2 * time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-3", "watch-hot-7-3"}, ids)
	})
}

// A watch that has nothing to do but to be overtaken stores where it is, now and then.
func TestAPlaceIsStoredNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, func(w *sluice.Watch) { w.Pattern = "/other" }, func() {
			for range 60 {
				s.publish("on", "on")
				<-time.After(time.Second)
			}
			<-time.After(time.Hour)
			s.locked(func() {
				require.InDelta(t, 12, s.puts, 1, "every five seconds, and not at all when nothing comes")
				require.Equal(t, uint64(120), s.record.Place)
			})
		})
	})
}
