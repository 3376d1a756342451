package sysevent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Namespaces lists the namespaces and their last announcements. Implementations are safe for
// concurrent use. Told never lowers the noted revision.
type Namespaces interface {
	// Revisions returns the revisions of the existing namespaces, and the last announced revision
	// of each namespace that has one; 0 is an announcement that is pending. Both are by name.
	Revisions(ctx context.Context) (is, told map[string]uint64, err error)
	// Untold returns the pending announcements that are stored with a namespace, oldest first.
	Untold(ctx context.Context, name string) ([]sluice.Announcement, error)
	// Told notes the announced revision.
	Told(ctx context.Context, name string, revision uint64) error
	// Forgotten removes the note.
	Forgotten(ctx context.Context, name string) error
}

// namespaceData is the data of the events about a namespace.
type namespaceData struct {
	Name     string          `json:"name"`
	Revision uint64          `json:"revision"`
	Old      json.RawMessage `json:"old,omitempty"`
	New      json.RawMessage `json:"new,omitempty"`
}

// Namespace announces a change of a namespace, with the changed fields. It does so in the default
// namespace, because the changed namespace's own log is created and deleted with it. It takes at
// most two seconds. After a failure, which is logged, a later sweep announces within two minutes
// that the namespace has changed. The event of a sweep has no old and new fields unless the
// announcement is stored with the namespace, and can stand for several changes.
func (a *Announcer) Namespace(ctx context.Context, kind string, ns *sluice.Namespace, old, now json.RawMessage) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), changeLimit)
	defer cancel()
	if err := a.tellNamespace(ctx, kind, namespaceData{ns.Name, ns.Revision, old, now}, a.publishAll); err != nil {
		a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system event of a change not published", slog.String("type", kind), slog.String("namespace", ns.Name), slog.Any("error", err))
		if a.opts.Namespaces == nil {
			a.opts.Dropped(kind)
		}
	}
}

// StillUntold publishes the pending announcements of a namespace that is about to be deleted, which
// would lose them. It takes at most two seconds; a failure is logged.
func (a *Announcer) StillUntold(ctx context.Context, name string) {
	if a.opts.Namespaces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), changeLimit)
	defer cancel()
	events, last, err := a.waitingOf(ctx, name)
	if err == nil && len(events) > 0 {
		if err = a.publishUnknown(ctx, sluice.DefaultNamespace, events); err == nil {
			err = a.opts.Namespaces.Told(ctx, name, last)
		}
	}
	if err != nil {
		a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system events of changes not published", slog.String("namespace", name), slog.Any("error", err))
	}
}

// waitingOf returns the events of a namespace's pending announcements, and the last revision that
// they announce.
func (a *Announcer) waitingOf(ctx context.Context, name string) (events []sluice.Event, last uint64, err error) {
	if a.opts.Namespaces == nil {
		return nil, 0, nil
	}
	waiting, err := a.opts.Namespaces.Untold(ctx, name)
	for _, w := range waiting {
		n := ofNamespace(w.Type, namespaceData{name, w.Revision, w.Old, w.New})
		n.at = w.At
		ev, err := n.event()
		if err != nil {
			return nil, 0, err
		}
		events, last = append(events, ev), w.Revision
	}
	return events, last, err
}

func ofNamespace(kind string, data namespaceData) announcement {
	n := announcement{path: sluice.NamespacePath(data.Name), id: fmt.Sprintf("namespace-%s-%d", data.Name, data.Revision), kind: kind, data: data}
	if kind == sluice.TypeNamespaceDeleted {
		n.id += "-deleted"
	}
	return n
}

// tellNamespace announces a change of a namespace, after the pending announcements before it.
func (a *Announcer) tellNamespace(ctx context.Context, kind string, data namespaceData, publish publishing) error {
	one, err := ofNamespace(kind, data).event()
	if err != nil {
		return err
	}
	events, last, err := a.waitingOf(ctx, data.Name)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(events, func(ev sluice.Event) bool { return ev.ID == one.ID }) {
		events, last = append(events, one), max(last, data.Revision)
	}
	if err := publish(ctx, sluice.DefaultNamespace, events); err != nil || a.opts.Namespaces == nil {
		return err
	}
	if kind == sluice.TypeNamespaceDeleted {
		return a.opts.Namespaces.Forgotten(ctx, data.Name)
	}
	return a.opts.Namespaces.Told(ctx, data.Name, last)
}

// overdue is a change of a namespace that the last sweep found unannounced. The process that makes
// a change may be about to announce it, so a sweep announces only changes that it finds twice.
type overdue struct {
	kind     string
	name     string
	revision uint64
}

// sweepNamespaces announces the changes in was that are still unannounced, and returns the other
// unannounced ones. A namespace without a note gets one, and is not announced. Errors are logged,
// and the next sweep tries again.
func (a *Announcer) sweepNamespaces(ctx context.Context, was map[overdue]bool) map[overdue]bool {
	found := map[overdue]bool{}
	if a.opts.Namespaces == nil {
		return found
	}
	is, told, err := a.opts.Namespaces.Revisions(ctx)
	for name, revision := range is {
		mark, known := told[name]
		switch {
		case !known: // first seen by a release with notes
			err = errors.Join(err, a.opts.Namespaces.Told(ctx, name, revision))
		case mark == 0:
			found[overdue{sluice.TypeNamespaceCreated, name, revision}] = true
		case revision > mark:
			found[overdue{sluice.TypeNamespaceUpdated, name, revision}] = true
		}
	}
	for name, mark := range told {
		if _, there := is[name]; !there {
			found[overdue{sluice.TypeNamespaceDeleted, name, mark}] = true
		}
	}
	for o := range found {
		if was[o] {
			err = errors.Join(err, a.tellOverdue(ctx, o))
		}
	}
	if err != nil && ctx.Err() == nil {
		a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system events of namespaces may be unpublished", slog.Any("error", err))
	}
	return found
}

func (a *Announcer) tellOverdue(ctx context.Context, o overdue) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	if o.kind == sluice.TypeNamespaceDeleted && o.revision == 0 { // it was never created
		return a.opts.Namespaces.Forgotten(ctx, o.name)
	}
	return a.tellNamespace(ctx, o.kind, namespaceData{Name: o.name, Revision: o.revision}, a.publishUnknown)
}
