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
	is := outcome{place: at, more: true}
	rule, credential, err := e.prepare(ctx, m)
	if err != nil {
		is.err = err
		return is
	}
	pause := supervise.Pause{First: tryAgain, Most: tryAgain}
	for pages, tries := 0, 0; is.more && is.err == nil && pages < e.opts.Pages; pages++ {
		if is.place.Revision == 0 {
			if is.place, is.err = e.stored(ctx, m.ID); is.err != nil {
				return is
			}
		}
		is = e.page(ctx, rule, credential, is.place)
		if sluice.CodeOf(is.err) == sluice.Conflict && tries < maxTries && pause.Wait(ctx) { // another replica is ahead
			tries++
			is = outcome{more: true}
		}
	}
	return is
}

// page reads a page from behind a place and stores it.
func (e *Engine) page(ctx context.Context, rule Rule, credential string, at Place) outcome {
	page, err := e.observe(ctx, rule.Mirror, credential, at.Watermark)
	if err != nil {
		return outcome{at, true, err}
	}
	next, err := e.store(ctx, rule, at, page)
	if err != nil {
		return outcome{at, true, err}
	}
	return outcome{next, page.HasMore && next.Watermark > at.Watermark, nil}
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

// store takes a step with a page that was read from behind a place, and returns the next place. Code
// Conflict if the mirror is at another place.
func (e *Engine) store(ctx context.Context, rule Rule, at Place, page *sluice.ObservePage) (Place, error) {
	held := Held{Place: at}
	if len(page.Items) > 0 {
		var err error
		if held, err = e.deps.Copies.Hold(ctx, rule.Mirror.ID, keysOf(page)); err != nil {
			return at, fmt.Errorf("read entries: %w", err)
		}
		if held.Place.Revision != at.Revision {
			return at, sluice.Errorf(sluice.Conflict, "the mirror has moved on")
		}
	}
	now := e.opts.Now().UTC()
	commit, err := rule.Next(held, page, now)
	if err != nil {
		return at, err
	}
	if commit.idle(&at) && now.Sub(at.stored) < placeEvery {
		commit.Place.stored = at.stored
		return commit.Place, nil
	}
	for _, gap := range commit.Gaps {
		if err := e.tellGap(ctx, rule.Mirror, gap); err != nil {
			return at, err
		}
	}
	revision, err := e.deps.Copies.Commit(ctx, rule.Mirror.ID, commit)
	if err != nil {
		return at, fmt.Errorf("store step: %w", err)
	}
	commit.Place.Revision, commit.Place.stored = revision, now
	return commit.Place, nil
}

// idle reports whether a commit changes nothing but times.
func (c *Commit) idle(at *Place) bool {
	return len(c.Entries)+len(c.Gaps) == 0 && at.Revision > 0 &&
		c.Place.Watermark == at.Watermark && c.Place.Incarnation == at.Incarnation && c.Place.LastID == at.LastID
}

// keysOf returns the keys of a page's entries.
func keysOf(page *sluice.ObservePage) []string {
	keys := make([]string, 0, len(page.Items))
	seen := make(map[string]bool, len(page.Items))
	for i := range page.Items {
		if key := page.Items[i].Key(); key != "" && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
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
