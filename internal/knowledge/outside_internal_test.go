package knowledge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowded returns a space whose room is full of records of own events outside the pattern, with the
// store that has their events, and their number.
func crowded(t *testing.T) (*space, *shelf, int) {
	t.Helper()
	s := filled(t, 0, 2, 0, sluice.SourceLocal)
	store := &shelf{events: map[uint64]string{}}
	s.deps.Log, s.deps.Records, s.deps.Owns = store, store, store
	s.account.of.limit, s.readings.loading, s.passed = 400_000, nil, 5000
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
	erase(s, "3", 4, 9001)
	for _, rec := range s.records {
		if !rec.gone {
			s.overlook(rec)
			store.stored = append(store.stored, rec.Record)
		}
	}
	delete(store.events, 5)
	erase(s, "4", 5, 9002)
	s.omitted.add(sluice.EntryRef{Source: sluice.SourceLocal, ID: "5"}, 7000)
	delete(store.events, 6)
	erase(s, "5", 6, 9003) // a former version of an entry that has no room
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
	require.Equal(t, []string{"comparison.3", "entry.3"}, store.purged)
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
	require.Equal(t, []string{"comparison.3", "entry.3"}, store.purged)
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
	s.learn(Record{ID: embeddingID(ref), Revision: 1, Type: sluice.JobEmbedMirrored, Entry: ref, State: sluice.JobFailed, At: s.opts.Now()})
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

// erase has an erasure read from the log, of an event that had a sequence.
func erase(s *space, id string, had, at uint64) {
	s.take(&sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: at, ID: id}, ErasedSeq: had}, 1)
}

// An erased event takes no result of a later one of its entry along, which is outside the pattern too.
func TestSpace_ErasedEventLeavesResultsOfALaterOne(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		s, store := forgetful(t)
		ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "a"}
		later := Record{ID: embeddingID(ref), Revision: 9000, Type: sluice.JobEmbed, Entry: ref, State: done, Seq: 9000}
		store.events[9000], store.stored = "a", []Record{later}
		if known {
			s.learn(later)
		}
		erase(s, "a", 5000, 9001)
		for range othersSweeps {
			require.NoError(t, s.sweep(t.Context()))
		}
		require.Empty(t, store.purged, "known: %t", known)
	}
}

// Erasures of any number of events outside the pattern take no memory of entries, and have the store
// asked about a limited number, but none again.
func TestSpace_ErasuresLeaveRoomToEntries(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	before, _ := s.account.bytes()
	for range 2 {
		for i := range uint64(10_000) {
			erase(s, fmt.Sprint("never embedded ", i), 5000+i, 20_000+i)
		}
		is, _ := s.account.bytes()
		require.Equal(t, before, is)
		for range othersSweeps {
			require.NoError(t, s.sweep(t.Context()))
		}
		s.passed = 30_000
	}
	require.Equal(t, mostDoubts, store.got)
	require.Empty(t, store.purged)
}

// Erasures that were not read before are new, also those at the start of a server and of another log.
func TestSpace_ErasuresAreNewOnce(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	s.passed = 0
	own := s.doubts[sluice.SourceLocal]
	read := func(incarnation string, seqs ...uint64) (ids []string) {
		clear(own)
		store.page = sluice.ObservePage{Incarnation: incarnation, ThroughSeq: slices.Max(seqs), LastSeq: slices.Max(seqs)}
		for _, seq := range seqs {
			store.page.Items = append(store.page.Items, sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: seq, ID: strconv.FormatUint(seq, 10)}, ErasedSeq: 1})
		}
		require.NoError(t, s.readLog(t.Context(), &place{}))
		for of := range own {
			ids = append(ids, of.ref.ID)
		}
		return ids
	}
	require.Equal(t, []string{"8"}, read("i", 8), "of the first reading")
	require.Equal(t, []string{"9"}, read("i", 8, 9))
	require.Empty(t, read("i", 8, 9))
	require.Equal(t, []string{"7"}, read("i", 7), "of a log that lost its end")
	require.Equal(t, []string{"6"}, read("another", 6))
	require.Equal(t, []string{"8"}, read("another", 6, 8))
}

// A new doubt takes the place of another one, and a known one takes none.
func TestSpace_NewDoubtsReplaceOthers(t *testing.T) {
	t.Parallel()
	s, _ := forgetful(t)
	for i := range uint64(mostDoubts) {
		erase(s, "a", 5000+i, 20_000+i)
	}
	for _, id := range []string{"a", "new"} {
		erase(s, id, 5000, 30_000)
		_, ok := s.doubts[sluice.SourceLocal][erasure{sluice.EntryRef{Source: sluice.SourceLocal, ID: id}, 5000}]
		require.True(t, ok, id)
		require.Len(t, s.doubts[sluice.SourceLocal], mostDoubts, id)
	}
}

// The results of an erased event go although its event is still in the log, because an erasure stores
// its records before it deletes the events.
func TestSpace_ErasureCountsBeforeTheEventIsGone(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "a"}
	store.events[5000], store.events[5001] = "a", "a"
	store.stored = []Record{{ID: embeddingID(ref), Revision: 1, Entry: ref, Seq: 5000}}
	erase(s, "a", 5000, 9001)
	erase(s, "a", 5001, 9002)
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Equal(t, []string{"comparison.a", "entry.a"}, store.purged)
	require.Empty(t, s.doubts[sluice.SourceLocal])
}

// A doubt about which the store does not answer stays, and one about an entry that came back ends.
func TestSpace_DoubtsStayOrEnd(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	store.stored = []Record{{ID: "entry.a", Revision: 1, Entry: sluice.EntryRef{Source: sluice.SourceLocal, ID: "a"}, Seq: 10_000}}
	store.broken = map[uint64]bool{10_000: true}
	erase(s, "a", 9_999, 10_001)
	erase(s, "b", 10_000, 10_002)
	s.set(sluice.EntryRef{Source: sluice.SourceLocal, ID: "b"}, event("b", 1), 10_003, 1)
	require.Empty(t, s.doubted(ownersSweeps))
	require.ErrorContains(t, s.sweep(t.Context()), "damaged")
	require.NoError(t, s.sweep(t.Context()), "other doubts come first")
	store.broken = nil
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Empty(t, s.doubts[sluice.SourceLocal])
	require.Equal(t, []string{"comparison.a", "entry.a"}, store.purged)
}

// Erasures beyond the noted entries without room take no memory of entries, and no results of later ones.
func TestSpace_ErasuresBeyondTheNotesAreDoubts(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "a"}
	store.events[9000], store.stored = "a", []Record{{ID: embeddingID(ref), Revision: 1, Entry: ref, Seq: 9000}}
	s.omitted.bySource[""] = &missed{known: map[uint64]uint64{}, more: true}
	before, _ := s.account.bytes()
	erase(s, "a", 5000, 9001)
	is, _ := s.account.bytes()
	require.Equal(t, before, is)
	for range othersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Empty(t, store.purged)
}

// The record of an event that is erased while anything is read goes too, although it has no room.
func TestSpace_ErasureWhileRecordsAreReadCounts(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	s.omitted.unknown = 0 // as at the start
	s.load()
	erase(s, "4", 5, 9001)
	delete(store.events, 5)
	s.account.force(400_000)
	reading := s.beginRecords()
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: "4"}
	store.stored = []Record{{ID: embeddingID(ref), Revision: 5, Type: sluice.JobEmbed, Entry: ref, State: done, Seq: 5}}
	s.replace(store.stored[0], reading)
	s.lose(reading)
	require.Empty(t, s.records)
	s.readings.loading = nil
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.ElementsMatch(t, []string{"entry.4", "comparison.4"}, store.purged)
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

func (s *shelf) Changes(context.Context, string, model.ChangeQuery) (sluice.ObservePage, error) {
	return s.page, nil
}

func (s *shelf) Get(_ context.Context, _, id string) (Record, error) {
	s.got++
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
