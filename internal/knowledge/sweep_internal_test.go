package knowledge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// shelf is a log with some events, which counts the questions, and a store with some records, which
// it does not remove.
type shelf struct {
	Log
	Records

	events map[uint64]string // ids
	broken map[uint64]bool
	asked  int
	purged []string
	stored []Record
	got    int // questions about embeddings
	page   sluice.ObservePage
}

func (s *shelf) EventAt(_ context.Context, _ string, seq uint64) (sluice.Event, error) {
	s.asked++
	if s.broken[seq] {
		return sluice.Event{}, errors.New("damaged")
	}
	if s.events[seq] == "" {
		return sluice.Event{}, sluice.Errorf(sluice.NotFound, "no event")
	}
	return sluice.Event{ID: s.events[seq], Seq: seq}, nil
}

func (s *shelf) Purge(_ context.Context, _, id string) error {
	s.purged = append(s.purged, id)
	return nil
}

func (*shelf) Put(_ context.Context, _ string, r Record, _ time.Duration) (uint64, error) {
	return r.Revision + 1, nil
}

func (*shelf) Owns(string) bool { return true }

// outsider enters the record of an own entry that the pattern leaves out.
func outsider(s *space, id string, seq uint64) {
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: id}
	s.learn(Record{ID: embeddingID(ref), Revision: seq, Type: sluice.JobEmbed, Entry: ref, State: done, Seq: seq})
}

// The record of an event outside the pattern stays as long as the event; the log is asked rarely.
func TestSweep_RecordStaysWithItsEvent(t *testing.T) {
	t.Parallel()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	store := &shelf{events: map[uint64]string{1: "stays", 2: "leaves", 3: "another"}, broken: map[uint64]bool{5: true}}
	s.deps.Log, s.deps.Records, s.deps.Owns = store, store, store
	for i, id := range []string{"stays", "leaves", "replaced", "gone", "damaged"} {
		outsider(s, id, uint64(i+1))
	}
	s.learn(Record{ID: "comparison.stays.x", Revision: 9, Type: sluice.JobCompare, Entry: sluice.EntryRef{Source: sluice.SourceLocal, ID: "stays"}, State: done, Seq: 6, Pair: &Pair{}})
	store.events[6] = "stays"
	delete(store.events, 1) // a later event with its content was compared
	failed := 0
	sweeps := func(n int) {
		for range n {
			if s.sweep(t.Context()) != nil {
				failed++
			}
		}
	}
	sweeps(100)
	require.ElementsMatch(t, []string{"entry.replaced", "comparison.replaced", "entry.gone", "comparison.gone"}, store.purged)
	require.Equal(t, []int{5, 1}, []int{store.asked, failed})
	store.purged, store.broken = nil, nil
	delete(store.events, 2)
	sweeps(recheckSweeps)
	require.ElementsMatch(t, []string{"entry.leaves", "comparison.leaves", "entry.damaged", "comparison.damaged"}, store.purged)
	require.Equal(t, 8, store.asked)

	store.purged = nil
	s.drop(sluice.EntryRef{Source: sluice.SourceLocal, ID: "stays"}, 6)
	sweeps(ownersSweeps)
	require.Equal(t, []string{"comparison.stays", "entry.stays"}, store.purged, "it was erased")
	require.Equal(t, 8, store.asked)
	require.Empty(t, s.records)
}

// A sweep asks about a limited number of records.
func TestSweep_AsksAboutAFew(t *testing.T) {
	t.Parallel()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	store := &shelf{events: map[uint64]string{}}
	s.deps.Log, s.deps.Records, s.deps.Owns = store, store, store
	for i := range uint64(sweepMost + 10) {
		store.events[i+1] = strconv.FormatUint(i, 10)
		outsider(s, strconv.FormatUint(i, 10), i+1)
	}
	for _, asked := range []int{0, sweepMost, sweepMost + 10, sweepMost + 10} {
		require.NoError(t, s.sweep(t.Context()))
		require.Equal(t, asked, store.asked)
	}
	require.Empty(t, store.purged)
}

// Jobs that failed with their mirror, or before it was deleted, are listed for a week, and then take no memory any more.
func TestSweep_JobsOfADeletedMirrorEndAfterAWeek(t *testing.T) {
	t.Parallel()
	s, store, now := filled(t, 2, 4, 0, sluice.SourceMirrored), &shelf{}, time.Now()
	s.deps.Records, s.deps.Owns, s.opts.Now = store, store, func() time.Time { return now }
	s.mirrors["other"] = s.mirrors["m"]
	before, _ := s.account.bytes()
	var failed []string
	for i := range 3 {
		ref := sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: "other", ID: strconv.Itoa(i)}
		s.set(ref, event(ref.ID, 1), uint64(i+1), 1)
		failed = append(failed, embeddingID(ref))
	}
	s.learn(Record{
		ID: failed[0], Revision: 1, Type: sluice.JobEmbedMirrored, Entry: s.tasks[failed[0]].entry, State: sluice.JobFailed, At: now,
		Model: s.config.Model, Fingerprint: Fingerprint(event("0", 1)),
	})
	require.True(t, s.leave("other"))
	s.forgetMirror(t.Context(), "other")
	sweeps := func() []string {
		for range ownersSweeps {
			require.NoError(t, s.sweep(t.Context()))
		}
		return slices.Sorted(maps.Keys(s.tasks))
	}
	now = now.Add(cancelLife - time.Second)
	require.Equal(t, failed, sweeps())
	require.Empty(t, store.purged)

	now = now.Add(24 * time.Hour)
	require.Empty(t, sweeps())
	require.ElementsMatch(t, failed, store.purged, "no other one")
	after, _ := s.account.bytes()
	require.Equal(t, before, after)
	require.Len(t, s.items, 2)
	require.Len(t, s.records, 2)
}
