package mirror

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// take stores the content of a bundle behind a place, step by step, and with the last one the record of the
// bundle, which is empty for a heartbeat. It returns the new place and the number of entries.
func (e *Engine) take(ctx context.Context, rule Rule, at Place, c *bundle.Content, record bundle.Import) (Place, int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // gives up a step that was sent ahead
	m, applied := rule.Mirror, 0
	p := planner{Engine: e, mirror: m, header: &c.Header, record: record, place: at}
	p.stored.Store(at.Revision)
	for s, err := range ahead(p.steps(ctx, c), cancel) {
		if err != nil {
			return at, applied, err
		}
		if _, err := e.current(ctx, m); err != nil {
			return at, applied, err
		}
		next, err := e.keep(ctx, m, s.commit, func(ctx context.Context) (uint64, error) { return s.store(ctx, at.Revision) })
		if err != nil {
			return at, applied, err
		}
		at, applied = next, applied+s.items
		p.stored.Store(at.Revision)
	}
	return at, applied, nil
}

// current returns the rule for the next step of a bundle. Code Conflict if the mirror was changed.
func (e *Engine) current(ctx context.Context, m *sluice.Mirror) (Rule, error) {
	if e.superseded(m) {
		return Rule{}, sluice.Errorf(sluice.Conflict, "the mirror was changed meanwhile")
	}
	return e.rule(ctx, m)
}

// planner decides about the pages of a bundle, one step ahead of what is being stored.
type planner struct {
	*Engine

	mirror *sluice.Mirror
	header *bundle.Header
	record bundle.Import
	place  Place         // after the last planned step; its revision is not known yet
	last   []Entry       // of that step, which may not be stored yet
	stored atomic.Uint64 // revision of the place after the step before that one
}

// plannedStep is a step that was sent ahead.
type plannedStep struct {
	commit Commit
	items  int
	store  StoreStaged
}

// steps plans the content of a bundle behind the place.
func (p *planner) steps(ctx context.Context, c *bundle.Content) iter.Seq2[plannedStep, error] {
	return func(yield func(plannedStep, error) bool) {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		for page, err := range ahead(pagesOf(reading, c, max(p.place.Watermark, c.Header.Since), p.place.SourceSeq), stop) {
			if err != nil {
				yield(plannedStep{}, fmt.Errorf("read bundle: %w", err))
				return
			}
			s, err := p.plan(ctx, page)
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// plan decides about a page and sends its step ahead. Code Conflict if the mirror was changed or is at another place.
func (p *planner) plan(ctx context.Context, page *sluice.ObservePage) (plannedStep, error) {
	rule, err := p.current(ctx, p.mirror)
	if err != nil {
		return plannedStep{}, err
	}
	held, err := p.hold(ctx, page)
	if err != nil {
		return plannedStep{}, err
	}
	now := p.opts.Now().UTC()
	commit, err := rule.nextOfBundle(held, page, p.header.Since, now)
	if err != nil {
		return plannedStep{}, err
	}
	if !page.HasMore {
		if p.record.Digest != "" {
			p.record.At = now
		}
		commit.Place.heard(p.record, p.header.ExportedAt)
	}
	store, err := p.deps.Copies.Stage(ctx, p.mirror.ID, commit)
	if err != nil {
		return plannedStep{}, fmt.Errorf("store step: %w", err)
	}
	p.place, p.last = commit.Place, commit.Entries
	return plannedStep{commit, len(page.Items), store}, nil
}

// hold returns what the mirror has of the entries of a page after the last planned step.
func (p *planner) hold(ctx context.Context, page *sluice.ObservePage) (Held, error) {
	keys := keysOf([]*sluice.ObservePage{page})
	if len(keys) == 0 {
		return Held{Place: p.place}, nil
	}
	least := p.stored.Load()
	held, err := p.deps.Copies.Hold(ctx, p.mirror.ID, keys)
	if err != nil {
		return held, fmt.Errorf("read entries: %w", err)
	}
	if held.Place.Revision < least { // a later one is that of the last step, or its store will fail
		return held, sluice.Errorf(sluice.Conflict, "the mirror is at another place")
	}
	held.Place = p.place
	for _, e := range p.last {
		held.Entries[e.Change.Key()] = e
	}
	return held, nil
}

// nextOfBundle is Next for a page of a bundle from behind a sequence. If the place is before that, the
// importer has accepted the gap.
func (r Rule) nextOfBundle(held Held, page *sluice.ObservePage, since uint64, now time.Time) (Commit, error) {
	var skipped []sluice.MirrorGap
	if from := held.Place.Watermark + 1; since >= from {
		skipped = []sluice.MirrorGap{{From: from, To: since, Cause: sluice.GapBundle, At: now}}
		held.Place.Watermark, held.Place.Tag = since, ""
		held.Place.Gaps++
	}
	commit, err := r.Next(held, page, now)
	commit.Gaps = slices.Concat(skipped, commit.Gaps)
	return commit, err
}

// ahead returns a sequence that is read on another goroutine, one element ahead of its use. Stop ends the reading when the
// rest is not wanted.
func ahead[T any](all iter.Seq2[T, error], stop func()) iter.Seq2[T, error] {
	type element struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		elements, ended := make(chan element), make(chan struct{})
		go func() {
			defer close(elements)
			for value, err := range all {
				select {
				case elements <- element{value, err}:
				case <-ended:
					return
				}
			}
		}()
		defer func() {
			close(ended)
			stop()
			for range elements { // until the reader has ended: what it reads is closed next
			}
		}()
		for e := range elements {
			if !yield(e.value, e.err) {
				return
			}
		}
	}
}

// Bounds of a step with a page of a bundle, besides groupMessages. Nothing but the range of the bundle ends it, so it is
// larger than a step of a sync: each costs a round trip, and JetStream keeps the block with the place in memory for ten seconds.
const (
	bundleBytes = 16 << 20 // of data
	lostRanges  = 50
)

// pagesOf returns the content of a bundle behind a sequence as pages, each of which fits into one step. The
// last one goes through the end of the bundle's range, and there is always one. Known is the last sequence
// that the source is known to have.
func pagesOf(ctx context.Context, c *bundle.Content, after, known uint64) iter.Seq2[*sluice.ObservePage, error] {
	h := &c.Header
	return func(yield func(*sluice.ObservePage, error) bool) {
		p := pager{header: h, known: max(known, h.Through), cuts: cutsOf(h, after)}
		for e, err := range c.Entries(ctx, after) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !p.before(e.Event.Seq, yield) {
				return
			}
			p.add(&e.Change)
		}
		if p.before(h.Through+1, yield) {
			last := p.page(h.Through)
			last.HasMore = false
			yield(last, nil)
		}
	}
}

// cutsOf returns where pages of a bundle end so that none has too many lost ranges.
func cutsOf(h *bundle.Header, after uint64) (cuts []uint64) {
	for i := lostRanges - 1; i < len(h.Lost); i += lostRanges {
		if to := h.Lost[i].To; to > after && to < h.Through {
			cuts = append(cuts, to)
		}
	}
	return cuts
}

// pager collects the changes of a bundle for the next page.
type pager struct {
	header   *bundle.Header
	known    uint64 // last sequence of the source
	cuts     []uint64
	items    []sluice.Change
	messages int // that the items may need
	bytes    int // of data
}

// before yields the pages that end before a sequence.
func (p *pager) before(seq uint64, yield func(*sluice.ObservePage, error) bool) bool {
	for ; len(p.cuts) > 0 && p.cuts[0] < seq; p.cuts = p.cuts[1:] {
		if !yield(p.page(p.cuts[0]), nil) {
			return false
		}
	}
	full := p.messages+lostRanges+2 >= groupMessages || p.bytes >= bundleBytes
	return !full || yield(p.page(seq-1), nil)
}

func (p *pager) add(c *sluice.Change) {
	p.items, p.bytes, p.messages = append(p.items, *c), p.bytes+len(c.Event.Data), p.messages+messagesFor(c)
}

// page returns what was collected as a page that goes through a sequence, and begins the next one.
func (p *pager) page(through uint64) *sluice.ObservePage {
	h := p.header
	page := &sluice.ObservePage{
		Incarnation: h.Incarnation, FirstSeq: min(h.First, through+1), LastSeq: p.known, ThroughSeq: through, HasMore: true,
		Label: h.Label, Passed: h.Passed, Items: p.items, Lost: h.Lost,
	}
	p.items, p.messages, p.bytes = nil, 0, 0
	return page
}
