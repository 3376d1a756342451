package knowledge

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// MaxResults is the maximum number of neighbours that a search returns.
const MaxResults = 100

// hiddenMore is how many neighbours hidden from the caller a search may skip for each wanted one.
const hiddenMore = 4

// SearchRequest asks for the neighbours of a vector, or of an entry.
type SearchRequest struct {
	Vector []float32
	Entry  *sluice.EntryRef
	Top    int    // default: the enrichment's TopK
	Source string // "": own and mirrored entries
}

// Found is the result of a search.
type Found struct {
	Model      string
	Neighbours []sluice.Neighbour
	Status     sluice.EnrichmentStatus // shows whether all entries were searched
}

// Search returns the entries with the most similar embeddings, the most similar first. It considers
// own and mirrored entries with an embedding of the current model and content (S3-75…80, S3-115).
// Codes InvalidRequest; NotFound for an entry without an embedding; Unavailable. Exactly one of
// Vector and Entry must be set. The result has fewer than Top neighbours if there are no more, or
// if more than hiddenMore neighbours for each wanted one are hidden from the caller. Search waits
// for a place until ctx ends. In a large namespace the result is approximate (package vector).
func (e *Engine) Search(ctx context.Context, namespace string, q SearchRequest, by sluice.Caller) (found Found, err error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return found, err
	}
	if q.Top == 0 {
		q.Top = cmp.Or(s.config.TopK, sluice.DefaultTopK)
	}
	found.Model = s.config.Model
	if q.Entry != nil {
		if q.Vector, err = s.vectorOf(*q.Entry, by); err != nil {
			return found, err
		}
	}
	leave, err := e.turn(ctx, s)
	if err != nil {
		return found, err
	}
	found.Status = s.state()
	near, err := s.nearest(q.Vector, q.Top*(1+hiddenMore), q.Entry, q.Source)
	leave()
	if err != nil {
		return found, badVector("vector", err)
	}
	found.Neighbours, err = s.show(ctx, near, q.Top, by)
	return found, err
}

// turn waits until a search or a list may begin, because each needs memory for every entry. Those
// of one namespace take at most half of the places. The caller must call leave at the end.
func (e *Engine) turn(ctx context.Context, s *space) (leave func(), err error) {
	for i, places := range []chan struct{}{s.scans, e.scans} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-s.scans
			}
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		<-e.scans
		<-s.scans
	}, nil
}

// vectorOf returns the embedding of an entry that the caller may see. Code NotFound.
func (s *space) vectorOf(ref sluice.EntryRef, by sluice.Caller) ([]float32, error) {
	ok, err := s.mayKnow(ref, by)
	if err != nil {
		return nil, err
	}
	if v := s.index(ref).Vector(ref); v != nil && ok {
		return v, nil
	}
	return nil, sluice.Errorf(sluice.NotFound, "no entry with this id has an embedding")
}

// mayKnow reports whether a caller that may read the namespace may see an entry.
func (s *space) mayKnow(ref sluice.EntryRef, by sluice.Caller) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, sees := s.items[ref], s.eyes(by)
	ok := it != nil && sees.entry(it)
	if sees.undecided {
		return false, model.PermissionsUnknown()
	}
	return ok, nil
}

// eyes decides which entries a caller sees that may read the whole namespace with its label.
type eyes struct {
	space     *space
	by        sluice.Caller
	undecided bool // for some entry
	cleared   map[string]bool
}

func (s *space) eyes(by sluice.Caller) *eyes {
	return &eyes{space: s, by: by, cleared: map[string]bool{}}
}

// entry reports whether the caller sees an entry. An entry that is gone counts as seen.
func (e *eyes) entry(it *item) bool {
	return it == nil || it.ref.Source == sluice.SourceMirrored || e.shows(it.about(e.space.config.Namespace))
}

// pair reports whether the caller sees the neighbour of a pair, from the label in the pair: the
// neighbour may be gone by now.
func (e *eyes) pair(p *Pair) bool {
	return p.crosses() || e.label(p.Label)
}

// labels reports whether the caller sees tasks with labels.
func (e *eyes) labels(of labels) bool { return e.label(of.entry) && e.label(of.against) }

// label reports whether the caller sees entries with a label of their own; "": with none.
func (e *eyes) label(label string) bool {
	if label == "" {
		return true
	}
	ok, known := e.cleared[label]
	if !known {
		ok = e.shows(&sluice.Event{
			Namespace: e.space.config.Namespace, Path: "/any", Extensions: map[string]string{sluice.AttributeClassification: label},
		})
		e.cleared[label] = ok
	}
	return ok
}

func (e *eyes) shows(ev *sluice.Event) bool {
	d := e.space.deps.Access.Shows(e.by, sluice.VerbRead, ev, e.space.opts.Now())
	e.undecided = e.undecided || d == model.Undecided
	return d == model.Pass
}

// show returns neighbours with their content, at most top that the caller may see.
func (s *space) show(ctx context.Context, near []vector.Neighbour[sluice.EntryRef], top int, by sluice.Caller) ([]sluice.Neighbour, error) {
	all := []sluice.Neighbour{}
	for _, n := range near {
		if len(all) == top {
			break
		}
		ok, err := s.mayKnow(n.Key, by)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		item, err := s.shown(ctx, n.Key, s.seqOf(n.Key), "", by)
		if errors.Is(err, errSkip) { // it was deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, sluice.Neighbour{Similarity: n.Similarity, Item: *item})
	}
	return all, nil
}

// Comparisons returns the comparisons of an own entry, the greatest effective friction first, and
// their summary. Code NotFound if the caller may not see such an entry.
func (e *Engine) Comparisons(ctx context.Context, namespace, entry string, by sluice.Caller) (sluice.Review, []sluice.Comparison, error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return sluice.Review{}, nil, err
	}
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: entry}
	ok, err := s.mayKnow(ref, by)
	if err == nil && !ok {
		err = sluice.Errorf(sluice.NotFound, "no entry with this id")
	}
	if err != nil {
		return sluice.Review{}, nil, err
	}
	stored, err := s.deps.Records.Comparisons(ctx, namespace, entry)
	if err != nil {
		return sluice.Review{}, nil, err
	}
	for i := range stored {
		s.learn(stored[i]) // perhaps from another replica
	}
	return s.compared(ref, stored, by)
}

// compared returns the comparisons of an own entry that a caller may see, and their summary.
func (s *space) compared(ref sluice.EntryRef, stored []Record, by sluice.Caller) (sluice.Review, []sluice.Comparison, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, sees := s.items[ref], s.eyes(by)
	review, all := s.review(it, sees), []sluice.Comparison{}
	for i := range stored {
		if r := &stored[i]; r.State == done && sees.pair(r.Pair) {
			all = append(all, sluice.Comparison{
				Against: r.Pair.Against, Comparison: r.Comparison, EffectiveFriction: r.effective(), DiscountFactor: r.Pair.Discount,
				Similarity: r.Pair.Similarity, Superseded: it == nil || r.Fingerprint != it.fingerprint, ComparedAt: r.At,
			})
		}
	}
	if sees.undecided {
		return review, nil, model.PermissionsUnknown()
	}
	slices.SortStableFunc(all, func(a, b sluice.Comparison) int {
		if a.Superseded != b.Superseded {
			if b.Superseded {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.EffectiveFriction, a.EffectiveFriction)
	})
	return review, all, nil
}

// review sums up the comparisons of an entry's current content with neighbours that sees permits.
// The lock must be held.
func (s *space) review(it *item, sees *eyes) sluice.Review {
	if it == nil {
		return sluice.Review{}
	}
	label := s.deps.Access.Label(s.config.Namespace)
	is := sluice.Review{Entry: it.ref.ID, Path: sluice.Path(it.path), Label: &label}
	rec := s.records[embeddingID(it.ref)]
	if rec == nil || rec.Fingerprint != it.fingerprint {
		return is
	}
	for i := range rec.Pairs {
		if !sees.pair(&rec.Pairs[i]) {
			continue
		}
		is.ExpectedComparisons++ // local and mirrored (S3-88)
		r := s.records[comparisonID(it.ref, it.fingerprint, rec.Pairs[i].Against)]
		if r == nil || r.State != done {
			continue
		}
		is.Comparisons++
		if f := r.effective(); is.MaxFriction == nil || f > *is.MaxFriction {
			is.MaxFriction = &f
		}
		if r.At.After(is.At) {
			is.At = r.At
		}
	}
	is.NeedsReview = is.MaxFriction != nil && *is.MaxFriction > s.config.ReviewAbove // S3-93
	return is
}

// Reviews returns the own entries that were compared, or only those that need a review, ordered by
// id.
func (e *Engine) Reviews(ctx context.Context, namespace string, needed bool, by sluice.Caller) ([]sluice.Review, error) { //nolint:revive // needed is the caller's filter
	s, err := e.space(ctx, namespace)
	if err != nil {
		return nil, err
	}
	leave, err := e.turn(ctx, s)
	if err != nil {
		return nil, err
	}
	defer leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	sees, all := s.eyes(by), []sluice.Review{}
	for ref, it := range s.items {
		if ref.Source != sluice.SourceLocal || len(it.comparisons) == 0 || !sees.entry(it) {
			continue
		}
		if is := s.review(it, sees); is.Comparisons > 0 && (is.NeedsReview || !needed) {
			all = append(all, is)
		}
	}
	if sees.undecided {
		return nil, model.PermissionsUnknown()
	}
	slices.SortFunc(all, func(a, b sluice.Review) int { return cmp.Compare(a.Entry, b.Entry) })
	return all, nil
}
