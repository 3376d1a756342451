package knowledge

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// office is a log, a store and permissions: the events with a label of their own are for root alone.
type office struct {
	Log
	Records
	Access

	events   map[uint64]sluice.Event
	revision uint64
	asked    int // for decisions
}

func (o *office) EventAt(_ context.Context, _ string, seq uint64) (sluice.Event, error) {
	ev, ok := o.events[seq]
	if !ok {
		return ev, sluice.Errorf(sluice.NotFound, "no event")
	}
	return ev, nil
}

func (o *office) Put(context.Context, string, Record, time.Duration) (uint64, error) {
	o.revision++
	return o.revision, nil
}

func (o *office) Shows(c sluice.Caller, _ sluice.Verb, ev *sluice.Event, _ time.Time) model.Decision {
	o.asked++
	if c.Principal == "unknown" {
		return model.Undecided
	}
	if ev.Extensions[sluice.AttributeClassification] != "" && c.Principal != "root" {
		return model.Withhold
	}
	return model.Pass
}

func (*office) WakeKeys() [][]byte { return [][]byte{[]byte("a key of thirty-two bytes at least")} }

// staffed returns a space with an entry for each label, in this order, none of them embedded. Its time
// stands still.
func staffed(t *testing.T, of ...string) (*space, *office) {
	t.Helper()
	s, o := filled(t, 0, 2, 0, sluice.SourceLocal), &office{events: map[uint64]sluice.Event{}}
	s.deps.Log, s.deps.Records, s.deps.Access, s.deps.Keys = o, o, o, o
	s.opts.Now = func() time.Time { return noon }
	for i, label := range of {
		o.enter(s, fmt.Sprint("e", i), uint64(i+1), label)
	}
	return s, o
}

func (o *office) enter(s *space, id string, seq uint64, label string) {
	ev := event(id, 1)
	ev.Seq, ev.Extensions = seq, map[string]string{sluice.AttributeClassification: label}
	o.events[seq] = *ev
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: id}, ev, seq, 1)
}

func claimed(t *testing.T, s *space, by sluice.Principal, most int) (entries []string) {
	t.Helper()
	q := ClaimRequest{Worker: "w", Max: most}
	require.NoError(t, q.Validate())
	jobs, err := s.claim(t.Context(), &q, sluice.Caller{Principal: by})
	require.NoError(t, err)
	for _, j := range jobs {
		entries = append(entries, j.Entry.ID)
	}
	return entries
}

// Jobs that a worker may not see do not keep it from those behind them, however many they are.
func TestClaim_HiddenJobsDoNotStarveAWorker(t *testing.T) {
	t.Parallel()
	of := make([]string, maxSkipped+2)
	for i := range maxSkipped + 1 {
		of[i] = "TOP_SECRET"
	}
	s, o := staffed(t, of...)
	last := fmt.Sprint("e", maxSkipped+1)
	require.Equal(t, []string{last}, claimed(t, s, "worker", 10))
	require.Empty(t, claimed(t, s, "worker", 10))
	require.Equal(t, []string{"e0", "e1"}, claimed(t, s, "root", 2))

	o.enter(s, "e5", 5000, "") // it has no label of its own any more
	require.Equal(t, []string{"e5"}, claimed(t, s, "worker", 10))
}

// A worker without clearance that asks takes no hidden job out of the queue, not even for a moment,
// and wakes no other one.
func TestClaim_HiddenJobsStayInTheQueue(t *testing.T) {
	t.Parallel()
	s, _ := staffed(t, "TOP_SECRET")
	news := s.news()
	require.Nil(t, s.next([]sluice.JobType{sluice.JobEmbed}, s.eyes(sluice.Caller{Principal: "worker"})))
	require.Empty(t, claimed(t, s, "worker", 10))
	require.Equal(t, news, s.news())
	_, err := s.claim(t.Context(), &ClaimRequest{Worker: "w", Max: 1, Types: []sluice.JobType{sluice.JobEmbed}}, sluice.Caller{Principal: "unknown"})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.Equal(t, []string{"e0"}, claimed(t, s, "root", 1))
}

// A job that cannot be claimed at present is tried again later, after those behind it. Waiting claims
// learn of it.
func TestClaim_SkippedJobIsTriedAgain(t *testing.T) {
	t.Parallel()
	s, o := staffed(t, "")
	missing := o.events[1]
	delete(o.events, 1)
	news := s.news()
	require.Empty(t, claimed(t, s, "worker", 10))
	require.NotEqual(t, news, s.news())
	news, due := s.news(), s.queue.next()
	require.False(t, due.IsZero())
	require.Empty(t, claimed(t, s, "worker", 10))
	require.Equal(t, news, s.news(), "it is not due")
	o.events[1] = missing
	o.enter(s, "e1", 2, "")
	s.opts.Now = func() time.Time { return due }
	require.Equal(t, []string{"e0", "e1"}, claimed(t, s, "worker", 10))
}

// A claim costs a limited number of decisions, however many labels publishers invent.
func TestClaim_InventedLabelsCostNoDecisions(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"SECRET/%d", "invented %d", "SECRET/a,b,%[1]d,%[1]d"} {
		of := make([]string, 20*mostLabels)
		for i := range of {
			of[i] = fmt.Sprintf(form, i)
		}
		s, o := staffed(t, append(of, "")...)
		last := fmt.Sprint("e", len(of))
		require.Equal(t, []string{last}, claimed(t, s, "worker", 10))
		require.LessOrEqual(t, o.asked, 4*mostLabels+10)
		require.Equal(t, []string{"e0", "e1"}, claimed(t, s, "root", 2))
	}
}

// A label decides as its canonical form. Unreadable ones decide as each other.
func TestLabels_HaveOneFormEach(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "SECRET": "SECRET", "SECRET/b,a,b": "SECRET/a,b", "PUBLIC": "PUBLIC", "secret": unreadable, "SECRET/": unreadable,
		"SECRET/a b": unreadable, unreadable: unreadable, further: unreadable,
		"SECRET/a" + strings.Repeat(",a", 40): "SECRET/a",
	} {
		require.Equal(t, want, canonical(text), text)
	}
}

// hiddenPair returns a space with one job, to compare e0 with e1, which has a label of its own.
func hiddenPair(t *testing.T) (*space, *office) {
	t.Helper()
	s, o := staffed(t, "", "TOP_SECRET")
	require.Len(t, claimed(t, s, "root", 2), 2)
	own := sluice.EntryRef{Source: sluice.SourceLocal, ID: "e0"}
	other := sluice.EntryRef{Source: sluice.SourceLocal, ID: "e1"}
	s.config.TopK = 1
	for i, ref := range []sluice.EntryRef{other, own} {
		r := Record{
			ID: embeddingID(ref), Revision: 101, Type: sluice.JobEmbed, Entry: ref, Model: s.config.Model, Fingerprint: s.items[ref].fingerprint,
			State: done, Embedding: encodeVector([]float32{1, 0}), Pairs: []Pair{{Against: other, Label: "TOP_SECRET"}}[:i],
		}
		s.learn(r)
	}
	require.Empty(t, claimed(t, s, "worker", 10))
	return s, o
}

// A comparison is hidden by the present label of its neighbour. Waiting claims learn of a lower one.
func TestClaim_NeighbourHidesAComparison(t *testing.T) {
	t.Parallel()
	s, o := hiddenPair(t)
	news := s.news()
	o.enter(s, "e1", 50, "")
	require.NotEqual(t, news, s.news())
	require.Equal(t, []string{"e0"}, claimed(t, s, "worker", 10))
}

// A neighbour that comes back with a lower label hides its comparisons no more, whether they are
// older than its deletion or not.
func TestClaim_NeighbourComesBackWithALowerLabel(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		s, o := hiddenPair(t)
		own, other := sluice.EntryRef{Source: sluice.SourceLocal, ID: "e0"}, sluice.EntryRef{Source: sluice.SourceLocal, ID: "e1"}
		s.drop(other, 0)
		if again {
			s.settle(own)
		}
		o.enter(s, "e1", 50, "")
		require.Contains(t, claimed(t, s, "worker", 10), "e0", again)
	}
}
