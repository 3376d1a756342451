package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Try runs a handler of a module on an event as a server would: from a copy, with its environment and limits. The error says why it
// could not be run.
func Try(ctx context.Context, m *module.Module, handler string, ev *sluice.Event, render Renderer) (a sluice.Attempt, err error) {
	at := slices.IndexFunc(m.Manifest.Handlers, func(h module.Handler) bool { return h.ID == handler })
	if at < 0 {
		return a, sluice.Errorf(sluice.NotFound, "module %s has no handler %q", m.Name, handler)
	}
	copies, err := os.MkdirTemp("", "sluice-module-")
	if err != nil {
		return a, fmt.Errorf("try module %s: %w", m.Name, err)
	}
	defer func() {
		if gone := os.RemoveAll(copies); err == nil {
			err = gone
		}
	}()
	copies, err = filepath.EvalSymlinks(copies)
	if err != nil {
		return a, fmt.Errorf("try module %s: %w", m.Name, err)
	}
	h := New(Options{Copies: copies, Log: slog.New(slog.DiscardHandler), Render: render})
	ready, err := h.copy(m)
	if err != nil {
		return a, err
	}
	h.ready[m.Name] = ready
	is := m.Manifest.Handlers[at]
	sub := &sluice.Subscription{
		ID: SubscriptionID(m.Name, is.ID, ev.Namespace), Namespace: ev.Namespace, Module: m.Name, Pattern: is.Pattern, Filter: is.Filter, Policy: is.Policy,
		Endpoint: sluice.Endpoint{Exec: is.Command()},
	}
	sub.SetDefaults()
	secret, err := sluice.NewSecret()
	if err != nil {
		return a, err
	}
	sub.Secrets = []sluice.Secret{{Value: secret, CreatedAt: time.Now()}}
	return h.Send(ctx, sub, ev, 1), nil
}
