package mirror

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of the pages that are stored in one step. JetStream's batches have a thousand messages at
// most, and so has a read of entries.
const (
	pageItems  = 100 // S3-43
	groupItems = 900
	groupBytes = 4 << 20 // of data; a page more
)

// How often a step is decided anew because the place has moved, and the pause before.
const (
	maxTries = 10
	tryAgain = 10 * time.Millisecond
)

// outcome is how a sync has ended.
type outcome struct {
	place Place // that the mirror has come to
	more  bool  // the source has more
	err   error // a *Stop if the mirror must be suspended
}

// pull reads pages of a mirror's source from its place on and stores them, as many as its turn has.
// Another replica may do the same: of the same step, that of one of them is stored.
func (e *Engine) pull(ctx context.Context, m *sluice.Mirror, at Place) outcome {
	if m.Imported() {
		return outcome{place: at}
	}
	is := outcome{place: at, more: true}
	rule, credential, err := e.prepare(ctx, m)
	if err != nil {
		is.err = err
		return is
	}
	pause := supervise.Pause{First: tryAgain, Most: tryAgain}
	for groups, tries := 0, 0; is.more && is.err == nil && groups < e.opts.Groups; groups++ {
		if is.place.Revision == 0 {
			if is.place, is.err = e.stored(ctx, m.ID); is.err != nil {
				return is
			}
		}
		is = e.group(ctx, rule, credential, is.place)
		if sluice.CodeOf(is.err) == sluice.Conflict && tries < maxTries && pause.Wait(ctx) { // another replica is ahead
			tries++
			is = outcome{more: true}
		}
	}
	return is
}

// group reads pages from behind a place and stores them in one step: an atomic batch costs as much as
// hundreds of entries in it.
func (e *Engine) group(ctx context.Context, rule Rule, credential string, at Place) outcome {
	var pages []*sluice.ObservePage
	since, items, bytes, more := at.Watermark, 0, 0, true
	for more && items+pageItems <= groupItems && bytes < groupBytes {
		page, err := e.observe(ctx, rule.Mirror, credential, since)
		if err != nil {
			return outcome{at, true, err}
		}
		if len(page.Items) > pageItems {
			return outcome{at, true, sluice.Errorf(sluice.Unprocessable, "%s sent %d changes where %d were asked for", rule.Mirror.Source, len(page.Items), pageItems)}
		}
		for i := range page.Items {
			bytes += len(page.Items[i].Event.Data)
		}
		pages, items, more = append(pages, page), items+len(page.Items), page.HasMore && page.ThroughSeq > since
		since = page.ThroughSeq
	}
	next, err := e.store(ctx, rule, at, pages)
	return outcome{next, more || err != nil, err}
}

// stored returns the stored place of a mirror.
func (e *Engine) stored(ctx context.Context, id string) (Place, error) {
	held, err := e.deps.Copies.Hold(ctx, id, nil)
	if err != nil {
		return Place{}, fmt.Errorf("read place: %w", err)
	}
	return held.Place, nil
}

// prepare returns the rule for a mirror's pages now, and its credential. The error is a *Stop if its
// creator has lost access.
func (e *Engine) prepare(ctx context.Context, m *sluice.Mirror) (Rule, string, error) {
	switch e.deps.Gate.Holds(m) {
	case model.Lost:
		return Rule{}, "", stop(sluice.MirrorAccessLost, "%s may not mirror %s any more", m.CreatedBy, m.Source)
	case model.Undecided, model.Withhold:
		return Rule{}, "", sluice.Errorf(sluice.Unavailable, "the access of %s is not known at the moment", m.CreatedBy)
	case model.Pass:
	}
	own, err := e.deps.Namespaces.Incarnation(ctx, m.Namespace)
	if err != nil {
		return Rule{}, "", err
	}
	rule := Rule{Mirror: m, Label: e.deps.Namespaces.Label(m.Namespace), Own: own}
	if !m.Remote() {
		return rule, "", nil
	}
	credential, err := e.deps.Credentials.Get(ctx, m.ID)
	if err != nil {
		return rule, "", fmt.Errorf("read credential: %w", err)
	}
	return rule, credential, nil
}

// observe reads a page.
func (e *Engine) observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return e.deps.Sources.Observe(ctx, m, credential, since)
}

// store takes a step with consecutive pages from behind a place, and returns the next place. Code
// Conflict if the mirror is at another place. If a page is not to be stored, those before it are.
func (e *Engine) store(ctx context.Context, rule Rule, at Place, pages []*sluice.ObservePage) (Place, error) {
	held, err := e.hold(ctx, rule.Mirror.ID, at, pages)
	if err != nil {
		return at, err
	}
	now := e.opts.Now().UTC()
	commit, refused := rule.NextAll(held, pages, now)
	if commit.idle(&at) && (refused != nil || now.Sub(at.stored) < placeEvery) {
		return commit.Place, refused
	}
	next, err := e.keep(ctx, rule.Mirror, commit, now)
	if err != nil {
		return at, err
	}
	return next, refused
}

// hold returns what a mirror at a place has of the entries of pages. Code Conflict if it is at another place.
func (e *Engine) hold(ctx context.Context, id string, at Place, pages []*sluice.ObservePage) (Held, error) {
	keys := keysOf(pages)
	if len(keys) == 0 {
		return Held{Place: at}, nil
	}
	held, err := e.deps.Copies.Hold(ctx, id, keys)
	if err != nil {
		return held, fmt.Errorf("read entries: %w", err)
	}
	if held.Place.Revision != at.Revision {
		return held, sluice.Errorf(sluice.Conflict, "the mirror has moved on")
	}
	held.Place.stored = at.stored
	return held, nil
}

// keep stores a step, after its gaps were published, and returns the new place.
func (e *Engine) keep(ctx context.Context, m *sluice.Mirror, commit Commit, now time.Time) (Place, error) {
	for _, gap := range commit.Gaps {
		if err := e.tellGap(ctx, m, gap); err != nil {
			return Place{}, err
		}
	}
	revision, err := e.deps.Copies.Commit(ctx, m.ID, commit)
	if err != nil {
		return Place{}, fmt.Errorf("store step: %w", err)
	}
	commit.Place.Revision, commit.Place.stored = revision, now
	return commit.Place, nil
}

// idle reports whether a commit changes nothing but times.
func (c *Commit) idle(at *Place) bool {
	return len(c.Entries)+len(c.Gaps) == 0 && at.Revision > 0 &&
		c.Place.Watermark == at.Watermark && c.Place.Incarnation == at.Incarnation && c.Place.LastID == at.LastID
}

// keysOf returns the keys of the entries of pages.
func keysOf(pages []*sluice.ObservePage) []string {
	var keys []string
	seen := map[string]bool{}
	for _, page := range pages {
		for i := range page.Items {
			if key := page.Items[i].Key(); key != "" && !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// tellGap publishes that a mirror lacks a range, before it is stored: its id is the same each time.
func (e *Engine) tellGap(ctx context.Context, m *sluice.Mirror, gap sluice.MirrorGap) error {
	return e.deps.Teller.Tell(ctx, m.Namespace, model.SystemEvent{
		Path: sluice.SubscriptionPath(m.ID), Kind: sluice.TypeMirrorGap,
		ID:   "mirror-gap-" + m.ID + "-" + strconv.FormatUint(gap.From, 10) + "-" + strconv.FormatUint(gap.To, 10),
		Data: map[string]any{"subscription": m.ID, "source": m.Source, "from": gap.From, "to": gap.To, "cause": gap.Cause},
	})
}
