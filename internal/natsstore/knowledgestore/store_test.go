package knowledgestore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/knowledgestore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func open(tb testing.TB) *knowledgestore.Store {
	tb.Helper()
	rooms := storetest.Connect(tb, natsstore.Options{Conn: natstest.New(tb)})
	require.NoError(tb, rooms.Provision(tb.Context()))
	return knowledgestore.New(rooms.Store)
}

func record(id string) knowledge.Record {
	return knowledge.Record{ID: id, Type: sluice.JobEmbed, Entry: sluice.EntryRef{Source: sluice.SourceLocal, ID: "a.b"}, State: sluice.JobPending, Comparison: []byte(`{"friction": 0.5}`)}
}

// A record is stored only over the revision that was read, and never over another one.
func TestStore_WritesByCompareAndSet(t *testing.T) {
	t.Parallel()
	s, id := open(t), streams.LocalKnowledge("a.b c/*")
	r, err := s.Get(t.Context(), "acme", id)
	require.NoError(t, err)
	require.Equal(t, knowledge.Record{ID: id}, r)
	first, err := s.Put(t.Context(), "acme", record(id), 0)
	require.NoError(t, err)
	_, err = s.Put(t.Context(), "acme", record(id), 0)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	r, err = s.Get(t.Context(), "acme", id)
	require.NoError(t, err)
	require.Equal(t, []any{id, first, "a.b"}, []any{r.ID, r.Revision, r.Entry.ID})
	require.JSONEq(t, `{"friction":0.5}`, string(r.Comparison))
	r.Attempts = 3
	second, err := s.Put(t.Context(), "acme", r, 0)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = s.Put(t.Context(), "acme", r, 0)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
}

// Namespaces are apart, and a purge is of one of them, or of an entry.
func TestStore_PurgesOneNamespaceOrEntry(t *testing.T) {
	t.Parallel()
	s := open(t)
	ids := []string{streams.LocalKnowledge("e"), streams.MirroredKnowledge("m", "e"), streams.Comparison("e", "1"), streams.Comparison("e", "2"), streams.Comparison("f", "1")}
	for _, ns := range []string{"acme", "acme2"} {
		for _, id := range ids {
			_, err := s.Put(t.Context(), ns, record(id), 0)
			require.NoError(t, err)
		}
	}
	left := func(ns string) (all []string) {
		ctx, stop := context.WithCancel(t.Context())
		_ = s.Follow(ctx, ns, func(r knowledge.Record) { all = append(all, r.ID) }, stop) // it ends with ctx
		return all
	}
	require.Equal(t, ids, left("acme"))
	require.NoError(t, s.Purge(t.Context(), "acme", streams.Comparisons("e")))
	require.Equal(t, []string{ids[0], ids[1], ids[4]}, left("acme"))
	compared, err := s.Comparisons(t.Context(), "acme", "f")
	require.NoError(t, err)
	require.Len(t, compared, 1)
	require.NoError(t, s.Purge(t.Context(), "acme", ids[0]))
	require.Equal(t, []string{ids[1], ids[4]}, left("acme"))
	require.NoError(t, s.PurgeAll(t.Context(), "acme"))
	require.Empty(t, left("acme"))
	require.Equal(t, ids, left("acme2"))
}

// The record of a job that failed with its mirror goes by itself.
func TestStore_RecordWithALifetimeGoes(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, err := s.Put(t.Context(), "acme", record("mirrored.m.e"), time.Second)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r, err := s.Get(t.Context(), "acme", "mirrored.m.e")
		require.NoError(t, err)
		return r.Revision == 0
	}, time.Minute, 20*time.Millisecond)
}
