package integrity

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	logGrace    = 5 * time.Second  // the record of a deleted namespace outlives its log by a moment
	remakeLimit = 10 * time.Second // for one stream
)

// absence is a stream that has disappeared.
type absence struct {
	since time.Time
	was   streamstore.Count // its last known state
	told  bool              // it is known to be damage, not the deletion of a namespace
	stuck bool              // it could not be recreated, which was logged
}

// absent returns the names of missing streams, of those that always exist and the logs that existed
// before.
func absent(names streams.Names, before []string, is map[string]streamstore.Count) (missing []string) {
	for _, name := range append(names.Lasting(), before...) {
		if _, there := is[name]; !there && names.Ours(name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// due reports whether it is time to check if a missing stream was deleted by another program.
func (a absence) due(isLog bool, now time.Time) bool {
	return a.told || !isLog || now.Sub(a.since) >= logGrace
}

// checkMissing finds streams that another program deleted while the server was running. It reports
// each once, and recreates those that it can recreate without loss. Is holds the existing streams.
// It returns whether to read the existing streams again. The states of a missing stream; only a log
// waits for the 5 s:
//
//	seen ─► missing ─ 5 s ─► Lacks? ─ no ─► forgotten: its namespace was deleted
//	                            └── yes ─► told: damage ─► recreated, if MadeAgain ─► seen
//	                                                  └─► stays missing until Forget or a restore
func (m *Memory) checkMissing(ctx context.Context, is map[string]streamstore.Count) (again bool) {
	m.mu.Lock()
	was := maps.Clone(m.counts)
	m.mu.Unlock()
	for _, name := range absent(m.names, slices.Collect(maps.Keys(was)), is) {
		again = m.miss(ctx, name, was[name]) || again
	}
	return again
}

// toRemember returns the state to remember, in which a missing stream keeps its last state. It
// drops the streams that exist again from those that are missing.
func (m *Memory) toRemember(ctx context.Context, is map[string]streamstore.Count) map[string]streamstore.Count {
	all := maps.Clone(is)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.gone {
		if _, there := is[name]; there {
			delete(m.gone, name)
			if a.told {
				m.log.InfoContext(ctx, "missing stream has returned", slog.String("stream", name))
			}
		} else if !a.was.Created.IsZero() {
			all[name] = a.was
		}
	}
	return all
}

// tellRemade calls Remade for each stream that was recreated since the last call: by another server,
// or by this one, even if its request seemed to fail.
func (m *Memory) tellRemade(ctx context.Context, is map[string]streamstore.Count) {
	for name, write := range m.Remade {
		now, there := is[name]
		if !there {
			continue
		}
		was := m.created[name]
		m.created[name] = now.Created
		if !was.IsZero() && !was.Equal(now.Created) {
			write(ctx)
		}
	}
}

// miss handles a missing stream, and returns whether to read the existing streams again.
func (m *Memory) miss(ctx context.Context, name string, was streamstore.Count) (again bool) {
	now := time.Now()
	m.mu.Lock()
	a, known := m.gone[name]
	if !known {
		a = absence{since: now, was: was}
		m.gone[name] = a
	}
	m.mu.Unlock()
	if _, isLog := m.names.LogOf(name); !a.due(isLog, now) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, remakeLimit)
	defer cancel()
	lacks, err := m.store.Lacks(ctx, name)
	switch {
	case err != nil:
		m.log.DebugContext(ctx, "check for missing streams failed", slog.String("stream", name), slog.Any("error", err))
		return false // retried at the next check
	case !lacks:
		m.found(name)
		return true
	}
	if !a.told {
		a.told = true
		m.mu.Lock()
		m.gone[name] = a // before the damage is reported, so that a server that reports it is not ready
		m.mu.Unlock()
		m.tellGone(ctx, name, a)
	}
	if m.names.MadeAgain(name) {
		again = m.remake(ctx, name, &a)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, still := m.gone[name]; still { // and its content was not given up meanwhile
		m.gone[name] = a
	}
	return again
}

// found forgets that a stream is missing, because it exists again or its namespace was deleted.
func (m *Memory) found(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, name)
	delete(m.counts, name)
}

// tellGone reports a deleted stream, in the log and as damage.
func (m *Memory) tellGone(ctx context.Context, name string, a absence) {
	d := sluice.Damage{Kind: sluice.DamageMissing, Stream: name, From: a.was.First, To: a.was.Last}
	var had map[string]deliverystore.Had
	if ns, isLog := m.names.LogOf(name); isLog {
		d.Namespace = ns
		var err error
		if had, err = m.had(ctx); err != nil {
			m.log.WarnContext(ctx, "positions of subscriptions are known only as of the start", slog.Any("error", err))
		}
	}
	if err := m.enter(ctx, []sluice.Damage{d}, had); err != nil {
		m.log.WarnContext(ctx, "damage not recorded", slog.String("stream", name), slog.Any("error", err))
	}
}

// remake recreates a stream, and returns whether it did. A failure is logged once and retried at
// the next check.
func (m *Memory) remake(ctx context.Context, name string, a *absence) bool {
	if err := m.store.Remake(ctx, name, a.was.Last); err != nil {
		if !a.stuck {
			m.log.WarnContext(ctx, "deleted stream not recreated yet", slog.String("stream", name), slog.Any("error", err))
		}
		a.stuck = true
		return false
	}
	m.log.WarnContext(ctx, "deleted stream recreated, empty", slog.String("stream", name))
	return true
}

// Missing returns the sorted names of deleted streams that were not recreated. It returns nil if
// there are none.
func (m *Memory) Missing() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.gone {
		if a.told {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Ready returns an error (Unavailable), with the remedy, if a stream is missing without which the
// server cannot work. A missing log of one namespace does not count: a load balancer would
// otherwise take the server away from all other namespaces.
func (m *Memory) Ready() error {
	isLog := func(name string) bool { _, ok := m.names.LogOf(name); return ok }
	if problem := missingProblem(slices.DeleteFunc(m.Missing(), isLog)); problem != nil {
		return problem
	}
	return nil
}

// Problem returns the error (Unavailable) that names the deleted streams and the remedy; nil if none
// is missing.
func (m *Memory) Problem() *sluice.Error { return missingProblem(m.Missing()) }

func missingProblem(missing []string) *sluice.Error {
	if len(missing) == 0 {
		return nil
	}
	return sluice.Errorf(sluice.Unavailable, "missing in NATS, because it was deleted there: %s. Stop the server and restore a backup (sluice restore), "+
		"or abandon its content with sluice doctor --forget, which recreates it, empty", strings.Join(missing, ", ")).With("missing", missing)
}

// restore recreates the missing streams as empty ones, which gives up their content.
func (m *Memory) restore(ctx context.Context) error {
	m.mu.Lock()
	gone := maps.Clone(m.gone)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if a := gone[name]; a.told {
			if err := m.store.Remake(ctx, name, a.was.Last); err != nil && sluice.CodeOf(err) != sluice.NotFound {
				return err
			}
			m.log.WarnContext(ctx, "deleted stream recreated, empty, because its content was abandoned", slog.String("stream", name))
			m.found(name)
		}
	}
	return nil
}
