package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Namespaces stores the namespaces, each with its log, and the system events about them that are
// not published yet.
type Namespaces struct{ store *Store }

// Namespaces returns the namespaces.
func (s *Store) Namespaces() Namespaces { return Namespaces{s} }

// Put creates a namespace, or replaces the settings of an existing one, which may delete events: a
// shorter limit applies if the namespace names it, or named another one before. A lower default of
// the server deletes none. It returns the stored namespace, and whether it is new. With a revision
// the namespace is changed only if that is the stored revision.
//
// Codes: InvalidRequest; RevisionMismatch; Conflict if the namespace was changed concurrently;
// NotFound if it was deleted concurrently; QuotaExceeded and Unprocessable if NATS has no space for
// the log or does not allow its limits: then the change was reverted.
func (n Namespaces) Put(ctx context.Context, ns sluice.Namespace) (sluice.Namespace, bool, error) {
	return n.PutAfter(ctx, ns, func(*sluice.Namespace, *sluice.Namespace) (sluice.Announcement, error) {
		return sluice.Announcement{}, nil
	})
}

// PutAfter is Put; without a label the stored one stays. Before a change, it calls intend with the
// stored namespace, nil if there is none, and with the new one. If intend fails, the namespace is
// not changed; otherwise its announcement is stored until it is published. Code Unavailable if too
// many announcements wait already. Nothing is written, and intend is not called, if the settings are
// equal; the stream is compared and repaired all the same.
func (n Namespaces) PutAfter(ctx context.Context, ns sluice.Namespace, intend func(was, is *sluice.Namespace) (sluice.Announcement, error)) (sluice.Namespace, bool, error) {
	if err := n.check(&ns); err != nil {
		return sluice.Namespace{}, false, err
	}
	record, revision, err := n.store.namespaceRecords().Get(ctx, ns.Name)
	stored := record.Namespace
	created := sluice.CodeOf(err) == sluice.NotFound
	if err != nil && !created {
		return sluice.Namespace{}, false, err
	}
	if ns.Revision != 0 && ns.Revision != revision {
		return sluice.Namespace{}, false, sluice.Errorf(sluice.RevisionMismatch, "namespace %s is at revision %d", ns.Name, revision)
	}
	was := &stored
	ns.Revision, ns.Usage, ns.Inherited, ns.CreatedAt, ns.Label = 0, nil, nil, stored.CreatedAt, cmp.Or(ns.Label, stored.Label)
	if created {
		was, ns.CreatedAt = nil, time.Now().UTC()
	}
	now := revision
	// The record first, and then the stream: an interruption leaves a record, from which Provision
	// makes the stream at the next start.
	if !equal(ns, stored) {
		told, err := intend(was, &ns)
		if err == nil {
			now, err = n.replace(ctx, &record, &ns, revision, told)
		}
		if err != nil {
			return sluice.Namespace{}, false, err
		}
	}
	err = n.store.ensure(ctx, n.store.eventsConfig(ns), n.store.takeLimits(ns.Retention, stored.Retention))
	if code := sluice.CodeOf(err); now != revision && (code == sluice.QuotaExceeded || code == sluice.Unprocessable) {
		record.Untold = ofRevision(record.Untold, revision) // of the change before, not of the reverted record
		err = errors.Join(err, n.revert(ctx, record, ns.Name, now))
	}
	if err != nil {
		return sluice.Namespace{}, false, err
	}
	ns, err = n.Get(ctx, ns.Name)
	return ns, created, err
}

// equal reports whether two namespaces have the same settings.
func equal(a, b sluice.Namespace) bool {
	sameLabel := a.Label == b.Label || a.Label != nil && b.Label != nil && a.Label.Dominates(*b.Label) && b.Label.Dominates(*a.Label)
	a.Label, b.Label = nil, nil
	return sameLabel && reflect.DeepEqual(a, b)
}

func (n Namespaces) check(ns *sluice.Namespace) error {
	if err := ns.Validate(); err != nil {
		return err
	}
	if in := n.store.effective(*ns); ns.DedupWindow > in.DedupWindow {
		return sluice.Errorf(sluice.InvalidRequest,
			"dedup_window %s: longer than retention.max_age %s; use at most that", ns.DedupWindow, in.Retention.MaxAge)
	}
	return nil
}

// revert restores the namespace from before a change, and deletes a new one: with a record without
// its log, servers could not start.
func (n Namespaces) revert(ctx context.Context, before namespaceRecord, name string, revision uint64) error {
	ctx = shutdown.Lasting(ctx)
	if before.Name == "" {
		return n.store.namespaces().Delete(ctx, name, revision)
	}
	_, err := n.store.namespaceRecords().Put(ctx, name, before, revision)
	return err
}

// Get returns a namespace with its effective settings and its usage. Code NotFound if there is
// none. It makes two requests: for the record, and for the usage of the log. List leaves Usage nil
// if a log is missing.
func (n Namespaces) Get(ctx context.Context, name string) (sluice.Namespace, error) {
	ns, revision, err := n.store.namespaces().Get(ctx, name)
	if err != nil {
		if sluice.CodeOf(err) == sluice.NotFound {
			return sluice.Namespace{}, NamespaceMissing(name)
		}
		return sluice.Namespace{}, err
	}
	ns = n.store.effective(ns)
	ns.Revision = revision
	info, err := n.store.EventsInfo(ctx, name)
	if err != nil {
		return sluice.Namespace{}, err
	}
	return withLog(ns, info), nil
}

// Exists reports whether there is a namespace, even if its log is missing.
func (n Namespaces) Exists(ctx context.Context, name string) (bool, error) {
	_, _, err := n.store.namespaces().Get(ctx, name)
	if sluice.CodeOf(err) == sluice.NotFound {
		return false, nil
	}
	return err == nil, err
}

// List returns all namespaces in the order of their names, with their effective settings and usage.
func (n Namespaces) List(ctx context.Context) ([]sluice.Namespace, error) {
	entries, err := n.store.namespaces().List(ctx, ">")
	if err != nil {
		return nil, err
	}
	infos := map[string]*jetstream.StreamInfo{}
	list := n.store.js.ListStreams(ctx)
	for info := range list.Info() {
		infos[info.Config.Name] = info
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list streams: %w", StoreError(ctx, err))
	}
	all := make([]sluice.Namespace, len(entries))
	for i, entry := range entries {
		all[i] = n.store.effective(entry.Value)
		all[i].Revision = entry.Revision
		if info := infos[n.store.names.EventsStream(entry.Key)]; info != nil {
			all[i] = withLog(all[i], info)
		}
	}
	slices.SortFunc(all, func(a, b sluice.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Watch calls f for all namespaces and their changes, like Bucket.Watch, with the effective
// settings and without the usage.
func (n Namespaces) Watch(ctx context.Context, f func(Entry[sluice.Namespace])) error {
	return n.store.namespaces().Watch(ctx, ">", func(e Entry[sluice.Namespace]) {
		if e.Change == Set {
			e.Value = n.store.effective(e.Value)
			e.Value.Revision = e.Revision
		}
		f(e)
	})
}

// Delete deletes a namespace with its events and their consumers. It deletes the events first: an
// interrupted deletion leaves a namespace without a log, not a log without a namespace. Codes:
// NotFound; Conflict for the default namespace. Records of the namespace in other buckets stay: the
// caller deletes them before.
func (n Namespaces) Delete(ctx context.Context, name string) error {
	if name == sluice.DefaultNamespace {
		return sluice.Errorf(sluice.Conflict, "the default namespace cannot be deleted")
	}
	_, revision, err := n.store.namespaces().Get(ctx, name)
	if err != nil {
		if sluice.CodeOf(err) == sluice.NotFound {
			return NamespaceMissing(name)
		}
		return err
	}
	err = n.store.js.DeleteStream(ctx, n.store.names.EventsStream(name))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete namespace %s: %w", name, StoreError(ctx, err))
	}
	if err := n.store.namespaces().Delete(ctx, name, revision); err != nil {
		return err
	}
	// Another server may have created the log again before the record was gone.
	if err := n.store.unlessDeleted(ctx, name); err != nil && sluice.CodeOf(err) != sluice.NotFound {
		n.store.opts.Log.WarnContext(ctx, "unknown whether the log of a deleted namespace is gone", slog.String("namespace", name), slog.Any("error", err))
	}
	return nil
}

func (s *Store) namespaces() Bucket[sluice.Namespace] {
	return OpenBucket[sluice.Namespace](s, streams.Namespaces)
}

// effective returns the namespace with the defaults of the server for unset settings.
func (s *Store) effective(ns sluice.Namespace) sluice.Namespace {
	d := s.opts.Defaults
	ns.Inherited = ns.Unset()
	ns.Retention.MaxAge = cmp.Or(ns.Retention.MaxAge, d.Retention.MaxAge)
	ns.Retention.MaxBytes = cmp.Or(ns.Retention.MaxBytes, d.Retention.MaxBytes)
	ns.DedupWindow = cmp.Or(ns.DedupWindow, d.DedupWindow)
	ns.Quota = ns.Quota.InForce(d.Quota)
	ns.Catalogue = cmp.Or(ns.Catalogue, sluice.CatalogueOpen)
	stream := s.names.Events(ns)
	ns.Retention.MaxAge = cmp.Or(ns.Retention.MaxAge, sluice.Duration(stream.MaxAge))
	ns.DedupWindow = sluice.Duration(stream.Dedup)
	return ns
}

// EventsInfo returns the stream information of the log of a namespace. Code NotFound if there is
// none. An invalid name is NotFound, too. The leader answers.
func (s *Store) EventsInfo(ctx context.Context, ns string) (*jetstream.StreamInfo, error) {
	if sluice.CheckNamespaceName(ns) != nil {
		return nil, NamespaceMissing(ns)
	}
	stream, err := s.js.Stream(ctx, s.names.EventsStream(ns))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, NamespaceMissing(ns)
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", ns, StoreError(ctx, err))
	}
	return stream.CachedInfo(), nil
}

// GivenIncarnation returns the incarnation that a stream of the layout was given when it was
// restored or, for a log, created; "" if it was given none.
func (s *Store) GivenIncarnation(ctx context.Context, name string) (string, error) {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return "", fmt.Errorf("incarnation of %s: %w", name, StoreError(ctx, err))
	}
	return streams.GivenIncarnation(stream.CachedInfo().Config.Metadata), nil
}

// Incarnations returns the incarnation of a stream, and the one that it had in the backup from which
// it was restored; "" if it was not restored, or the backup does not name it.
func (s *Store) Incarnations(ctx context.Context, name string) (is, was string, err error) {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return "", "", fmt.Errorf("incarnation of %s: %w", name, StoreError(ctx, err))
	}
	info := stream.CachedInfo()
	return streams.Incarnation(name, info.Created, info.Config.Metadata), streams.FormerIncarnation(info.Config.Metadata), nil
}

// withLog returns the namespace with the usage of its log, and with those limits of the log that
// keep more than the inherited ones: a lower default of the server does not shorten a log.
func withLog(ns sluice.Namespace, info *jetstream.StreamInfo) sluice.Namespace {
	state, limits := info.State, released(info.Config)
	ns.Usage = &sluice.Usage{Events: state.Msgs, Bytes: state.Bytes, FirstSeq: state.FirstSeq, LastSeq: state.LastSeq}
	if slices.Contains(ns.Inherited, "retention.max_age") && isLess(ns.Retention.MaxAge.Std(), limits.MaxAge) {
		ns.Retention.MaxAge = sluice.Duration(cmp.Or(limits.MaxAge, -time.Second))
	}
	if slices.Contains(ns.Inherited, "retention.max_bytes") && isLess(ns.Retention.MaxBytes, limits.MaxBytes) {
		ns.Retention.MaxBytes = limits.MaxBytes
	}
	return ns
}

// NamespaceMissing returns the error for a namespace that does not exist, with code NotFound.
func NamespaceMissing(name string) error {
	return sluice.Errorf(sluice.NotFound, "namespace %q not found; create it with PUT /v1/namespaces/%s (sluice ns put %s)", name, name, name)
}
