package mirror_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// fault is a mistake that is planted into a mirror, to see that the model notices it. All of its members may be nil.
type fault struct {
	rule   func(r *mirror.Rule)
	page   func(p *sluice.ObservePage, held *mirror.Held)
	commit func(c *mirror.Commit, held *mirror.Held)
	torn   bool // the place is stored before the entries
	unsafe bool // a step is stored over any place
}

// site is a source with its whole past, as a model test knows it.
type site struct {
	*world

	name   string
	label  sluice.Label
	events map[uint64]sluice.Change // of this log, by sequence
	copied *site                    // an older copy
	gone   map[uint64]bool          // sequences of events that were erased, also if the log was restored since
	tags   map[uint64]string        // of this log's messages
}

// copyOf returns a copy of a site.
func (s *site) copyOf() *site {
	w := *s.world
	w.log, w.all, w.erased = slices.Clone(w.log), slices.Clone(w.all), maps.Clone(w.erased)
	return &site{world: &w, name: s.name, label: s.label, events: maps.Clone(s.events), tags: maps.Clone(s.tags)}
}

// change does something to the source, and reports whether its log is an older copy now.
func (s *site) change() (restored bool) {
	switch s.IntN(40) {
	case 0: // it is made anew
		*s.world = world{Rand: s.Rand, first: 1, erased: map[uint64]bool{}}
		s.name, s.events, s.copied = fmt.Sprint("log-", s.Uint64()), map[uint64]sluice.Change{}, nil
		s.gone, s.tags = map[uint64]bool{}, map[uint64]string{}
	case 1: // it is copied
		s.copied = s.copyOf()
	case 2: // it is restored from the copy
		if s.copied == nil {
			return false
		}
		old := s.copied.copyOf()
		s.world, s.events, s.tags = old.world, old.events, old.tags
		return true
	case 3:
		s.label = []sluice.Label{{}, {}, secret("a"), {Level: sluice.LevelTopSecret}}[s.IntN(4)]
	default:
		s.act()
		maps.Copy(s.gone, s.erased)
		s.note()
	}
	return false
}

// note gives new events content and labels of their own, and remembers them.
func (s *site) note() {
	for i := range s.log {
		c := &s.log[i]
		if s.tags[c.Event.Seq] == "" {
			s.tags[c.Event.Seq] = strconv.FormatUint(s.Uint64(), 10)
		}
		if _, known := s.events[c.Event.Seq]; known || c.Op == sluice.OpDelete {
			continue
		}
		c.Event.Data = fmt.Appendf(nil, "%q", fmt.Sprint(c.Event.ID, "-", s.Uint64())) // no two logs have the same
		if s.IntN(8) == 0 {
			label := []string{"SECRET/a", "TOP_SECRET"}[s.IntN(2)]
			c.Event.Extensions = maps.Clone(c.Event.Extensions)
			if c.Event.Extensions == nil {
				c.Event.Extensions = map[string]string{}
			}
			c.Event.Extensions[sluice.AttributeClassification] = label
		}
		s.events[c.Event.Seq] = *c
	}
}

// page returns a page as a mirror sees it.
func (s *site) page(since uint64, limit int) *sluice.ObservePage {
	p := s.read(since, limit)
	p.Incarnation, p.Label, p.Items = s.name, s.label, slices.Clone(p.Items)
	for _, c := range s.log { // others are gone
		switch c.Event.Seq {
		case since:
			p.SinceTag = s.tags[since]
		case p.ThroughSeq:
			p.ThroughTag = s.tags[p.ThroughSeq]
		}
	}
	return p
}

// copyist is a mirror in a model test: what is stored of it, and what its replicas remember.
type copyist struct {
	rule    mirror.Rule
	fault   fault
	place   mirror.Place
	entries map[string]mirror.Entry
	gaps    []sluice.MirrorGap
	cached  [2]mirror.Place // of two replicas
	stopped string
	blind   bool // its log was restored, and nothing tells
	sure    bool // its place is of the log that the source has

	restored bool // that log was restored from a copy since
	stops    int
}

// sync has a replica take a page; the process may end at any write.
func (m *copyist) sync(s *site, replica, limit int) error {
	at := m.cached[replica]
	if at.Revision == 0 || s.IntN(3) == 0 {
		at = m.place
	}
	held := mirror.Held{Place: at, Entries: maps.Clone(m.entries)}
	p := s.page(at.Watermark, limit)
	unknown := at.Tag == "" || p.SinceTag == ""
	if m.restored && unknown && p.LastSeq >= at.Watermark && at.Incarnation == p.Incarnation {
		m.blind = true
	}
	rule := m.rule
	if m.fault.rule != nil {
		m.fault.rule(&rule)
	}
	if m.fault.page != nil {
		m.fault.page(p, &held)
	}
	c, err := rule.Next(held, p, noon)
	if stop, stops := errors.AsType[*mirror.Stop](err); stops {
		if at.Revision == m.place.Revision {
			m.stopped = stop.Reason
		}
		return nil
	}
	if err != nil {
		return err
	}
	m.sure = at.Revision == m.place.Revision
	if m.fault.commit != nil {
		m.fault.commit(&c, &held)
	}
	return m.store(s, replica, c)
}

// store stores a step, whole or not at all, if the place is still the one that it was decided for.
func (m *copyist) store(s *site, replica int, c mirror.Commit) error {
	died := s.IntN(6) == 0
	if c.Place.Revision != m.place.Revision && !m.fault.unsafe {
		m.cached[replica] = mirror.Place{}
		return nil
	}
	if died && s.IntN(2) == 0 && !m.fault.torn {
		m.cached[replica] = mirror.Place{}
		return nil
	}
	if m.place.Incarnation == c.Place.Incarnation && c.Place.Watermark < m.place.Watermark {
		return errors.New("the watermark falls")
	}
	c.Place.Revision = m.place.Revision + 1
	m.place, m.cached[replica] = c.Place, c.Place
	if died {
		m.cached[replica] = mirror.Place{}
		if m.fault.torn {
			return nil
		}
	}
	m.gaps = append(m.gaps, c.Gaps...)
	for _, e := range c.Entries {
		m.entries[e.Change.Key()] = e
	}
	return nil
}

// inGap reports whether a sequence is in a gap that the mirror knows.
func (m *copyist) inGap(seq uint64) bool {
	return slices.ContainsFunc(m.gaps, func(g sluice.MirrorGap) bool { return g.From <= seq && seq <= g.To })
}

// check compares what is stored with the source: a live entry was published in this log and may be here, an erased
// one is not live once that was told, and a missing one lies in a gap.
func (m *copyist) check(s *site) error {
	live := 0
	for key, e := range m.entries {
		c := &e.Change
		if e.Tombstone() {
			if len(c.Event.Data) > 0 {
				return fmt.Errorf("the tombstone of %s has content", key)
			}
			continue
		}
		live++
		was, published := s.events[c.Event.Seq]
		label, _ := sluice.ParseClassification(c.Event.Extensions[sluice.AttributeClassification])
		switch {
		case !published || was.Event.ID != c.Event.ID:
			return fmt.Errorf("%s at %d is of another log", key, c.Event.Seq)
		case m.rule.Mirror.Depth == sluice.DepthFull && string(was.Event.Data) != string(c.Event.Data), m.rule.Mirror.Depth == sluice.DepthCatalog && len(c.Event.Data) > 0:
			return fmt.Errorf("%s has the content %s", key, c.Event.Data)
		case !m.rule.Mirror.Wants(c.Event.Path):
			return fmt.Errorf("%s is on the path %s", key, c.Event.Path)
		case c.Event.Extensions[sluice.AttributeClassification] != "" && !m.rule.Label.Dominates(label):
			return fmt.Errorf("%s is above the label", key)
		}
	}
	if live != m.place.Live {
		return fmt.Errorf("%d entries are live, and the place has %d", live, m.place.Live)
	}
	return m.complete(s)
}

// complete returns an error if an entry up to the watermark is neither mirrored as it should be nor explained by a gap.
func (m *copyist) complete(s *site) error {
	last, told := map[string]sluice.Change{}, map[uint64]uint64{} // by key; where an erasing was told
	for i := range s.all {
		c := &s.all[i]
		switch {
		case c.Event.Seq > m.place.Watermark:
		case c.Op == sluice.OpDelete:
			told[c.ErasedSeq] = c.Event.Seq
		default:
			last[c.Key()] = s.events[c.Event.Seq]
		}
	}
	for key, c := range last {
		if err := m.explains(s, key, &c, told[c.Event.Seq]); err != nil {
			return err
		}
	}
	return nil
}

// explains is complete for the last version of an entry, and where its erasing was told; 0: it was not.
func (m *copyist) explains(s *site, key string, c *sluice.Change, told uint64) error {
	e, has := m.entries[key]
	seq, text := c.Event.Seq, c.Event.Extensions[sluice.AttributeClassification]
	label, err := sluice.ParseClassification(text)
	above := text != "" && (err != nil || !m.rule.Label.Dominates(label))
	mine := has && !e.Tombstone() && e.Change.Event.Seq == seq
	switch {
	case told > 0:
		if mine && !m.inGap(told) {
			return fmt.Errorf("%s at %d was erased, which was told at %d", key, seq, told)
		}
	case m.inGap(seq) || s.gone[seq]:
	case above:
		return fmt.Errorf("%s at %d is above the label, and no gap", key, seq)
	case m.rule.Mirror.Wants(c.Event.Path) && !mine:
		return fmt.Errorf("%s at %d is missing", key, seq)
	}
	return nil
}

// history runs a random history, and returns how often the mirror stopped, and how it contradicts its source.
func history(seed uint64, f fault) (stops int, err error) {
	random := rand.New(rand.NewPCG(seed, 7))
	s := &site{
		world: &world{Rand: random, first: 1, erased: map[uint64]bool{}}, name: "log", events: map[uint64]sluice.Change{}, gone: map[uint64]bool{}, tags: map[uint64]string{},
	}
	m := &copyist{rule: rule(), fault: f, entries: map[string]mirror.Entry{}}
	m.rule.Mirror.PathPrefix = []string{"", "/a", "/a/1"}[random.IntN(3)]
	if random.IntN(4) == 0 {
		m.rule.Mirror.Depth = sluice.DepthCatalog
	}
	for range 60 {
		if s.change() {
			m.restored, m.sure = true, false
		}
		if s.IntN(2) == 0 || m.blind {
			continue
		}
		if err := m.turn(s); err != nil {
			return m.stops, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return m.stops, nil
}

// turn has the mirror sync, after an operator has resumed it and accepted another origin.
func (m *copyist) turn(s *site) error {
	if m.stopped != "" {
		m.stops++
		if m.stopped == sluice.MirrorOriginReplaced {
			m.place, m.entries, m.gaps, m.restored = mirror.Place{Revision: m.place.Revision + 1}, map[string]mirror.Entry{}, nil, false
		}
		m.stopped, m.cached = "", [2]mirror.Place{}
	}
	if err := m.sync(s, s.IntN(2), 1+s.IntN(5)); err != nil {
		return err
	}
	if m.restored = m.restored && !m.sure; m.restored || m.stopped != "" || m.blind || m.place.Incarnation != s.name {
		return nil // what it has is of the former log, and it says so when it looks
	}
	return m.check(s)
}

// Issue 16: in any history of a source and of its mirror, the mirror is the source, filtered, without the gaps that it knows.
func TestModel_MirrorIsTheFilteredLogWithoutGaps(t *testing.T) {
	t.Parallel()
	all, histories := 0, uint64(1500)
	if os.Getenv("SLUICE_LONG") != "" {
		histories = 100_000
	}
	for seed := range histories {
		stops, err := history(seed, fault{})
		require.NoError(t, err)
		all += stops
	}
	require.Greater(t, all, int(histories), "mirrors stop and are resumed")
}

// faults returns the mistakes that the model notices.
func faults() map[string]fault {
	top := sluice.Label{Level: sluice.LevelTopSecret, Compartments: []string{"a"}}
	return map[string]fault{
		"a tombstone is skipped": {commit: func(c *mirror.Commit, _ *mirror.Held) {
			c.Entries = slices.DeleteFunc(c.Entries, func(e mirror.Entry) bool { return e.Tombstone() })
		}},
		"an entry is skipped": {commit: func(c *mirror.Commit, _ *mirror.Held) {
			c.Entries = c.Entries[:max(0, len(c.Entries)-1)]
		}},
		"the watermark is stored before the entries": {torn: true},
		"a step is stored over any place":            {unsafe: true},
		"the incarnation is ignored": {page: func(p *sluice.ObservePage, held *mirror.Held) {
			if held.Place.Incarnation != "" {
				held.Place.Incarnation, p.SinceTag = p.Incarnation, ""
			}
		}},
		"another message at the watermark is ignored": {page: func(p *sluice.ObservePage, _ *mirror.Held) { p.SinceTag = "" }},
		"a gap is forgotten":                          {commit: func(c *mirror.Commit, _ *mirror.Held) { c.Gaps = nil }},
		"a gap ends one too early": {commit: func(c *mirror.Commit, _ *mirror.Held) {
			for i := range c.Gaps {
				c.Gaps[i].To--
			}
		}},
		"the watermark falls": {commit: func(c *mirror.Commit, _ *mirror.Held) { c.Place.Watermark -= min(c.Place.Watermark, 2) }},
		"the watermark runs ahead": {page: func(p *sluice.ObservePage, _ *mirror.Held) {
			p.ThroughSeq = p.LastSeq
		}},
		"a prefix is one too short": {rule: func(r *mirror.Rule) {
			m := *r.Mirror
			m.PathPrefix = m.PathPrefix[:max(0, len(m.PathPrefix)-1)]
			r.Mirror = &m
		}},
		"the label of an entry is ignored": {rule: func(r *mirror.Rule) { r.Label = top }},
		"a deletion is of any version": {page: func(p *sluice.ObservePage, held *mirror.Held) {
			for i := range p.Items {
				if e, has := held.Entries[p.Items[i].Key()]; has && p.Items[i].Op == sluice.OpDelete {
					p.Items[i].ErasedSeq = e.Change.Event.Seq
				}
			}
		}},
		"a revision is another entry": {page: func(p *sluice.ObservePage, _ *mirror.Held) {
			for i := range p.Items {
				if p.Items[i].Op == sluice.OpRevise {
					p.Items[i] = sluice.Change{Op: sluice.OpWrite, Event: p.Items[i].Event}
					p.Items[i].Event.Extensions = nil
				}
			}
		}},
		"entries are counted wrongly": {commit: func(c *mirror.Commit, held *mirror.Held) { c.Place.Live = max(c.Place.Live, held.Place.Live) }},
		"a catalogue has content": {rule: func(r *mirror.Rule) {
			m := *r.Mirror
			m.Depth = sluice.DepthFull
			r.Mirror = &m
		}},
	}
}

// Each mistake that a mirror might make is noticed by the model.
func TestModel_NoticesPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, f := range faults() {
		noticed := false
		for seed := uint64(0); seed < 2000 && !noticed; seed++ {
			_, err := history(seed, f)
			noticed = err != nil
		}
		require.True(t, noticed, name)
	}
}
