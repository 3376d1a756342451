package knowledge

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// flaky is a store that fails once, and has no results. It is not asked for comparisons without an
// embedding.
type flaky struct {
	Records

	failed bool
	read   map[string]bool
}

func (f *flaky) Get(_ context.Context, _, id string) (Record, error) {
	if !f.failed {
		f.failed = true
		return Record{}, errors.New("no answer")
	}
	f.read[id] = true
	return Record{ID: id}, nil
}

// After an error, the results of all entries that were wanted are read, not only those of one.
func TestSpace_WantsAllEntriesAfterAnError(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, 4, 0, sluice.SourceLocal)
	for ref := range s.items {
		s.wanted[ref] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	store := &flaky{read: map[string]bool{}}
	s.deps.Records = store
	require.EqualError(t, s.fetchWanted(ctx), "no answer")
	for _, ref := range s.takeWanted() {
		require.NoError(t, s.fetch(ctx, ref))
	}
	require.Len(t, store.read, 3)
}

// What is left to do about a deleted mirror leaves the entries of one with its id alone.
func TestSpace_ForgetsNoMirrorThatIsBack(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, 4, 0, sluice.SourceMirrored)
	require.Empty(t, s.abandon("m"))
	require.Len(t, s.items, 3)
	delete(s.mirrors, "m")
	require.Empty(t, s.abandon("m"), "all are embedded")
	require.Empty(t, s.items)
}

// A failed job of an entry that has no content any more is none.
func TestSpace_EntryWithoutContentHasNoFailedJob(t *testing.T) {
	t.Parallel()
	s := filled(t, 1, 4, 0, sluice.SourceLocal)
	for ref := range s.items {
		ev := event(ref.ID, 1)
		s.set(ref, ev, 2, 1)
		s.learn(Record{ID: embeddingID(ref), Revision: 2, Type: sluice.JobEmbed, Entry: ref, Model: s.config.Model, Fingerprint: Fingerprint(ev), State: sluice.JobFailed})
		require.Len(t, s.tasks, 1)
		ev.Data = nil
		s.set(ref, ev, 3, 1)
		require.Empty(t, s.tasks)
	}
}

// copies has the entries of a mirror.
type copies struct {
	Mirrors

	entries map[string]MirrorEntry
}

func (c *copies) Entries(context.Context, string, []string) (map[string]MirrorEntry, error) {
	return c.entries, nil
}

// bury has a tombstone of the mirror "m" read.
func bury(s *space, id string, cursor uint64) {
	s.takeMirrored("m", &MirrorEntry{Change: sluice.Change{Event: sluice.Event{ID: id}}, Tombstone: true, Cursor: cursor}, 1)
}

// Tombstones beyond the noted entries without room take no memory of entries, and have the store asked
// about a limited number; doubts about erasures stay.
func TestSpace_TombstonesLeaveRoomToEntries(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	s.omitted.bySource["m"] = &missed{known: map[uint64]uint64{}, more: true}
	erase(s, "a", 5000, 9001)
	before, _ := s.account.bytes()
	for i := range uint64(10_000) {
		bury(s, fmt.Sprint("never embedded ", i), i+1)
	}
	is, _ := s.account.bytes()
	require.Equal(t, before, is)
	for range othersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Equal(t, mostDoubts+1, store.got)
	require.Empty(t, store.purged)
}

// A tombstone takes stored results along, unless the entry came back; a replica that answers may be behind.
func TestSpace_TombstoneTakesForgottenResultsAlong(t *testing.T) {
	t.Parallel()
	s, store := forgetful(t)
	s.omitted.bySource["m"] = &missed{known: map[uint64]uint64{}, more: true}
	s.deps.Mirrors = &copies{entries: map[string]MirrorEntry{"dead": {Cursor: 2, Tombstone: true}, "behind": {Cursor: 1}, "back": {Cursor: 3}}}
	var want []string
	for _, id := range []string{"absent", "dead", "behind", "back"} {
		ref := sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: "m", ID: id}
		store.stored = append(store.stored, Record{ID: embeddingID(ref), Revision: 1, Entry: ref})
		bury(s, id, 2)
		if id != "back" {
			want = append(want, embeddingID(ref))
		}
	}
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.ElementsMatch(t, want, store.purged)
	store.purged = nil
	bury(s, "dead", 4)
	delete(s.mirrors, "m")
	for range ownersSweeps {
		require.NoError(t, s.sweep(t.Context()))
	}
	require.Empty(t, store.purged, "what a deleted mirror leaves is not asked about")
}
