package knowledge

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowded returns a space whose room is full of records of own events outside the pattern, with the
// store that has their events, and their number.
func crowded(t *testing.T) (*space, *shelf, int) {
	t.Helper()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	store := &shelf{events: map[uint64]string{}}
	s.deps.Log, s.deps.Records, s.deps.Owns = store, store, store
	s.account.of.limit, s.readings.loading = 400_000, nil
	n := 0
	for before := -1; len(s.records) > before; n++ {
		before = len(s.records)
		id := strconv.Itoa(n)
		store.events[uint64(n+1)] = id
		outsider(s, id, uint64(n+1))
	}
	_, more := s.account.bytes()
	require.Less(t, more, int64(looseBytes+50), "the room is full")
	require.Greater(t, n, 100)
	return s, store, n
}

// forgetful returns a crowded space that has forgotten all records, with the store.
func forgetful(t *testing.T) (*space, *shelf) {
	t.Helper()
	s, store, _ := crowded(t)
	for _, rec := range s.records {
		s.overlook(rec)
	}
	return s, store
}

// Entries of any source take the room of records outside the pattern, and are not read again for them.
func TestSpace_RecordsOutsideLeaveRoomToEntries(t *testing.T) {
	t.Parallel()
	for _, ref := range []sluice.EntryRef{{Source: sluice.SourceLocal}, {Source: sluice.SourceMirrored, Subscription: "m"}} {
		s, store, _ := crowded(t)
		for i := range 20 {
			ref.ID = fmt.Sprint("e", i)
			s.set(ref, event(ref.ID, 1), uint64(5000+i), 1)
			require.False(t, s.due(), "everything would be read again for each event")
			require.NoError(t, s.sweep(t.Context()))
		}
		require.Len(t, s.items, 20)
		require.Empty(t, s.state().Problem)
		require.Empty(t, store.purged)
	}
}

// Records that were forgotten for lack of room are read again, but rarely, and if there is room.
func TestSpace_ForgottenRecordsAreReadAgain(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	n := len(store.events)
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: "e"}, event("e", 1), 5000, 1)
	for range recheckSweeps - 1 {
		require.False(t, s.due())
	}
	require.True(t, s.due())
	s.load()
	require.False(t, s.due())
	s.account.of.limit *= 2
	reading := s.beginRecords()
	for i := range n {
		ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: strconv.Itoa(i)}
		s.replace(Record{ID: embeddingID(ref), Revision: uint64(i + 1), Type: sluice.JobEmbed, Entry: ref, State: done, Seq: uint64(i + 1)}, reading)
	}
	s.lose(reading)
	require.Len(t, s.records, n)
	for range 2 * recheckSweeps {
		require.False(t, s.due(), "all are known")
	}
	require.Empty(t, store.purged)
}

// An erased event takes its record along, although the record was forgotten for lack of room, before
// or after the erasure.
func TestSpace_ForgottenRecordGoesWithItsEvent(t *testing.T) {
	t.Parallel()
	s, store, _ := crowded(t)
	s.drop(sluice.EntryRef{Source: sluice.SourceLocal, ID: "3"}, 4)
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: "e"}, event("e", 1), 5000, 1)
	s.drop(sluice.EntryRef{Source: sluice.SourceLocal, ID: "4"}, 5)
	s.omitted.add(sluice.EntryRef{Source: sluice.SourceLocal, ID: "5"}, 7000)
	s.drop(sluice.EntryRef{Source: sluice.SourceLocal, ID: "5"}, 6) // a former version of an entry that has no room
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.ElementsMatch(t, []string{"entry.3", "comparison.3", "entry.4", "comparison.4"}, store.purged)
}

// The record of an erased event is removed although there is no room for a late change of it.
func TestSpace_ErasedRecordNeedsNoRoom(t *testing.T) {
	t.Parallel()
	s, store, _ := crowded(t)
	s.drop(sluice.EntryRef{Source: sluice.SourceLocal, ID: "3"}, 4)
	s.account.force(100_000)
	outsider(s, "3", 9000)
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Equal(t, []string{"entry.3", "comparison.3"}, store.purged)
}

// A record in memory may be older than forgotten ones of its entry: the store knows.
func TestSweep_AsksTheStoreForForgottenRecords(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	own := sluice.EntryRef{Source: sluice.SourceLocal, ID: "3"}
	delete(store.events, 4)
	store.events[9000] = "3"
	store.stored = []Record{{ID: "comparison.3.x", Revision: 1, Entry: own, Seq: 9000}, {ID: embeddingID(own), Revision: 2, Entry: own, Seq: 4}}
	s.learn(Record{ID: "comparison.3.y", Revision: 9000, Type: sluice.JobCompare, Entry: own, State: done, Seq: 4, Pair: &Pair{}})
	require.Len(t, s.records, 1)
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Empty(t, store.purged)
	store.events[9000] = "another"
	for range recheckSweeps + ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Equal(t, []string{"entry.3", "comparison.3"}, store.purged)
}

// A new entry whose record was forgotten gets it from the store.
func TestSpace_EntryWantsItsForgottenRecord(t *testing.T) {
	t.Parallel()
	s, _ := forgetful(t)
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "7"}
	s.set(ref, event("7", 1), 5000, 1)
	require.Equal(t, []sluice.EntryRef{ref}, s.takeWanted())
	s.set(ref, event("7", 2), 5001, 1)
	require.Empty(t, s.takeWanted(), "it is known")
	s.load()
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: "8"}, event("8", 1), 5002, 1)
	require.Empty(t, s.takeWanted(), "the records are about to be read")
}

// A failed job of a deleted mirror ends with its record, when a mirror with its id has no room for all.
func TestSpace_FailedJobOfAForgottenRecordEnds(t *testing.T) {
	t.Parallel()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	delete(s.mirrors, "m")
	ref := sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: "m", ID: "failed"}
	s.learn(Record{ID: embeddingID(ref), Revision: 1, Type: sluice.JobEmbedMirrored, Entry: ref, State: sluice.JobFailed})
	s.mirrors["m"] = &sluice.Mirror{}
	require.Len(t, s.tasks, 1)
	ref.ID = "no room"
	s.omitted.add(ref, 1)
	s.orphans(ownersSweeps)
	require.Empty(t, s.records)
	require.Empty(t, s.tasks)
	require.Positive(t, s.omitted.unknown)
}

// An own event outside the pattern has no job, although its job failed under another pattern.
func TestSpace_EventOutsideHasNoFailedJob(t *testing.T) {
	t.Parallel()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "failed"}
	s.learn(Record{ID: embeddingID(ref), Revision: 1, Type: sluice.JobEmbed, Entry: ref, State: sluice.JobFailed, Seq: 1})
	require.Len(t, s.records, 1)
	require.Empty(t, s.tasks)
}

// Retention that removes entries without room leaves records that only the store has.
func TestOmissions_OutdatedEntriesLeaveRecords(t *testing.T) {
	t.Parallel()
	o := newOmissions(&account{of: &budget{}})
	o.add(sluice.EntryRef{Source: sluice.SourceLocal, ID: "e"}, 3)
	o.outdate(3)
	require.Zero(t, o.unknown)
	o.outdate(4)
	require.False(t, o.partial(""))
	require.Positive(t, o.unknown)
}

// An entry takes the room of as many records as it needs, which are not read again for nothing.
func TestSpace_EntryLeavesRoomToOtherRecords(t *testing.T) {
	t.Parallel()
	s, _, n := crowded(t)
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: "e"}, event("e", 1), 5000, 1)
	require.Len(t, s.items, 1)
	require.Greater(t, len(s.records), n-20)
	for range 2 * recheckSweeps {
		require.False(t, s.due())
	}
}

func (s *shelf) Get(_ context.Context, _, id string) (Record, error) {
	for i := range s.stored {
		if s.stored[i].ID == id {
			return s.stored[i], nil
		}
	}
	return Record{ID: id}, nil
}

func (s *shelf) Comparisons(_ context.Context, _, entry string) (all []Record, err error) {
	for i := range s.stored {
		if s.stored[i].Entry.ID == entry && s.stored[i].ID != embeddingID(s.stored[i].Entry) {
			all = append(all, s.stored[i])
		}
	}
	return all, nil
}
