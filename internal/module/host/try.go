package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Trial is the result of a handler for an event.
type Trial struct {
	sluice.Attempt

	Events []sluice.Event `json:"events,omitempty"` // that would be published
}

// Publish keeps the events in the trial and publishes none.
func (t *Trial) Publish(_ context.Context, w *model.Handling, _ *sluice.Event, events []sluice.Event, _ int) (int, error) {
	for i := range events {
		if err := t.May(w, events[i]); err != nil {
			return 0, err
		}
		events[i].Namespace = w.Namespace
		w.Stamp(&events[i])
	}
	t.Events = append(t.Events, events...)
	return len(events), nil
}

// May returns an error unless the module declares that it publishes such an event.
func (*Trial) May(w *model.Handling, e sluice.Event) error { return w.Admits(&e) }

// Try runs a handler of a module on an event as a server would, from a copy and with the
// environment and the limits of the handler. It publishes nothing. The error says why the handler
// could not be run. Try runs the program as the user of this process, and removes the copy. An
// outcome other than delivered is no error. Codes NotFound, Unprocessable.
func Try(ctx context.Context, m *module.Module, handler string, ev *sluice.Event, render Renderer) (t Trial, err error) {
	at := slices.IndexFunc(m.Manifest.Handlers, func(h module.Handler) bool { return h.ID == handler })
	if at < 0 {
		return t, sluice.Errorf(sluice.NotFound, "module %s has no handler %q", m.Name, handler)
	}
	if m.Manifest.Handlers[at].Mode == module.Endpoint {
		return t, sluice.Errorf(sluice.Unprocessable, "handler %s is an endpoint, and has no program: try it with sluice sub test", handler)
	}
	copies, err := os.MkdirTemp("", "sluice-module-")
	if err != nil {
		return t, fmt.Errorf("try module %s: %w", m.Name, err)
	}
	defer func() {
		if gone := os.RemoveAll(copies); err == nil {
			err = gone
		}
	}()
	copies, err = filepath.EvalSymlinks(copies)
	if err != nil {
		return t, fmt.Errorf("try module %s: %w", m.Name, err)
	}
	h := New(Options{Copies: copies, Log: slog.New(slog.DiscardHandler), Render: render, Publish: &t})
	ready, err := h.copy(m)
	if err != nil {
		return t, err
	}
	h.ready[m.Name] = ready
	is := m.Manifest.Handlers[at]
	sub := &sluice.Subscription{
		ID: SubscriptionID(m.Name, is.ID, ev.Namespace), Namespace: ev.Namespace, Lifecycle: sluice.Lifecycle{Module: m.Name}, Pattern: is.Pattern, Filter: is.Filter, Policy: is.Policy,
		Endpoint: sluice.Endpoint{Exec: is.Command()},
	}
	sub.SetDefaults()
	secret, err := sluice.NewSecret()
	if err != nil {
		return t, err
	}
	sub.Secrets = []sluice.Secret{{Value: secret, CreatedAt: time.Now()}}
	t.Attempt = h.Send(ctx, sub, ev, 1)
	worker := h.pools.of[sub.ID]
	h.Close(ctx)
	if worker != nil { // its log is about this event only
		t.Output = mask(worker.logs, is.Env)
	}
	return t, nil
}
