package delayed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDecide_KnownStates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	claim := func(by string) *sluice.Claim { return &sluice.Claim{By: by, Since: at, At: at, Tries: 1} }
	for _, c := range []struct {
		name  string
		claim *sluice.Claim
		ended string
		grace time.Duration
		after time.Duration
		want  step
		until time.Duration
	}{
		{"before its time", nil, "", 0, -time.Nanosecond, wait, 0},
		{"at its time", nil, "", 0, 0, publish, 0},
		{"long after it", nil, "", 0, 1000 * time.Hour, publish, 0},
		{"when it is another's turn", nil, "", action.Backup, 0, hold, action.Backup},
		{"before its time, and another's turn", nil, "", action.Backup, -time.Second, wait, 0},
		{"when no replica took its turn", nil, "", action.Backup, action.Backup, publish, 0},
		{"another is at it", claim("other"), "", 0, time.Second, hold, time.Second + poll},
		{"another is at it for some time", claim("other"), "", 0, action.HoldFor, wait, action.ClaimFor},
		{"another was at it for long", claim("other"), "", action.Backup, action.ClaimFor, resume, 0},
		{"we were at it in a former life", claim("me"), "", action.Backup, time.Second, resume, 0},
		{"cancelled before its time", nil, sluice.OutcomeCancelled, 0, -time.Hour, finish, 0},
		{"refused", claim("other"), "forbidden", action.Backup, time.Second, finish, 0},
	} {
		s := &model.Scheduled{DeliverAt: at, Claim: c.claim, Outcome: c.ended}
		got, until := decide(s, moment{now: at.Add(c.after), me: "me", grace: c.grace})
		require.Equal(t, c.want, got, c.name)
		if c.want == wait || c.want == hold {
			require.Equal(t, at.Add(c.until), until, c.name)
		}
	}
}

// A replica waits for the replica whose turn it is, as long as that one is seen at the lane, and two seconds more.
func TestLane_LiveReplicaIsNotOvertaken(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	s := &model.Scheduled{DeliverAt: at}
	seen := at.Add(time.Minute)
	do, until := decide(s, moment{now: seen.Add(time.Second), me: "me", grace: action.Backup, others: seen})
	require.Equal(t, hold, do)
	require.Equal(t, seen.Add(action.Backup), until)
	do, _ = decide(s, moment{now: until, me: "me", grace: action.Backup, others: seen})
	require.Equal(t, publish, do)
	do, _ = decide(s, moment{now: at, me: "me", others: seen})
	require.Equal(t, publish, do, "it is its turn now")
}

// By any decision an ended event is never published, none is published before its time, and a replica that waits is
// given a time that comes.
func TestDecide_NeverPublishesEndedOrEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Int64Range(-int64(time.Hour), int64(time.Hour))
		at := time.Unix(1_700_000_000, 0)
		s := &model.Scheduled{DeliverAt: at, Outcome: rapid.SampledFrom([]string{"", "", "forbidden", "cancelled"}).Draw(t, "outcome")}
		if rapid.Bool().Draw(t, "claimed") {
			s.Claim = &sluice.Claim{By: rapid.SampledFrom([]string{"me", "other"}).Draw(t, "by"), At: at.Add(time.Duration(max(0, span.Draw(t, "claimed at"))))}
		}
		m := moment{
			now: at.Add(time.Duration(span.Draw(t, "now"))), me: "me",
			grace: time.Duration(max(0, span.Draw(t, "grace"))), others: at.Add(time.Duration(span.Draw(t, "others"))),
		}
		do, until := decide(s, m)
		switch do {
		case publish:
			require.Nil(t, s.Claim)
			require.Empty(t, s.Outcome)
			require.False(t, m.now.Before(at))
		case resume:
			require.Empty(t, s.Outcome)
			require.NotNil(t, s.Claim)
		case wait, hold:
			require.True(t, until.After(m.now))
		case finish:
			require.NotEmpty(t, s.Outcome)
		}
	})
}

// world is all that an engine works with, in memory. It dies at a write, before or after it is done.
type world struct {
	now      time.Time // zero: the real one
	records  map[string]model.Scheduled
	revision uint64
	log      map[string]time.Time // when an id was stored
	stored   []string             // every time that something was
	told     map[string]bool
	tells    int
	window   time.Duration
	refuse   error     // what publishing says
	away     error     // what is said before anything is published
	blind    error     // what looking for an id says
	full     error     // what the store says about room
	tight    time.Time // until then, nothing can be told
	deaf     error     // what telling says
	asked    int       // how often something was to be told
	lines    *slog.Logger
	searched []time.Time          // since when the log was searched
	reports  chan model.Scheduled // what is stored; nil: it is not reported

	left  int  // writes until it dies; below 0: it does not
	after bool // it dies after the write
}

var errDead = errors.New("dead")

// write does something unless the world dies before it.
func (w *world) write(do func() error) error {
	w.left--
	if w.left == 0 && !w.after {
		panic(errDead)
	}
	err := do()
	if w.left == 0 {
		panic(errDead)
	}
	return err
}

func (w *world) Put(_ context.Context, s *model.Scheduled) (revision uint64, err error) {
	err = w.write(func() error {
		if w.records[s.Event.ID].Revision != s.Revision {
			return sluice.Errorf(sluice.Conflict, "changed")
		}
		w.revision++
		is := *s
		is.Revision = w.revision
		w.records[s.Event.ID] = is
		if w.reports != nil {
			w.reports <- is
		}
		return nil
	})
	return w.revision, err
}

func (w *world) Get(_ context.Context, _, id string) (model.Scheduled, error) {
	if s, ok := w.records[id]; ok {
		return s, nil
	}
	return model.Scheduled{}, sluice.Errorf(sluice.NotFound, "none")
}

func (w *world) Delete(_ context.Context, s *model.Scheduled) error {
	return w.write(func() error {
		if w.records[s.Event.ID].Revision != s.Revision {
			return sluice.Errorf(sluice.Conflict, "changed")
		}
		delete(w.records, s.Event.ID)
		return nil
	})
}

func (w *world) Room() error { return w.full }

func (w *world) Watch(context.Context, func(string, *model.Scheduled)) error { return nil }

func (w *world) Window(context.Context, string) (time.Duration, error) { return w.window, nil }

func (w *world) StoredSince(_ context.Context, e *sluice.Event, since time.Time) (uint64, error) {
	w.searched = append(w.searched, since)
	if at, ok := w.log[e.ID]; ok && !at.Before(since) {
		return 1, nil
	}
	return 0, nil
}

func (w *world) RecentByID(_ context.Context, _, id string) (sluice.Event, error) {
	if w.blind != nil {
		return sluice.Event{}, w.blind
	}
	if _, ok := w.log[id]; ok {
		return sluice.Event{ID: id, Path: "/a", Seq: 1}, nil
	}
	return sluice.Event{}, sluice.Errorf(sluice.NotFound, "none")
}

func (w *world) Publish(_ context.Context, _ string, events []sluice.Event) (stored []sluice.Stored, err error) {
	id, duplicate := events[0].ID, false
	err = w.write(func() error {
		if w.refuse != nil {
			return w.refuse
		}
		at, ok := w.log[id]
		if duplicate = ok && w.now.Sub(at) <= w.window; !duplicate { // the log knows its id
			w.stored = append(w.stored, id)
			w.log[id] = w.now
		}
		return nil
	})
	return []sluice.Stored{{ID: id, Seq: 1, Duplicate: duplicate}}, err
}

func (w *world) Check(*sluice.Event) error { return nil }

func (w *world) CheckNew(context.Context, string, string, []sluice.Event) error { return w.away }

func (w *world) Tell(_ context.Context, _ string, e model.SystemEvent) error {
	return w.write(func() error {
		w.asked++
		if time.Now().Before(w.tight) {
			return sluice.StorageTight.Problem()
		}
		if w.deaf != nil {
			return w.deaf
		}
		if !w.told[e.ID] {
			w.tells++
		}
		w.told[e.ID] = true
		return nil
	})
}

func (w *world) Owns(string) bool { return true }

func (w *world) Append(context.Context, *sluice.LedgerEntry) error { return nil }

func (w *world) engine(replica string) *Engine {
	now := func() time.Time {
		if w.now.IsZero() {
			return time.Now()
		}
		return w.now
	}
	return New(Deps{Records: w, Lists: w, Log: w, Deps: schedule.Deps{
		Perform: action.New(action.Deps{Log: w, Ingest: ingest.New(ingest.Deps{Publisher: w, Catalogue: w, Causes: w}), Now: now}), Tell: w, Owner: w,
		Ledger: ledger.New(w, slog.New(slog.DiscardHandler)), Replica: replica, Now: now,
	}}, schedule.Options{Log: w.lines})
}

// life has a server do something until it dies or is through, and reports whether it is through.
func (w *world) life(do func()) (through bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != any(errDead) {
			panic(cause)
		}
	}()
	do()
	return true
}

// Wherever a server dies, the next one finishes it: the event is stored once, or told of once, and its record is gone; within the
// dedup window and long after it, under the same name and another.
func TestStore_OnceThroughDeathBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	for _, refuse := range []error{nil, sluice.Errorf(sluice.Forbidden, "no")} {
		for _, away := range []time.Duration{0, 2 * time.Minute, 5 * time.Hour} {
			for _, next := range []string{"one", "two"} {
				dies := 1
				for !diesAt(t, dies, refuse, away, next) {
					dies++
				}
				require.Greater(t, dies, 6, "it died at every write")
			}
		}
	}
}

// diesAt has a server die before or after a write, and another come next. It reports whether the first one was through before.
func diesAt(t *testing.T, dies int, refuse error, away time.Duration, next string) (through bool) {
	t.Helper()
	begin := time.Unix(1_700_000_000, 0).UTC()
	name := fmt.Sprintf("refused %v, away %s, next %s, dies at %d", refuse != nil, away, next, dies)
	w := &world{now: begin, records: map[string]model.Scheduled{}, log: map[string]time.Time{}, told: map[string]bool{}, window: time.Hour, refuse: refuse, left: -1}
	s := model.Scheduled{DeliverAt: begin, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}, Creator: sluice.Creator{CreatedBy: sluice.Root, CreatedAt: begin}}
	_, err := w.Put(t.Context(), &s)
	require.NoError(t, err)
	w.left, w.after = (dies+1)/2, dies%2 == 0
	through = w.life(func() { w.engine("one").due.Fire(t.Context(), streams.ScheduledKey("acme", "e")) })
	w.left = -1
	w.now = w.now.Add(away)
	w.comeBack(t, next)
	require.Empty(t, w.records, name)
	if refuse == nil {
		require.Equal(t, []string{"e"}, w.stored, name)
		return through
	}
	require.Empty(t, w.stored, name)
	require.Equal(t, 1, w.tells, name)
	return through
}

// comeBack has another life go on until nothing is left.
func (w *world) comeBack(t *testing.T, replica string) {
	t.Helper()
	e := w.engine(replica)
	for range 200 { // what another has claimed is looked at again and again for three seconds
		if again := e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")); !again.At.IsZero() {
			w.now = again.At
		}
	}
}

// What cannot be stored at the moment is tried again, later each time, and then stored.
func TestStore_IsRetriedAndSucceeds(t *testing.T) {
	t.Parallel()
	w := &world{now: time.Unix(1_700_000_000, 0), records: map[string]model.Scheduled{}, log: map[string]time.Time{}, window: time.Hour, left: -1, refuse: sluice.Errorf(sluice.Unavailable, "away")}
	_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: w.now, Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}})
	require.NoError(t, err)
	e, waits := w.engine("one"), []time.Duration(nil)
	for range 7 {
		again := e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e"))
		waits = append(waits, again.At.Sub(w.now)/time.Second)
		w.now = again.At
	}
	require.Equal(t, []time.Duration{2, 4, 8, 16, 30, 30, 30}, waits)
	w.refuse = nil
	require.Zero(t, e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")))
	require.Equal(t, []string{"e"}, w.stored)
	require.Empty(t, w.records)
}

// The report of a failed attempt, which the server itself stored, does not put off its next one.
func TestStore_OwnReportsDoNotDelayRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{records: map[string]model.Scheduled{}, left: -1, away: sluice.Errorf(sluice.Unavailable, "away"), reports: make(chan model.Scheduled, 100)}
		_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: time.Now(), Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}})
		require.NoError(t, err)
		e := w.engine("one")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.due.Run(ctx, func(ctx context.Context, f func(string, *model.Scheduled)) error {
				f("", nil)
				for {
					select {
					case s := <-w.reports:
						<-time.After(time.Millisecond) // the step that stored it is over
						f(streams.ScheduledKey("acme", "e"), &s)
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			})
		}()
		<-time.After(time.Minute + time.Second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, 6, w.records["e"].Claim.Tries, "after 0, 2, 6, 14, 30 and 60 seconds")
	})
}

func TestBound_HoldsForConcurrentCallers(t *testing.T) {
	t.Parallel()
	e := New(Deps{Deps: schedule.Deps{Now: time.Now}}, schedule.Options{Most: 3})
	var releases []func()
	for range 3 {
		release, err := e.due.Reserve("acme", "")
		require.NoError(t, err)
		releases = append(releases, release)
	}
	_, err := e.due.Reserve("acme", "")
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	_, err = e.due.Reserve("other", "")
	require.NoError(t, err)
	releases[0]()
	_, err = e.due.Reserve("acme", "")
	require.NoError(t, err)
}

// After the dedup window the log is searched before an attempt if an earlier one may have stored the event, and from that one on.
func TestStore_SearchesOnlyAfterASentAttempt(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_700_000_000, 0)
	away := sluice.Errorf(sluice.Unavailable, "away")
	w := &world{now: begin, records: map[string]model.Scheduled{}, log: map[string]time.Time{}, window: time.Hour, left: -1, away: away}
	_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: w.now, Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}})
	require.NoError(t, err)
	e := w.engine("one")
	attempts := func(until time.Time) {
		for w.now.Before(until) {
			w.now = e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")).At
		}
	}
	attempts(begin.Add(3 * time.Hour))
	require.Empty(t, w.searched, "nothing was sent")
	w.away, w.refuse = nil, away
	sent := w.now
	attempts(begin.Add(3*time.Hour + 30*time.Minute))
	require.Empty(t, w.searched, "the log would know its id")
	attempts(begin.Add(6 * time.Hour))
	require.NotEmpty(t, w.searched)
	for _, since := range w.searched {
		require.Equal(t, sent.UTC(), since.UTC())
	}
	w.log["e"] = sent
	require.Zero(t, e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")))
	require.Empty(t, w.stored, "it is not stored again")
	require.Empty(t, w.records)
}
