package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxAhead is how far in the future the export time of a bundle may be, because clocks differ.
const maxAhead = 5 * time.Minute

// importing is an import of a bundle into a mirror. It is for one call and one goroutine. mirror is
// nil if no mirror of the namespace follows the source; intent is nil until something is about to
// change, so that a refused bundle is not in the ledger.
type importing struct {
	*Keeper

	mirror *Stored
	bundle bundle.Bundle
	trust  bundle.Trust
	accept bool // a gap before the bundle
	intent *ledger.Intent
}

// Import applies a bundle to the mirror of its source in a namespace, as a sync does (S3-69…73).
// Changes that were applied before an error stay, and a repeated import continues there. Codes
// BundleSignatureInvalid; UnknownKey; NoMatchingSubscription; BundleImported; BundleGap, unless a
// gap is accepted; BundleFork; OriginReplaced; MirrorSuspended, even if this bundle suspends the
// mirror; Unprocessable. Import does not close the bundle. If ctx ends, the steps that were stored
// stay. The receipt is nil until a bundle with a range was imported.
func (k *Keeper) Import(ctx context.Context, namespace string, b bundle.Bundle, accept bool, by string) (sluice.BundleImport, error) {
	is, err := k.importing(ctx, namespace, b, accept)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	result, err := is.run(ctx, by)
	for tries := 0; sluice.CodeOf(err) == sluice.Conflict && tries < maxTries; tries++ { // a concurrent sync or change came first
		if err = is.reread(ctx); err == nil {
			result, err = is.run(ctx, by)
		}
	}
	if stopped, ok := errors.AsType[*Stop](err); ok {
		err = sluice.Errorf(sluice.MirrorSuspended, "the mirror is suspended now: %s", stopped.Detail).With("reason", stopped.Reason)
		if failed := k.suspend(ctx, is.mirror, stopped); failed != nil {
			err = failed
		}
	}
	if err != nil {
		is.intent.Fail(ctx, err)
	}
	return result, err
}

// Examine returns the error with which Import would refuse a bundle, from its signed statement
// alone. The content need not have arrived. Codes: those of Import. It is for a bundle that arrives
// in pieces. After nil, Import may still refuse the bundle, because the mirror may change. Examine
// records a fork.
func (k *Keeper) Examine(ctx context.Context, namespace string, s *bundle.Signed, accept bool) error {
	is, err := k.importing(ctx, namespace, unread{s}, accept)
	if err != nil {
		return err
	}
	_, _, err = is.judge(ctx)
	return err
}

// unread is a bundle without its content.
type unread struct{ *bundle.Signed }

// Verify returns an error.
func (unread) Verify(context.Context, bundle.Trust) (*bundle.Content, error) {
	return nil, errors.New("the content of the bundle is not there")
}

func (k *Keeper) importing(ctx context.Context, namespace string, b bundle.Bundle, accept bool) (*importing, error) {
	trust, err := k.TrustedKeys(ctx, namespace)
	if err != nil {
		return nil, err
	}
	m, err := k.follower(ctx, namespace, b.Statement().Header.SourceID)
	return &importing{Keeper: k, mirror: m, bundle: b, trust: trust, accept: accept}, err
}

// reread reads the record of the mirror again.
func (i *importing) reread(ctx context.Context) error {
	m, err := i.get(ctx, i.mirror.ID)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		i.mirror = nil
		return nil
	}
	i.mirror = &m
	return err
}

// follower returns the mirror of a source in a namespace; nil if there is none.
func (k *Keeper) follower(ctx context.Context, namespace, source string) (*Stored, error) {
	all, err := k.deps.Definitions.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	for i := range all {
		if m := &all[i]; m.Settled && !m.Gone && m.Namespace == namespace && k.notebook(&m.Mirror) == source {
			return m, nil
		}
	}
	return nil, nil //nolint:nilnil // none
}

// notebook returns the name of a mirror's source in bundles.
func (k *Keeper) notebook(m *sluice.Mirror) string {
	if m.Remote() {
		return m.Source
	}
	return k.deps.Identity.Notebook(m.Source)
}

// known returns the place of the mirror, and the facts that the decision about a bundle needs.
func (i *importing) known(ctx context.Context) (Place, bundle.Known, error) {
	known := bundle.Known{Trust: i.trust, AcceptGap: i.accept}
	if i.mirror == nil {
		return Place{}, known, nil
	}
	at, err := i.engine.opened(ctx, &i.mirror.Mirror)
	if err != nil {
		return Place{}, known, err
	}
	skipped, err := i.deps.Copies.Skipped(ctx, i.mirror.ID)
	if err != nil {
		return Place{}, known, fmt.Errorf("read gaps: %w", err)
	}
	known.Source, known.Depth = i.notebook(&i.mirror.Mirror), i.mirror.Depth
	known.Incarnation, known.Watermark, known.Imports, known.HeardAt = at.Incarnation, at.Watermark, at.Imports, at.HeardAt
	for _, gap := range skipped {
		known.Gaps = append(known.Gaps, bundle.Gap{From: gap.From, To: gap.To, Cause: bundle.CauseSkipped})
	}
	return at, known, nil
}

// judge returns the place of the mirror, and the decision to apply the bundle; an error refuses it.
func (i *importing) judge(ctx context.Context) (Place, bundle.Decision, error) {
	at, known, err := i.known(ctx)
	if err != nil {
		return at, bundle.Decision{}, err
	}
	signed := i.bundle.Statement()
	d, h := bundle.Judge(known, signed), &signed.Header
	if err := d.Err(); err != nil {
		if d.Outcome == bundle.Fork {
			err = i.noteFork(ctx, at, &d, err)
		}
		return at, d, err
	}
	if i.mirror.State != sluice.Active {
		return at, d, sluice.Errorf(sluice.MirrorSuspended, "the mirror is suspended (%s); resume it first", i.mirror.Reason)
	}
	if now := i.now(); h.ExportedAt.After(now.Add(maxAhead)) {
		return at, d, sluice.Errorf(sluice.Unprocessable, "the bundle was exported at %s, which is in the future; compare the clocks", h.ExportedAt.Format(time.RFC3339))
	}
	return at, d, nil
}

// noteFork stores the statement of a bundle that contradicts an imported one, and returns the
// refusal.
func (i *importing) noteFork(ctx context.Context, at Place, d *bundle.Decision, refused error) error {
	signed := i.bundle.Statement()
	h := &signed.Header
	is := at.forked(sluice.MirrorFork{
		Digest: signed.Digest(), Against: d.Import.Digest, Since: h.Since, Through: h.Through, Entries: h.Entries, KeyID: h.KeyID,
		ExportedAt: h.ExportedAt, At: i.now().UTC(),
	})
	if !is {
		return refused
	}
	_, err := i.deps.Copies.Commit(ctx, i.mirror.ID, Commit{Place: at})
	return cmp.Or(err, refused) // the caller repeats after a conflict
}

// run judges the bundle and applies it. Code Conflict if the mirror was moved meanwhile.
func (i *importing) run(ctx context.Context, by string) (sluice.BundleImport, error) {
	at, d, err := i.judge(ctx)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	h := &i.bundle.Statement().Header
	content, err := i.bundle.Verify(ctx, i.trust)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	rule, err := i.engine.rule(ctx, &i.mirror.Mirror)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	if i.intent == nil {
		i.intent, err = i.deps.Ledger.Intend(ctx, nil, ledger.Change{
			Actor: by, Namespace: i.mirror.Namespace, Resource: i.mirror.ID, Action: sluice.ActionMirrorImport,
			New: importRecord{content.Digest, h.SourceID, h.KeyID, h.Since, h.Through, d.Gaps},
		})
		if err != nil {
			return sluice.BundleImport{}, err
		}
	}
	at, applied, err := i.engine.take(ctx, rule, at, content, d.Import)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	receipt, err := i.receipt(ctx, &at)
	return sluice.BundleImport{Applied: applied, Watermark: at.Watermark, Receipt: receipt}, err
}

// importRecord is the form of an import in the ledger.
type importRecord struct {
	Digest  string       `json:"digest"`
	Source  string       `json:"source"`
	KeyID   string       `json:"kid"`
	Since   uint64       `json:"since"`
	Through uint64       `json:"through"`
	Gaps    []bundle.Gap `json:"gaps,omitempty"`
}

// receipt returns the signed statement of how far bundles were imported; nil if none were.
func (i *importing) receipt(ctx context.Context, at *Place) (json.RawMessage, error) {
	if len(at.Imports) == 0 {
		return nil, nil
	}
	keys, err := i.deps.Identity.BundleKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	last, h := at.Imports[len(at.Imports)-1], &i.bundle.Statement().Header
	return bundle.SignReceipt(bundle.Receipt{
		Importer: i.deps.Identity.Notebook(i.mirror.Namespace), SourceID: h.SourceID, Incarnation: at.Incarnation,
		Scope: h.Scope, Bundle: last.Digest, Through: last.Through, At: i.now(),
	}, keys[0])
}

// take stores the content of a bundle after a place, step by step. The last step also stores the
// record of the bundle, which is empty for a heartbeat. It returns the new place and the number of
// entries.
func (e *Engine) take(ctx context.Context, rule Rule, at Place, c *bundle.Content, record bundle.Import) (Place, int, error) {
	applied := 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for page, err := range ahead(pagesOf(ctx, c, max(at.Watermark, c.Header.Since), at.SourceSeq), cancel) {
		if err != nil {
			return at, applied, fmt.Errorf("read bundle: %w", err)
		}
		rule, err := e.current(ctx, rule.Mirror)
		if err != nil {
			return at, applied, err
		}
		if at, err = e.takePage(ctx, rule, at, page, arrival{&c.Header, record}); err != nil {
			return at, applied, err
		}
		applied += len(page.Items)
	}
	return at, applied, nil
}

// arrival is a bundle that is being applied.
type arrival struct {
	header *bundle.Header
	record bundle.Import
}

// takePage stores a page of a bundle, and with the last page the record of the bundle.
func (e *Engine) takePage(ctx context.Context, rule Rule, at Place, page *sluice.ObservePage, is arrival) (Place, error) {
	held, err := e.hold(ctx, rule.Mirror.ID, at, []*sluice.ObservePage{page})
	if err != nil {
		return at, err
	}
	now := e.opts.Now().UTC()
	commit, err := rule.nextOfBundle(held, page, is.header.Since, now)
	if err != nil {
		return at, err
	}
	if !page.HasMore {
		if is.record.Digest != "" {
			is.record.At = now
		}
		commit.Place.heard(is.record, is.header.ExportedAt)
	}
	return e.keep(ctx, rule.Mirror, commit, now)
}

// current returns the rule for the next step of a bundle. Code Conflict if the mirror was changed.
func (e *Engine) current(ctx context.Context, m *sluice.Mirror) (Rule, error) {
	if e.superseded(m) {
		return Rule{}, sluice.Errorf(sluice.Conflict, "the mirror was changed meanwhile")
	}
	return e.rule(ctx, m)
}

// nextOfBundle is Next for a page of a bundle that starts after the sequence since. If the place is
// before since, the importer has accepted the gap.
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

// ahead returns a sequence that another goroutine reads one element ahead of its consumer. It calls
// stop to end the reading when the consumer stops early. An error is an element, after which the
// source ends. The reading goroutine has ended when the loop over the result ends.
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
			for range elements { // wait for the reader to end: its source is closed next
			}
		}()
		for e := range elements {
			if !yield(e.value, e.err) {
				return
			}
		}
	}
}

// Limits of a step with a page of a bundle, besides groupMessages. Steps are larger than those of a
// sync, because each costs a round trip, and because JetStream keeps the block with the place in
// memory for ten seconds.
const (
	bundleBytes = 16 << 20 // of data
	lostRanges  = 50
)

// pagesOf returns the content of a bundle after a sequence as pages, each of which fits into one
// step. There is at least one page, and the last one reaches the end of the bundle's range. Known
// is the last known sequence of the source. Pages are ascending and without gaps between them, so a
// repeated import skips the stored ones.
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

// cutsOf returns sequences at which pages must end so that none has too many lost ranges.
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
	messages int // messages that the items may need
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

// page returns the collected changes as a page that reaches through, and begins the next page.
func (p *pager) page(through uint64) *sluice.ObservePage {
	h := p.header
	page := &sluice.ObservePage{
		Incarnation: h.Incarnation, FirstSeq: min(h.First, through+1), LastSeq: p.known, ThroughSeq: through, HasMore: true,
		Label: h.Label, Passed: h.Passed, Items: p.items, Lost: h.Lost,
	}
	p.items, p.messages, p.bytes = nil, 0, 0
	return page
}
