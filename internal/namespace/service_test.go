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
