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

// MaxResults is the largest number of neighbours of a search.
const MaxResults = 100

// hiddenMore is how many neighbours that the caller may not see a search passes over, for each wanted
// one.
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
}

// Search returns the entries with the most similar embeddings, the most similar first: own ones and
// mirrored ones, as far as they have an embedding of the present model and content (S3-75…80, S3-115).
// Codes InvalidRequest; NotFound for an entry without an embedding; Unavailable.
func (e *Engine) Search(ctx context.Context, namespace string, q SearchRequest, by sluice.Caller) (found Found, err error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return found, err
	}
	if q.Top == 0 {
		q.Top = max(s.config.TopK, 1)
	}
	found.Model = s.config.Model
	if q.Entry != nil {
		if q.Vector, err = s.vectorOf(*q.Entry, by); err != nil {
			return found, err
		}
	}
	near, err := s.nearest(q.Vector, q.Top*(1+hiddenMore), q.Entry, q.Source)
	if err != nil {
		return found, badVector("vector", err)
	}
	found.Neighbours, err = s.show(ctx, near, q.Top, by)
	return found, err
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

// mayKnow reports whether a caller, who may read the namespace, may see an entry.
func (s *space) mayKnow(ref sluice.EntryRef, by sluice.Caller) (bool, error) {
	s.mu.Lock()
	it := s.items[ref]
	s.mu.Unlock()
	switch {
	case it == nil:
		return false, nil
	case ref.Source == sluice.SourceMirrored:
		return true, nil
	}
	d := s.deps.Access.Shows(by, sluice.VerbRead, &it.about, s.opts.Now())
	if d == model.Undecided {
		return false, model.PermissionsUnknown()
	}
	return d == model.Pass, nil
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

// Comparisons returns what an own entry was compared with, the greatest effective friction first, and
// the sum of it. Code NotFound if the caller may not see such an entry.
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
		s.learn(stored[i]) // of another replica, perhaps
	}
	s.mu.Lock()
	review, fingerprint := s.review(s.items[ref]), ""
	if it := s.items[ref]; it != nil {
		fingerprint = it.fingerprint
	}
	s.mu.Unlock()
	all := []sluice.Comparison{}
	for i := range stored {
		if r := &stored[i]; r.State == done {
			all = append(all, sluice.Comparison{
				Against: r.Pair.Against, Comparison: r.Comparison, EffectiveFriction: r.effective(), DiscountFactor: r.Pair.Discount,
				Similarity: r.Pair.Similarity, Superseded: r.Fingerprint != fingerprint, ComparedAt: r.At,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b sluice.Comparison) int {
		switch {
		case a.Superseded != b.Superseded && b.Superseded:
			return -1
		case a.Superseded != b.Superseded:
			return 1
		case a.EffectiveFriction > b.EffectiveFriction:
			return -1
		case a.EffectiveFriction < b.EffectiveFriction:
			return 1
		}
		return 0
	})
	return review, all, nil
}

// review sums up the comparisons of an entry's present content. The caller holds the lock.
func (s *space) review(it *item) sluice.Review {
	if it == nil {
		return sluice.Review{}
	}
	label := s.deps.Access.Label(s.config.Namespace)
	is := sluice.Review{Entry: it.ref.ID, Path: it.about.Path, Label: &label}
	rec := s.records[embeddingID(it.ref)]
	if rec == nil || rec.Fingerprint != it.fingerprint {
		return is
	}
	is.ExpectedComparisons = len(rec.Pairs) // local and mirrored (S3-88)
	for i := range rec.Pairs {
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

// Reviews returns the own entries that were compared, or only those that need a review, by id.
func (e *Engine) Reviews(ctx context.Context, namespace string, needed bool, by sluice.Caller) ([]sluice.Review, error) { //nolint:revive // needed is the caller's filter
	s, err := e.space(ctx, namespace)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	var all []sluice.Review
	for ref, it := range s.items {
		if ref.Source == sluice.SourceLocal && len(it.comparisons) > 0 {
			if is := s.review(it); is.Comparisons > 0 && (is.NeedsReview || !needed) {
				all = append(all, is)
			}
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b sluice.Review) int { return cmp.Compare(a.Entry, b.Entry) })
	kept := []sluice.Review{}
	for i := range all {
		ok, err := s.mayKnow(sluice.EntryRef{Source: sluice.SourceLocal, ID: all[i].Entry}, by)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, all[i])
		}
	}
	return kept, nil
}
