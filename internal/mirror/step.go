package mirror

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Rule decides about the pages of a mirror. Its fields are the conditions besides the pages.
type Rule struct {
	Mirror *sluice.Mirror
	Label  sluice.Label // of the subscriber's namespace
	Own    string       // incarnation of the subscriber's log
	Most   int          // bytes of an entry; 0: unlimited
}

// Stop is an error after which a mirror must be suspended.
type Stop struct {
	Reason string // one of the reasons of suspended mirrors
	Detail string // a sentence
}

// Error returns the sentence.
func (s *Stop) Error() string { return s.Detail }

func stop(reason, format string, args ...any) error {
	return &Stop{reason, fmt.Sprintf(format, args...)}
}

// Next decides what is stored for a page that was read after the place's watermark. The error is a
// *Stop, or says how the page contradicts itself; nothing may be stored then.
//
// The page's items are upserts by the key of their entry: to take a page twice changes nothing
// (S3-56). Next changes neither held nor page. The cost is O(len(page.Items) + len(page.Lost)).
func (r Rule) Next(held Held, page *sluice.ObservePage, now time.Time) (Commit, error) {
	if err := r.accepts(&held.Place, page); err != nil {
		return Commit{}, err
	}
	if err := ordered(&held.Place, page); err != nil {
		return Commit{}, err
	}
	s := step{rule: r, held: held, now: now, commit: Commit{Place: held.Place}}
	s.gaps(page)
	for i := range page.Items {
		s.take(&page.Items[i])
	}
	s.advance(page)
	return s.commit, nil
}

// NextAll is Next for consecutive pages. With an error, the commit has the pages before the refused
// one, and may be stored. It changes held.Entries, which must not be nil if there are several pages
// with changes. An entry that several pages change is in the commit once, with its last state.
func (r Rule) NextAll(held Held, pages []*sluice.ObservePage, now time.Time) (Commit, error) {
	all := Commit{Place: held.Place}
	at := map[string]int{} // of the entries, by key
	for _, page := range pages {
		c, err := r.Next(held, page, now)
		if err != nil {
			return all, err
		}
		all.Place, all.Gaps = c.Place, append(all.Gaps, c.Gaps...)
		if len(pages) == 1 {
			return c, nil
		}
		held.Place = c.Place
		for _, e := range c.Entries {
			key := e.Change.Key()
			held.Entries[key] = e
			if i, had := at[key]; had {
				all.Entries[i] = e
				continue
			}
			at[key] = len(all.Entries)
			all.Entries = append(all.Entries, e)
		}
	}
	return all, nil
}

// accepts returns a Stop unless the page is from the log that the mirror follows, and may be stored
// by the subscriber.
func (r Rule) accepts(at *Place, page *sluice.ObservePage) error {
	if page.Incarnation == "" {
		return contradiction("the page of %s names no incarnation", r.Mirror.Source)
	}
	switch {
	case at.Incarnation != "" && at.Incarnation != page.Incarnation:
		return stop(sluice.MirrorOriginReplaced, "the log of %s was made anew: it is %s now, and the mirror follows %s", r.Mirror.Source, page.Incarnation, at.Incarnation)
	case page.LastSeq < at.Watermark:
		return stop(sluice.MirrorOriginReplaced, "the log of %s ends at sequence %d, and the mirror has read up to %d: it lost its end", r.Mirror.Source, page.LastSeq, at.Watermark)
	case at.Tag != "" && page.SinceTag != "" && at.Tag != page.SinceTag:
		return stop(sluice.MirrorOriginReplaced, "sequence %d of %s is another message than when it was mirrored: its log was restored or replaced", at.Watermark, r.Mirror.Source)
	case !r.Label.Dominates(page.Label):
		return r.raised(at, page.Label)
	}
	return r.acyclic(page)
}

// raised returns the Stop for a label of the source that the subscriber's label does not dominate.
// The place has the former label, from the previous page.
func (r Rule) raised(at *Place, label sluice.Label) error {
	source, own, how := r.Mirror.Source, r.Mirror.Namespace, "is "+labelText(label)
	if was := at.Label; was != nil {
		switch from := labelText(*was); {
		case from == labelText(label):
			return stop(sluice.MirrorLabelRaised, "the label of %s fell to %s after sequence %d of %s; it does not dominate that of %s (%s)",
				own, labelText(r.Label), at.Watermark, source, source, from)
		case label.Dominates(*was):
			how = "rose from " + from + " to " + labelText(label)
		default:
			how = "changed from " + from + " to " + labelText(label)
		}
	}
	return stop(sluice.MirrorLabelRaised, "the label of %s %s after sequence %d; that of %s (%s) does not dominate it", source, how, at.Watermark, own, labelText(r.Label))
}

// acyclic returns a Stop if the source has content of the subscriber, or content that has passed
// too many mirrors (S3-108, S3-119).
func (r Rule) acyclic(page *sluice.ObservePage) error {
	if page.Incarnation == r.Own {
		return stop(sluice.MirrorInCycle, "%s is the log of %s itself", r.Mirror.Source, r.Mirror.Namespace)
	}
	for _, hop := range page.Passed {
		if hop.Incarnation == r.Own {
			return stop(sluice.MirrorInCycle, "%s mirrors %s, through %d mirrors", r.Mirror.Source, r.Mirror.Namespace, hop.Hops)
		}
		if hop.Hops >= sluice.MaxMirrorHops {
			return stop(sluice.MirrorInCycle, "%s has content that has passed %d mirrors, the limit", r.Mirror.Source, hop.Hops)
		}
	}
	return nil
}

// contradiction returns the error of an invalid page.
func contradiction(format string, args ...any) error {
	return sluice.Errorf(sluice.Unprocessable, format, args...)
}

// ordered returns an error unless the page begins after the place and is ascending.
func ordered(at *Place, page *sluice.ObservePage) error {
	if page.LastSeq > maxSeq {
		return contradiction("the page has sequence %d, above the limit %d", page.LastSeq, uint64(maxSeq))
	}
	if page.FirstSeq > page.ThroughSeq+1 {
		return contradiction("the page begins at sequence %d and goes through %d", page.FirstSeq, page.ThroughSeq)
	}
	if page.ThroughSeq < at.Watermark || page.ThroughSeq > page.LastSeq {
		return contradiction("the page goes through sequence %d, which is not from %d to %d", page.ThroughSeq, at.Watermark, page.LastSeq)
	}
	last := at.Watermark
	for i := range page.Items {
		c := &page.Items[i]
		switch {
		case c.Event.Seq <= last || c.Event.Seq > page.ThroughSeq:
			return contradiction("the page has sequence %d behind %d and goes through %d", c.Event.Seq, last, page.ThroughSeq)
		case c.Op != sluice.OpWrite && c.Op != sluice.OpRevise && c.Op != sluice.OpDelete:
			return contradiction("sequence %d: unknown op %q", c.Event.Seq, c.Op)
		case c.Key() == "" || c.Op != sluice.OpDelete && c.Event.Path == "":
			return contradiction("sequence %d has no id or no path", c.Event.Seq)
		}
		last = c.Event.Seq
	}
	return apart(at.Watermark, page)
}

// maxSeq is the last sequence that every JSON parser reads exactly.
const maxSeq = 1<<53 - 1

// maxLost limits the lost ranges in a page that are after the place: each is a message of the step.
const maxLost = 500

// apart returns an error unless the lost ranges of a page are ascending and do not overlap, because a
// gap is stored under its first sequence, and few are after the place. Each page of a bundle has all
// ranges of the bundle.
func apart(after uint64, page *sluice.ObservePage) error {
	end, within := uint64(0), 0
	for _, lost := range page.Lost {
		if lost.From <= end || lost.To < lost.From {
			return contradiction("the page has the lost range from %d to %d behind %d", lost.From, lost.To, end)
		}
		if end = lost.To; end > after && lost.From <= page.ThroughSeq {
			within++
		}
	}
	if within > maxLost {
		return contradiction("the page has %d lost ranges, more than %d", within, maxLost)
	}
	return nil
}

// step is the state of a decision about a page.
type step struct {
	rule   Rule
	held   Held
	now    time.Time
	commit Commit
	place  map[string]int // of the entries in the commit, by key
}

// gaps notes the ranges of which the page has no changes because they are lost.
func (s *step) gaps(page *sluice.ObservePage) {
	from := s.held.Place.Watermark + 1
	if page.FirstSeq > from {
		s.gap(from, page.FirstSeq-1, sluice.GapRetention)
	}
	for _, lost := range page.Lost {
		if begin, end := max(lost.From, from, page.FirstSeq), min(lost.To, page.ThroughSeq); begin <= end {
			s.gap(begin, end, sluice.GapDamage)
		}
	}
}

func (s *step) gap(from, to uint64, cause string) {
	s.commit.Gaps = append(s.commit.Gaps, sluice.MirrorGap{From: from, To: to, Cause: cause, At: s.now})
	s.commit.Place.Gaps++
}

// take decides about one change. The order of the cases matters: a label that does not dominate, or
// a path that the filter leaves out, also ends the mirrored version, which otherwise would stay
// forever (S3-57, S3-60).
func (s *step) take(c *sluice.Change) {
	key := c.Key()
	was, known := s.entry(key)
	if known && c.Event.Seq <= was.Seq() {
		return // it was applied before
	}
	switch {
	case c.Op == sluice.OpDelete && !erases(c, &was):
	case c.Op != sluice.OpDelete && !s.dominated(&c.Event):
		s.gap(c.Event.Seq, c.Event.Seq, sluice.GapLabel)
		s.bury(key, &was, known, c.Event.Seq) // the mirrored version is outdated
	case c.Op == sluice.OpDelete || !s.rule.Mirror.Wants(c.Event.Path):
		s.bury(key, &was, known, c.Event.Seq)
	case !s.rule.fits(c):
		s.gap(c.Event.Seq, c.Event.Seq, sluice.GapSize)
		s.bury(key, &was, known, c.Event.Seq)
	default:
		if !known || was.Tombstone() {
			s.commit.Place.Live++
		}
		s.put(key, Entry{Change: s.reduced(c), MirroredAt: s.now})
	}
}

// erases reports whether a deletion is of the event whose content an entry has, and not of an earlier or
// a later version of it.
func erases(c *sluice.Change, was *Entry) bool {
	if c.ErasedSeq > 0 {
		return was.Change.Event.Seq == c.ErasedSeq
	}
	return was.Change.Event.ID == c.Event.ID
}

// dominated reports whether the subscriber may have an event, whose label may be above that of its
// namespace. A malformed label is never dominated.
func (s *step) dominated(e *sluice.Event) bool {
	text := e.Extensions[sluice.AttributeClassification]
	if text == "" {
		return true
	}
	label, err := sluice.ParseClassification(text)
	return err == nil && s.rule.Label.Dominates(label)
}

// bury replaces a mirrored entry by a tombstone (S3-57), which keeps the attributes of the entry
// but not its data.
func (s *step) bury(key string, was *Entry, known bool, seq uint64) { //nolint:revive // known is a result on its way
	if !known || was.Tombstone() {
		return
	}
	s.commit.Place.Live--
	s.commit.Place.Deleted++
	e := was.Change.Event
	is := sluice.Change{Op: was.Change.Op, Event: sluice.Event{Seq: e.Seq, ID: e.ID, Path: e.Path, Type: e.Type, Time: e.Time, Source: e.Source}}
	if is.Op == sluice.OpRevise {
		is.Event.Extensions = map[string]string{sluice.RevisionOf: key}
	}
	s.put(key, Entry{Change: is, MirroredAt: was.MirroredAt, DeletedSeq: seq, TombstonedAt: s.now})
}

// reduced returns the change with as much data as the mirror's depth includes (S3-44…46). A correct
// source sends no more than that. A summary has the same form as in bundles.
func (s *step) reduced(c *sluice.Change) sluice.Change {
	is := *c
	switch s.rule.Mirror.Depth {
	case sluice.DepthCatalog:
		is.Event.Data = nil
	case sluice.DepthSummary:
		if summary, err := bundle.CanonicalSummary(is.Event.Data); err == nil {
			is.Event.Data = summary
		}
	case sluice.DepthFull:
	}
	return is
}

// entry returns the entry with a key, after the previous changes of the page.
func (s *step) entry(key string) (e Entry, known bool) {
	if at, changed := s.place[key]; changed {
		return s.commit.Entries[at], true
	}
	e, known = s.held.Entries[key]
	return e, known
}

func (s *step) put(key string, e Entry) {
	if at, changed := s.place[key]; changed {
		s.commit.Entries[at] = e
		return
	}
	if s.place == nil {
		s.place = map[string]int{}
	}
	s.place[key] = len(s.commit.Entries)
	s.commit.Entries = append(s.commit.Entries, e)
}

// advance moves the place to the end of the page (S3-48, S3-49).
func (s *step) advance(page *sluice.ObservePage) {
	at := &s.commit.Place
	if page.ThroughSeq > at.Watermark {
		at.Tag = page.ThroughTag
	} else if at.Tag == "" {
		at.Tag = page.SinceTag
	}
	at.Incarnation, at.Watermark, at.SourceSeq = page.Incarnation, page.ThroughSeq, page.LastSeq
	at.SyncedAt, at.Passed, at.Label = s.now, page.Passed, &page.Label
	if page.ThroughSeq == page.LastSeq {
		at.CaughtUpAt = s.now
	}
}

// labelText returns a label as it is written in an event's attribute.
func labelText(l sluice.Label) string {
	if len(l.Compartments) == 0 {
		return l.Level.String()
	}
	return l.Level.String() + "/" + strings.Join(l.Compartments, ",")
}
