package watch_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
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

	shows     model.Decision
	perform   func(n int) error // of the n-th try
	underWay  func(context.Context)
	engine    *watch.Engine
	tries     int
	published map[string]sluice.Event
	shut      error              // why nothing is told
	unknown   bool               // the log's tail is unknown
	watch     chan *watch.Stored // changes
	buried    []string
	deleted   []string            // watches that the engine reported as deleted            // watches of which nothing is left
	foreign   func(*watch.Record) // what another replica stores before the next write
	filters   *filter.Pool        // whose rates are for the creators
	lost      []sluice.Gap        // ranges that are damaged
	theirs    bool                // another process serves the watch; the engine is not told
}

func newSite() *site {
	return &site{changed: make(chan struct{}), published: map[string]sluice.Event{}, shows: model.Pass, watch: make(chan *watch.Stored), perform: func(int) error { return nil }}
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

func (s *site) Has(_ context.Context, _ string, _ sluice.Path, _ uint64, wanted func(*sluice.Event) bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown {
		return false, sluice.Errorf(sluice.Unavailable, "unknown")
	}
	for _, ev := range s.published {
		if wanted(&ev) {
			return true, nil
		}
	}
	return false, nil
}

func (s *site) Secret(name string) (string, error) {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(name))), nil
}

// alarm returns the id of what the watch publishes because of a reading.
func alarm(seq int) string {
	name := fmt.Sprint("watch-hot-7-", seq)
	return fmt.Sprintf("%s-%x", name, sha256.Sum256([]byte("acme "+name)))[:len(name)+33]
}

func (s *site) Announce(_ context.Context, ev sluice.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut == nil {
		s.published[ev.ID] = ev
	}
	return s.shut
}

func (s *site) Shows(sluice.Creator, *sluice.Event) model.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shows
}

func (s *site) Applied() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 0, s.changed
}

func (s *site) Perform(ctx context.Context, by sluice.Creator, ev sluice.Event) error {
	if s.underWay != nil {
		s.underWay(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if err := s.perform(s.tries); err != nil {
		return err
	}
	ev.ProducedBy(by.CreatedBy, "user")
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
	e := watch.New(watch.Deps{Definitions: s, Records: s, Log: s, Gate: s, Perform: s, Owns: all{s}}, watch.Options{
		Ring: 4, Filters: s.filters, Observe: counted{s}, Payer: func(by sluice.Creator, _ string) string { return string(by.CreatedBy) },
		Lost: func(string) (lost []sluice.Gap) {
			s.locked(func() { lost = slices.Clone(s.lost) })
			return lost
		},
	})
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

// counted notes which watches the engine reports as deleted.
type counted struct{ *site }

func (counted) Looked(*sluice.Watch, uint64, uint64) {}
func (counted) Fired(*sluice.Watch, string)          {}

func (c counted) Deleted(w *sluice.Watch) {
	c.locked(func() { c.deleted = append(c.deleted, w.ID) })
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
