package namespace_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/namespace"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// log is a namespace with its parts. While its log is deleted, a mirror and an enrichment are stored by
// requests that were admitted before.
type log struct {
	namespace.Store
	namespace.Authority
	namespace.Announcer

	parts map[string]bool
}

func (*log) Get(context.Context, string) (sluice.Namespace, error) { return sluice.Namespace{}, nil }

func (l *log) Delete(context.Context, string) error {
	l.parts["mirror"], l.parts["enrichment"] = true, true
	return nil
}

func (*log) Append(context.Context, *sluice.LedgerEntry) error            { return nil }
func (*log) DeleteEventTypes(context.Context, string) error               { return nil }
func (*log) DeleteInstructions(context.Context, string) error             { return nil }
func (*log) DeleteOf(context.Context, string) error                       { return nil }
func (*log) EndGrants(context.Context, sluice.Caller, string) error       { return nil }
func (*log) ForgetNamespace(context.Context, sluice.Caller, string) error { return nil }
func (*log) Forget(context.Context, string, sluice.Principal) error       { return nil }
func (*log) StillUntold(context.Context, string)                          {}

func (*log) Namespace(context.Context, string, *sluice.Namespace, json.RawMessage, json.RawMessage) {}

// part is a kind of parts of a log.
type part struct {
	of   *log
	kind string
}

func (p part) DeleteAll(context.Context, string, string) error {
	delete(p.of.parts, p.kind)
	return nil
}

// What is created while its namespace is deleted does not outlive it.
func TestDeleteNamespace_LeavesNothing(t *testing.T) {
	t.Parallel()
	l := &log{parts: map[string]bool{"subscription": true, "enrichment": true}}
	s := namespace.Service{
		Store: l, Scheduled: l, StreamSubs: l, Authority: l, Announce: l, Ledger: ledger.New(l, slog.New(slog.DiscardHandler)),
		Subscriptions: part{l, "subscription"}, Mirrors: part{l, "mirror"}, Enrichment: part{l, "enrichment"},
	}
	require.NoError(t, s.DeleteNamespace(t.Context(), "acme", "root"))
	require.Empty(t, l.parts)
}

// labelled is a namespace that an earlier build stored, without its label.
type labelled struct {
	log

	record sluice.Namespace
	label  sluice.Label // in force
	refuse error
	old    []string // of the announced changes
}

func (l *labelled) PutAfter(_ context.Context, ns sluice.Namespace, before func(was, next *sluice.Namespace) (sluice.Announcement, error)) (sluice.Namespace, bool, error) {
	if was := l.record; was.Label == nil || was.Label.Level != ns.Label.Level {
		if _, err := before(&was, &ns); err != nil {
			return sluice.Namespace{}, false, err
		}
	}
	l.record = ns
	return ns, false, nil
}

func (l *labelled) Label(string) sluice.Label { return l.label }

func (l *labelled) PutLabel(_ context.Context, _ sluice.Caller, _ string, label sluice.Label) error {
	if l.refuse == nil {
		l.label = label
	}
	return l.refuse
}

func (l *labelled) Namespace(_ context.Context, _ string, _ *sluice.Namespace, old, _ json.RawMessage) {
	l.old = append(l.old, string(old))
}

func (*labelled) Set(sluice.Namespace)               {}
func (*labelled) Remove(string)                      {}
func (*labelled) SetNamespace(sluice.Namespace)      {}
func (*labelled) RemoveNamespace(_ string, _ uint64) {}

// A label is stored before it is in force: if it could not be set, as after a crash, a repetition sets it.
func TestPutNamespace_RepetitionSetsTheLabel(t *testing.T) {
	t.Parallel()
	l := &labelled{record: sluice.Namespace{Name: "acme"}, label: sluice.Label{Level: sluice.LevelInternal}}
	s := namespace.Service{Store: l, Authority: l, Announce: l, Quotas: l, Catalogue: l, Ledger: ledger.New(l, slog.New(slog.DiscardHandler))}
	put := func(level sluice.Level) error {
		_, _, err := s.PutNamespace(t.Context(), sluice.Namespace{Name: "acme", Label: &sluice.Label{Level: level}}, "root")
		return err
	}
	require.NoError(t, put(sluice.LevelConfidential))
	require.Equal(t, []string{`{"label":{"level":"INTERNAL"}}`}, l.old)
	l.refuse = sluice.Errorf(sluice.Unavailable, "later")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(put(sluice.LevelSecret)))
	require.Equal(t, sluice.LevelConfidential, l.label.Level)
	l.refuse = nil
	require.NoError(t, put(sluice.LevelSecret))
	require.Equal(t, sluice.LevelSecret, l.label.Level)
	require.Len(t, l.old, 1)
}
