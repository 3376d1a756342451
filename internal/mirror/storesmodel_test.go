package mirror_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// source is a namespace of a fleet, with its whole past.
type source struct {
	*site

	fleet  *fleet
	ns     string
	ids    int
	steady bool // its label does not change: its mirrors would have entries from below the former one
}

// newSource creates a namespace.
func newSource(t *testing.T, f *fleet, random *rand.Rand, ns string) *source {
	t.Helper()
	s := &source{fleet: f, ns: ns, site: &site{world: &world{Rand: random}}}
	s.anew(t)
	return s
}

// anew gives the namespace another log.
func (s *source) anew(t *testing.T) {
	t.Helper()
	store := s.fleet.rooms[0].Namespaces()
	if s.name != "" {
		require.NoError(t, store.Delete(t.Context(), s.ns))
	}
	_, _, err := store.Put(t.Context(), sluice.Namespace{Name: s.ns})
	require.NoError(t, err)
	s.name, err = s.fleet.rooms[0].Log.Incarnation(t.Context(), s.ns)
	require.NoError(t, err)
	s.all, s.events, s.gone, s.ids = nil, map[uint64]sluice.Change{}, map[uint64]bool{}, 0
}

// happen publishes, revises, erases, trims, changes the label, or begins another log.
func (s *source) happen(t *testing.T) {
	t.Helper()
	path := sluice.Path([]string{"/a/1", "/a/2", "/b"}[s.IntN(3)])
	switch n := s.IntN(40); {
	case n == 0:
		s.anew(t)
	case n < 6 && s.steady:
	case n == 1:
		s.fleet.labels.set(s.ns, sluice.Label{Level: sluice.LevelTopSecret})
	case n < 6:
		s.fleet.labels.set(s.ns, []sluice.Label{{}, secret("a")}[s.IntN(2)])
	case n < 10:
		s.erase(t, path)
	case n < 13:
		s.trim(t)
	default:
		s.publish(t, path)
	}
}

// publish publishes a few events, some of which revise others or have a label.
func (s *source) publish(t *testing.T, path sluice.Path) {
	t.Helper()
	events := make([]sluice.Event, 1+s.IntN(5))
	for i := range events {
		s.ids++
		ev := sluice.Event{ID: fmt.Sprint("e", s.ids), Path: path, Type: "t", ContentType: "application/json", Extensions: map[string]string{}}
		ev.Data = fmt.Appendf(nil, "%q", fmt.Sprint(s.ns, s.Uint64())) // no two logs have the same
		if s.IntN(4) == 0 {
			ev.Extensions["revisionof"] = fmt.Sprint("e", 1+s.IntN(s.ids))
		}
		if s.IntN(8) == 0 {
			ev.Extensions[sluice.AttributeClassification] = []string{"SECRET/a", "TOP_SECRET"}[s.IntN(2)]
		}
		events[i] = ev
	}
	stored, err := s.fleet.rooms[0].Log.Publish(t.Context(), s.ns, events)
	require.NoError(t, err)
	for i := range events {
		events[i].Seq = stored[i].Seq
		c := sluice.ChangeOf(events[i])
		s.events[c.Event.Seq], s.all = c, append(s.all, c)
	}
}

// erase erases a path, and remembers where that is told.
func (s *source) erase(t *testing.T, path sluice.Path) {
	t.Helper()
	log := s.fleet.rooms[0].Log
	last, err := log.LastSeq(t.Context(), s.ns)
	require.NoError(t, err)
	require.NoError(t, log.ErasePath(t.Context(), s.ns, path, last))
	for since, more := last, true; more; {
		page, err := log.Changes(t.Context(), s.ns, model.ChangeQuery{Since: since, Limit: 1000})
		require.NoError(t, err)
		for i := range page.Items {
			s.gone[page.Items[i].ErasedSeq] = true
		}
		s.all = append(s.all, page.Items...)
		since, more = page.ThroughSeq, page.HasMore
	}
}

// trim removes the oldest messages, as retention does.
func (s *source) trim(t *testing.T) {
	t.Helper()
	first, last, err := s.fleet.rooms[0].Log.Bounds(t.Context(), s.ns)
	require.NoError(t, err)
	stream, err := s.fleet.js.Stream(t.Context(), streams.Names{}.EventsStream(s.ns))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(first+s.Uint64N(1+(last-min(first, last))/3))))
}

// mirrored is a mirror of a source, as it is stored.
type mirrored struct {
	copyist

	of *source
}

// mirrorOf creates a mirror; one with a URL as its source imports bundles.
func mirrorOf(t *testing.T, s *source, id, subscriber, from string) *mirrored {
	t.Helper()
	m := &mirrored{of: s, copyist: copyist{rule: mirror.Rule{Label: secret("a"), Mirror: &sluice.Mirror{
		ID: id, Namespace: subscriber, Source: from, Depth: sluice.DepthFull, PollInterval: sluice.MaxPollInterval, Weight: 1,
		PathPrefix: []string{"", "/a", "/a/1"}[s.IntN(3)],
	}}}}
	m.create(t)
	return m
}

func (m *mirrored) create(t *testing.T) {
	t.Helper()
	_, err := m.of.fleet.engines[m.of.IntN(2)].Keeper().Create(t.Context(), *m.rule.Mirror, sluice.Caller{Principal: sluice.Root})
	require.NoError(t, err)
	m.place = mirror.Place{}
}

// load reads what is stored, as of one moment.
func (m *mirrored) load(t *testing.T) {
	t.Helper()
	id, was := m.rule.Mirror.ID, m.place
	for {
		held, err := m.of.fleet.copies.Hold(t.Context(), id, nil)
		require.NoError(t, err)
		m.entries, m.place = map[string]mirror.Entry{}, held.Place
		for page := (mirror.Page{More: true}); page.More; {
			page, err = m.of.fleet.copies.Page(t.Context(), id, page.Next, 1000)
			require.NoError(t, err)
			for _, e := range page.Entries {
				m.entries[e.Change.Key()] = e
			}
		}
		m.gaps, err = m.of.fleet.copies.Gaps(t.Context(), id)
		require.NoError(t, err)
		if held, err = m.of.fleet.copies.Hold(t.Context(), id, nil); held.Place.Revision == m.place.Revision {
			require.NoError(t, err)
			break
		}
	}
	if was.Incarnation == m.place.Incarnation {
		require.GreaterOrEqual(t, m.place.Watermark, was.Watermark, "the watermark falls from %+v to %+v, %s", was, m.place, m.of.name)
	}
}

// judged compares what is stored with the source, if it is of the log that the source has now.
func (m *mirrored) judged(t *testing.T) {
	t.Helper()
	if m.load(t); m.place.Incarnation == m.of.name {
		require.NoError(t, m.check(m.of.site), m.rule.Mirror.ID)
	}
}

// state returns the record of the mirror.
func (m *mirrored) state(t *testing.T) sluice.Mirror {
	t.Helper()
	is, err := m.of.fleet.engines[0].Keeper().Get(t.Context(), m.rule.Mirror.ID)
	require.NoError(t, err)
	return is
}

// move syncs, suspends or resumes the mirror, by either replica.
func (m *mirrored) move(t *testing.T) {
	t.Helper()
	keeper, id := m.of.fleet.engines[m.of.IntN(2)].Keeper(), m.rule.Mirror.ID
	switch is := m.state(t); {
	case is.State == sluice.Suspended:
		m.resume(t, &is, m.of.IntN(2) == 0)
	case m.of.IntN(12) == 0:
		_, err := keeper.Suspend(t.Context(), id, "root")
		require.NoError(t, err)
	case m.of.IntN(3) == 0:
		m.race(t)
	case m.of.IntN(3) == 0: // the other replica is faster
		ctx := context.WithValue(t.Context(), meanwhile{}, sync.OnceFunc(func() {
			m.of.happen(t)
			_ = m.of.fleet.engines[0].Keeper().Sync(t.Context(), id) // it may be suspended
		}))
		if err := m.of.fleet.engines[1].Keeper().Sync(ctx, id); sluice.CodeOf(err) != sluice.MirrorSuspended {
			require.NoError(t, err)
		}
	case m.of.IntN(4) == 0: // the process ends meanwhile, or the caller goes
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(m.of.IntN(3000))*time.Microsecond)
		_ = keeper.Sync(ctx, id) // it may have been in time
		cancel()
	default:
		if err := keeper.Sync(t.Context(), id); sluice.CodeOf(err) != sluice.MirrorSuspended {
			require.NoError(t, err)
		}
	}
	m.judged(t)
}

// race has both replicas sync while the source changes.
func (m *mirrored) race(t *testing.T) {
	t.Helper()
	ended := make(chan error, 2)
	for _, e := range m.of.fleet.engines {
		go func() { ended <- e.Keeper().Sync(t.Context(), m.rule.Mirror.ID) }()
	}
	for range 3 {
		m.of.happen(t)
	}
	for range m.of.fleet.engines {
		switch err := <-ended; sluice.CodeOf(err) {
		case sluice.MirrorSuspended, sluice.Conflict, sluice.NotFound, sluice.Unavailable: // the log is made anew, or the other is faster
		default:
			require.NoError(t, err)
		}
	}
}

// resume resumes the mirror: one of another log only if that is accepted, none above its label.
func (m *mirrored) resume(t *testing.T, is *sluice.Mirror, accept bool) {
	t.Helper()
	want := sluice.Code("")
	switch {
	case !is.Remote() && !m.rule.Label.Dominates(m.of.fleet.labels.Label(m.of.ns)):
		want = sluice.Forbidden
	case is.Reason == sluice.MirrorOriginReplaced && !accept:
		want = sluice.Conflict
	}
	_, err := m.of.fleet.engines[m.of.IntN(2)].Keeper().Resume(t.Context(), is.ID, sluice.Caller{Principal: sluice.Root}, accept)
	require.Equal(t, want, sluice.CodeOf(err), "%v", err)
}

// ends requires that the mirror comes to the end of its source.
func (m *mirrored) ends(t *testing.T) {
	t.Helper()
	if !m.of.steady {
		m.of.fleet.labels.set(m.of.ns, sluice.Label{})
	}
	var last uint64
	for range 3 { // a replaced log is noticed, and accepted
		if is := m.state(t); is.State == sluice.Suspended {
			m.resume(t, &is, true)
		}
		var err error
		last, err = m.of.fleet.rooms[0].Log.LastSeq(t.Context(), m.of.ns)
		require.NoError(t, err)
		if err := m.of.fleet.engines[0].Keeper().Sync(t.Context(), m.rule.Mirror.ID); sluice.CodeOf(err) != sluice.MirrorSuspended {
			require.NoError(t, err)
		}
	}
	m.judged(t)
	require.Equal(t, m.of.name, m.place.Incarnation, m.rule.Mirror.ID)
	require.GreaterOrEqual(t, m.place.Watermark, last, "%s: what was there when the sync began; the source's own mirrors may tell more meanwhile", m.rule.Mirror.ID)
}

// courier exports bundles of a source, and brings them to a mirror in any order.
type courier struct {
	*mirrored

	brought  [][]byte
	since    uint64 // where the next export begins
	previous string
}

// export writes the next bundle.
func (c *courier) export(t *testing.T) {
	t.Helper()
	w, err := bundle.NewDocumentWriter(sluice.DepthFull.Scope(), c.since)
	require.NoError(t, err)
	h := bundle.Header{SourceID: siteURL + c.of.ns, SourceName: c.of.ns, Since: c.since, Through: c.since, Previous: c.previous, ExportedAt: time.Now()}
	for more := true; more; {
		page, err := c.of.fleet.rooms[0].Log.Changes(t.Context(), c.of.ns, model.ChangeQuery{Since: h.Through, Limit: 1000})
		require.NoError(t, err)
		if page.LastSeq < h.Since {
			return // another log: it begins where the importer is
		}
		h.Incarnation, h.First, h.Through, more = page.Incarnation, page.FirstSeq, page.ThroughSeq, page.HasMore
		for i := range page.Items {
			require.NoError(t, w.Append(bundle.Entry{Change: page.Items[i]}))
		}
	}
	h.Label = c.of.fleet.labels.Label(c.of.ns)
	text, h, err := w.Seal(h, c.of.fleet.key)
	require.NoError(t, err)
	c.brought = append(c.brought, text)
	if c.since = h.Through; h.Since < h.Through {
		c.previous, err = h.Digest()
		require.NoError(t, err)
	}
}

// returns goes back to the source with the receipt of the last import.
func (c *courier) returns() {
	c.since, c.previous = c.place.Watermark, ""
	if n := len(c.place.Imports); n > 0 {
		c.previous = c.place.Imports[n-1].Digest
	}
}

// move exports, or imports a bundle: the next one, an earlier or a later one, or one that was changed.
func (c *courier) move(t *testing.T) {
	t.Helper()
	switch is := c.state(t); {
	case c.of.IntN(2) == 0:
		if c.of.IntN(4) == 0 {
			c.returns()
		}
		c.export(t)
	case is.State == sluice.Suspended:
		c.resume(t, &is, true)
	case len(c.brought) > 0:
		text := c.brought[c.of.IntN(len(c.brought))]
		c.bring(t, text, c.of.IntN(4) == 0)
	}
	c.judged(t)
}

// bring imports a bundle. What is refused changes nothing; what follows on the last import is not refused.
func (c *courier) bring(t *testing.T, text []byte, accept bool) {
	t.Helper()
	changed := c.of.IntN(8) == 0
	if changed {
		text = bytes.Clone(text)
		text[c.of.IntN(len(text))] ^= 1 << c.of.IntN(7)
	}
	c.load(t)
	was := c.copyist
	doc, err := bundle.ReadDocument(bytes.NewReader(text))
	if err != nil {
		require.True(t, changed, "%v", err)
		return
	}
	keeper := c.of.fleet.engines[c.of.IntN(2)].Keeper()
	_, err = keeper.Import(t.Context(), c.rule.Mirror.Namespace, doc, accept, "root")
	c.load(t)
	switch code := sluice.CodeOf(err); code {
	case "":
		require.False(t, changed)
		require.True(t, accept || skipped(was.gaps) == skipped(c.gaps), "a gap that was not accepted")
	case sluice.OriginReplaced:
		require.NoError(t, keeper.Delete(t.Context(), c.rule.Mirror.ID, "root"))
		c.create(t)
		c.brought, c.since, c.previous = nil, 0, ""
	case sluice.MirrorSuspended:
		require.False(t, c.rule.Label.Dominates(doc.Header.Label), "%v", err)
	default:
		require.Equal(t, []any{was.place.Watermark, was.entries, was.gaps}, []any{c.place.Watermark, c.entries, c.gaps}, "%v", err)
		require.True(t, changed || !c.follows(&was.place, &doc.Header), "%v", err)
	}
}

// follows reports whether a bundle is the next one behind a place.
func (*courier) follows(p *mirror.Place, h *bundle.Header) bool {
	n := len(p.Imports)
	return h.Since == p.Watermark && h.Through > h.Since && (n == 0 || p.Imports[n-1].Digest == h.Previous || p.Imports[n-1].Through != p.Watermark)
}

// past runs a random history of two or three namespaces and their mirrors.
func past(t *testing.T, f *fleet, seed uint64) {
	t.Helper()
	random, name := rand.New(rand.NewPCG(seed, 11)), func(s string) string { return fmt.Sprint("h", seed, "-", s) }
	var sources []*source
	for _, ns := range []string{"c", "b", "a", "v"} {
		f.labels.set(name(ns), secret("a"))
		sources = append(sources, newSource(t, f, random, name(ns)))
	}
	c, b := sources[0], sources[1]
	b.steady = true
	mirrors := []*mirrored{mirrorOf(t, c, name("bc"), b.ns, c.ns)}
	active := sources[:1]
	if random.IntN(2) == 0 {
		mirrors, active = append(mirrors, mirrorOf(t, b, name("ab"), sources[2].ns, b.ns)), sources[:2]
	}
	by := &courier{mirrored: mirrorOf(t, c, name("vc"), sources[3].ns, siteURL+c.ns)}
	_, err := f.engines[0].Keeper().Trust(t.Context(), sources[3].ns, bundle.NewJWK(f.key.Public().(ed25519.PublicKey)), siteURL+c.ns, "root")
	require.NoError(t, err)
	for range 80 {
		switch n := random.IntN(20); {
		case n < 8:
			active[random.IntN(len(active))].happen(t)
		case n < 13:
			mirrors[random.IntN(len(mirrors))].move(t)
		case n < 19:
			by.move(t)
		case random.IntN(3) > 0:
			f.owners.set([][2]bool{{true, false}, {false, true}, {true, true}, {false, false}}[random.IntN(4)])
		default: // a replica is started again
			i := random.IntN(2)
			f.stops[i]()
			f.start(t, i)
		}
	}
	for _, m := range mirrors {
		m.ends(t)
	}
	by.judged(t)
}

// Issue 16: what is true of a mirror in the model of its rules is true of mirrors in NATS, with two replicas that both may sync,
// and of those that import bundles.
func TestModel_HoldsOverStores(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("mutants of the rules are found by the model of the rules")
	}
	histories := uint64(4)
	if os.Getenv("SLUICE_LONG") != "" {
		histories = 300
	}
	f := newFleet(t)
	for seed := range histories {
		t.Log("seed", seed)
		past(t, f, seed)
	}
}
