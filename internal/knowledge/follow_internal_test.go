package knowledge

import (
	"context"
	"errors"
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
