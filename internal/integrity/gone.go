package integrity

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	logGrace    = 5 * time.Second  // a namespace that is being deleted has a record for a moment longer than a log
	remakeLimit = 10 * time.Second // for one stream
)

// absence is a stream that was there and is missing.
type absence struct {
	since time.Time
	was   natsstore.Count // when it was seen last
	told  bool            // it is known to be damage, and not the end of a namespace
	stuck bool            // it could not be made again, which was logged
}

// absent returns the names of the streams that should be there and are not: those that there always are, and the logs that
// were there before.
func absent(before []string, is map[string]natsstore.Count) (names []string) {
	for _, name := range append(streams.Lasting(), before...) {
		if _, there := is[name]; !there && streams.Ours(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// due reports whether it is time to find out whether a missing stream was deleted behind the server's back.
func (a absence) due(name string, now time.Time) bool {
	return a.told || !isLog(name) || now.Sub(a.since) >= logGrace
}

func isLog(name string) bool { return strings.HasPrefix(name, streams.EventsStream("")) }

// heed finds out which streams were deleted under the running server, says so once, and makes those again that nothing is lost
// without. is holds the streams that are there. It returns what of them to remember: a missing stream stays as it was.
func (m *Memory) heed(ctx context.Context, is map[string]natsstore.Count) map[string]natsstore.Count {
	m.mu.Lock()
	was := maps.Clone(m.counts)
	m.mu.Unlock()
	for _, name := range absent(slices.Collect(maps.Keys(was)), is) {
		m.miss(ctx, name, was[name])
	}
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

// miss deals with a stream that is not there.
func (m *Memory) miss(ctx context.Context, name string, was natsstore.Count) {
	now := time.Now()
	m.mu.Lock()
	a, known := m.gone[name]
	if !known {
		a = absence{since: now, was: was}
		m.gone[name] = a
	}
	m.mu.Unlock()
	if !a.due(name, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remakeLimit)
	defer cancel()
	lacks, err := m.store.Lacks(ctx, name)
	switch {
	case err != nil:
		m.log.DebugContext(ctx, "check for missing streams failed", slog.String("stream", name), slog.Any("error", err))
		return // it is asked again with the next look
	case !lacks:
		m.found(name)
		return
	}
	if !a.told {
		m.tellGone(ctx, name, &a)
	}
	if streams.MadeAgain(name) {
		m.remake(ctx, name, &a)
	}
	m.mu.Lock()
	m.gone[name] = a
	m.mu.Unlock()
}

// found forgets that a stream is missing: it is there again, or its namespace was deleted.
func (m *Memory) found(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, name)
	delete(m.counts, name)
}

// tellGone says that a stream was deleted, in the log and as damage.
func (m *Memory) tellGone(ctx context.Context, name string, a *absence) {
	d := sluice.Damage{Kind: sluice.DamageMissing, Stream: name, From: a.was.First, To: a.was.Last}
	var had map[string]natsstore.Had
	if isLog(name) {
		d.Namespace = strings.TrimPrefix(name, streams.EventsStream(""))
		var err error
		if had, err = m.store.Had(ctx); err != nil {
			m.log.WarnContext(ctx, "how far the subscriptions had come is known from the start only", slog.Any("error", err))
		}
	}
	if err := m.enter(ctx, []sluice.Damage{d}, had); err != nil {
		m.log.WarnContext(ctx, "damage not recorded", slog.String("stream", name), slog.Any("error", err))
	}
	a.told = true
}

// remake makes a stream again. What fails is logged once and tried again with the next look.
func (m *Memory) remake(ctx context.Context, name string, a *absence) {
	if err := m.store.Remake(ctx, name, a.was.Last); err != nil {
		if !a.stuck {
			m.log.WarnContext(ctx, "deleted stream not recreated yet", slog.String("stream", name), slog.Any("error", err))
		}
		a.stuck = true
		return
	}
	m.log.WarnContext(ctx, "deleted stream recreated, empty", slog.String("stream", name))
	if m.Remade != nil {
		m.Remade(ctx, name)
	}
}

// Missing returns the streams that were deleted and are not there again, by name.
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

// Ready returns nil unless a stream is missing without which the server cannot work; then code Unavailable, with the remedy.
// The log of one namespace is no reason for a load balancer to take the server away from all others.
func (m *Memory) Ready() error {
	missing := slices.DeleteFunc(m.Missing(), isLog)
	if problem := model.MissingProblem(missing); problem != nil {
		return problem
	}
	return nil
}

// restore makes the missing streams anew, empty: their content is given up.
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
