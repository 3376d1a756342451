package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// entries keeps what is written, or refuses.
type entries struct {
	all    []sluice.LedgerEntry
	refuse error
}

func (s *entries) Append(_ context.Context, e *sluice.LedgerEntry) error {
	if s.refuse == nil {
		s.all = append(s.all, *e)
	}
	return s.refuse
}

type thing struct {
	Name     string            `json:"name"`
	Endpoint sluice.Endpoint   `json:"endpoint,omitzero"`
	Policy   map[string]any    `json:"policy,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Revision uint64            `json:"revision"`
}

func written(t *testing.T, old, now any) sluice.LedgerEntry {
	t.Helper()
	store := &entries{}
	l := ledger.New(store, slog.New(slog.DiscardHandler))
	c := ledger.Change{Actor: "root", Action: "thing.update", Namespace: "acme", Resource: "t", Old: old, New: now}
	_, err := l.Intend(model.WithRequestID(t.Context(), "r-1"), nil, c)
	require.NoError(t, err)
	require.Len(t, store.all, 1)
	return store.all[0]
}

func TestEntry_NamesActorActionAndTarget(t *testing.T) {
	t.Parallel()
	e := written(t, nil, thing{Name: "x"})
	require.NotEmpty(t, e.ID)
	require.WithinDuration(t, time.Now(), e.At, time.Minute)
	require.JSONEq(t, `{"name":"x"}`, string(e.New))
	e.ID, e.At, e.New = "", time.Time{}, nil
	require.Equal(t, sluice.LedgerEntry{
		Actor: "root", Action: "thing.update", Namespace: "acme", Resource: "t", RequestID: "r-1", Outcome: sluice.ChangeDone,
	}, e)
}

func TestEntry_HasOnlyChangedFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		was, is  any
		old, now string
	}{
		{"made", nil, thing{Name: "x", Revision: 9}, "", `{"name":"x"}`},
		{"gone", thing{Name: "x"}, nil, `{"name":"x"}`, ""},
		{"changed", thing{Name: "x", Revision: 1}, thing{Name: "y", Revision: 2}, `{"name":"x"}`, `{"name":"y"}`},
		{
			"within another",
			thing{Policy: map[string]any{"window": 64, "timeout": "1s"}},
			thing{Policy: map[string]any{"window": 8, "timeout": "1s"}},
			`{"policy":{"window":64}}`, `{"policy":{"window":8}}`,
		},
		{
			"added and removed",
			thing{Metadata: map[string]string{"a": "1", "b": "2"}},
			thing{Metadata: map[string]string{"b": "2", "c": "3"}},
			`{"metadata":{"a":"1"}}`, `{"metadata":{"c":"3"}}`,
		},
		{"a large number", map[string]any{"n": uint64(1<<63 + 1)}, map[string]any{"n": uint64(1<<63 + 3)}, `{"n":9223372036854775809}`, `{"n":9223372036854775811}`},
	} {
		e := written(t, tt.was, tt.is)
		require.Equal(t, tt.old, string(e.Old), tt.name)
		require.Equal(t, tt.now, string(e.New), tt.name)
	}
}

func TestEntry_MasksSecrets(t *testing.T) {
	t.Parallel()
	was := thing{Endpoint: sluice.Endpoint{
		URL: "https://u:pw1@a.example/hook?token=pw2&x=pw3&pw#pw4", Secret: "pw5", Headers: map[string]string{"x-key": "pw6"},
	}}
	is := thing{Endpoint: sluice.Endpoint{
		URL: "https://b.example/pw9", Secret: "pw7", Headers: map[string]string{"x-key": "pw8"},
	}}
	e := written(t, was, is)
	require.NotContains(t, string(e.Old)+string(e.New), "pw1")
	for n := '1'; n <= '9'; n++ {
		require.NotContains(t, string(e.Old)+string(e.New), "pw"+string(n))
	}
	require.JSONEq(t, `{"endpoint":{"headers":{"x-key":"***"},"secret":"***","url":"https://b.example/***"}}`, string(e.New), "that they changed is said")
	require.Contains(t, string(e.Old), "https://a.example/***")
	e = written(t, nil, map[string]any{"tokens": []any{map[string]any{"token": "pw9"}}, "secrets": []any{"pw9"}, "url": "%", "client_secret": "pw9", "private_key": "pw9"})
	require.JSONEq(t, `{"tokens":[{"token":"***"}],"secrets":"***","url":"***","client_secret":"***","private_key":"***"}`, string(e.New))
}

func TestEntry_FailedChangeHasASecondOne(t *testing.T) {
	t.Parallel()
	store := &entries{}
	l := ledger.New(store, slog.New(slog.DiscardHandler))
	intent, err := l.Intend(t.Context(), nil, ledger.Change{Actor: "root", Action: "thing.create", Resource: "t", New: thing{Name: "x"}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	intent.Fail(ctx, sluice.Errorf(sluice.RevisionMismatch, "no"))
	require.Len(t, store.all, 2)
	first, second := store.all[0], store.all[1]
	require.Equal(t, sluice.ChangeFailed, second.Outcome)
	require.Equal(t, sluice.RevisionMismatch, second.Error)
	require.Equal(t, first.ID, second.Intent)
	require.NotEqual(t, first.ID, second.ID)

	var none *ledger.Intent
	none.Fail(t.Context(), errors.New("nothing was written"))
	require.Len(t, store.all, 2)
}

func TestEntry_RepeatedTryIsTheSameOne(t *testing.T) {
	t.Parallel()
	store := &entries{}
	l := ledger.New(store, slog.New(slog.DiscardHandler))
	c := ledger.Change{Actor: "root", Action: "thing.update", Resource: "t", Old: thing{Name: "x", Revision: 1}, New: thing{Name: "y"}}
	first, err := l.Intend(t.Context(), nil, c)
	require.NoError(t, err)
	c.Old = thing{Name: "x", Revision: 2}
	again, err := l.Intend(t.Context(), first, c)
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Len(t, store.all, 1)

	c.Old = thing{Name: "z", Revision: 3}
	last, err := l.Intend(t.Context(), again, c)
	require.NoError(t, err)
	require.NotSame(t, first, last)
	require.Len(t, store.all, 3)
	require.Equal(t, []any{sluice.ChangeFailed, sluice.Conflict, store.all[0].ID}, []any{store.all[1].Outcome, store.all[1].Error, store.all[1].Intent})
}

func TestLedger_UnwritableOneRefusesTheChange(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	store := &entries{refuse: errors.New("full")}
	l := ledger.New(store, slog.New(slog.NewTextHandler(&lines, nil)))
	c := ledger.Change{Actor: "root", Action: "thing.update", Resource: "t-1", New: thing{}}
	_, err := l.Intend(t.Context(), nil, c)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.Empty(t, lines.String(), "the caller is told")

	require.Nil(t, l.Note(t.Context(), nil, c), "the server goes on")
	require.Contains(t, lines.String(), "t-1")
	_, err = l.Intend(t.Context(), nil, ledger.Change{New: []int{1}})
	require.Equal(t, sluice.Internal, sluice.CodeOf(err))
}
