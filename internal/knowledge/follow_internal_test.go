package knowledge

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// flaky is a store that fails once, and has no results.
type flaky struct {
	Records

	failed bool
	read   map[string]bool
}

func (f *flaky) Comparisons(context.Context, string, string) ([]Record, error) {
	if !f.failed {
		f.failed = true
		return nil, errors.New("no answer")
	}
	return nil, nil
}

func (f *flaky) Get(_ context.Context, _, id string) (Record, error) {
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
