package knowledge

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tries limits the attempts to store a report while others change the record.
const tries = 5

// Claim is a worker's claim of a job, with the token that proves it.
type Claim struct{ Namespace, Job, Token string }

// report applies a worker's report to the record of its claim. Codes TokenInvalid; TokenExpired;
// Fenced; NotFound; Unavailable; those of apply. apply may be called several times, each time with
// the stored record. The token proves the claim; report checks no other right.
func (e *Engine) report(ctx context.Context, c Claim, apply func(s *space, r *Record) error) (sluice.Job, error) {
	s, err := e.space(ctx, c.Namespace)
	if err != nil {
		return sluice.Job{}, err
	}
	b, err := readToken(e.deps.Keys, c.Token, &s.config, c.Job, e.opts.Now())
	if errors.Is(err, callbacktoken.ErrForged) {
		err = sluice.Errorf(sluice.TokenInvalid, "the token was not issued for this job")
	}
	if err != nil {
		return sluice.Job{}, err
	}
	for range tries {
		r, err := s.deps.Records.Get(ctx, c.Namespace, c.Job)
		if err != nil {
			return sluice.Job{}, err
		}
		if err := r.fence(b, e.opts.Now()); err != nil {
			return sluice.Job{}, err
		}
		if err := apply(s, &r); err != nil {
			return sluice.Job{}, err
		}
		r.Revision, err = s.deps.Records.Put(ctx, c.Namespace, r, 0)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err == nil {
			s.learn(r)
		}
		return s.reported(&r), err
	}
	return sluice.Job{}, sluice.Errorf(sluice.Unavailable, "the job is being changed concurrently; retry")
}

// Renew extends the lease of a claimed job. Codes: those of report. The lease begins anew. The
// token stays the same, and expires tokenLife after the claim.
func (e *Engine) Renew(ctx context.Context, c Claim) (sluice.Job, error) {
	return e.report(ctx, c, func(s *space, r *Record) error {
		*r = r.renewed(s.config.Lease.Std(), s.opts.Now())
		return nil
	})
}

// Fail reports that a worker could not do a job. The job is tried again later, unless the failure
// is final or it was tried too often. Codes: those of report.
func (e *Engine) Fail(ctx context.Context, c Claim, f Failure) (sluice.Job, error) {
	return e.report(ctx, c, func(s *space, r *Record) error {
		f.Error = cmp.Or(f.Error, "the worker gave no reason")
		*r = r.failed(f, s.config.MaxAttempts, s.opts.Jitter(), s.opts.Now())
		return nil
	})
}

// Complete stores the result of a job. With the embedding of an own entry it also stores the
// neighbours that the entry will be compared with (S3-86). Codes: those of report; InvalidRequest
// for a result of the wrong kind, or a vector with the wrong dimensions. A repetition after success
// gives Fenced, because the claim has ended.
func (e *Engine) Complete(ctx context.Context, c Claim, result sluice.JobResult) error {
	_, err := e.report(ctx, c, func(s *space, r *Record) error {
		if err := e.accept(ctx, s, r, &result); err != nil {
			return err
		}
		item, err := s.content(ctx, r.Entry, r.Seq)
		if errors.Is(err, errSkip) || err == nil && Fingerprint(&item.Change.Event) != r.Fingerprint {
			return sluice.Errorf(sluice.Fenced, "the entry was deleted or has another content since")
		}
		if err != nil {
			return err
		}
		*r = r.completed(s.opts.Now())
		return nil
	})
	return err
}

// accept enters a result into a record.
func (e *Engine) accept(ctx context.Context, s *space, r *Record, result *sluice.JobResult) error {
	if r.Type == sluice.JobCompare {
		if result.Embedding != nil {
			return sluice.Errorf(sluice.InvalidRequest, "embedding: this job is a comparison").With("field", "embedding")
		}
		friction, err := sluice.CheckFriction(result.Comparison)
		r.Comparison, r.Friction = result.Comparison, friction
		return err
	}
	if result.Comparison != nil {
		return sluice.Errorf(sluice.InvalidRequest, "comparison: this job is an embedding").With("field", "comparison")
	}
	if r.Model != s.config.Model {
		return sluice.Errorf(sluice.Fenced, "the embedding model is %s now", s.config.Model)
	}
	if _, err := vector.Normal(result.Embedding, s.config.Dimensions); err != nil {
		return badVector("embedding", err)
	}
	r.Embedding = encodeVector(result.Embedding)
	if r.Type == sluice.JobEmbed { // a mirrored entry starts no comparisons (S3-85)
		leave, err := e.turn(ctx, s)
		if err != nil {
			return err
		}
		defer leave()
		near, err := s.nearest(result.Embedding, s.config.TopK, &r.Entry, "")
		if err != nil {
			return err
		}
		r.Pairs = s.pairs(near)
	}
	return nil
}

func badVector(field string, err error) error {
	return sluice.Errorf(sluice.InvalidRequest, "%s: %s", field, err).With("field", field)
}

// nearest returns the most similar entries of a source, or of both sources for "". It leaves out
// the entry without.
func (s *space) nearest(v []float32, top int, without *sluice.EntryRef, source string) (near []vector.Neighbour[sluice.EntryRef], err error) {
	if top == 0 {
		return nil, nil
	}
	for of, index := range map[string]*vector.Index[sluice.EntryRef]{sluice.SourceLocal: s.local, sluice.SourceMirrored: s.mirrored} {
		if source != "" && source != of {
			continue
		}
		found, err := index.Nearest(v, top+1)
		if err != nil {
			return nil, err
		}
		near = append(near, found...)
	}
	near = slices.DeleteFunc(near, func(n vector.Neighbour[sluice.EntryRef]) bool { return without != nil && n.Key == *without })
	slices.SortFunc(near, func(a, b vector.Neighbour[sluice.EntryRef]) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return near[:min(top, len(near))], nil
}

// pairs returns neighbours with the discount of each: the weight of its mirror (S3-87).
func (s *space) pairs(near []vector.Neighbour[sluice.EntryRef]) []Pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	pairs := make([]Pair, len(near))
	for i, n := range near {
		pairs[i] = Pair{Against: n.Key, Similarity: n.Similarity, Discount: 1}
		if m := s.mirrors[n.Key.Subscription]; pairs[i].crosses() && m != nil {
			pairs[i].Discount = m.Weight
		}
		if it := s.items[n.Key]; it != nil {
			pairs[i].Label = it.label
		}
	}
	return pairs
}

// reported returns the job of a record that a worker reported on, even if the entry has no room
// here.
func (s *space) reported(r *Record) sluice.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[r.ID]; t != nil {
		return s.job(t)
	}
	j := sluice.Job{
		ID: r.ID, Namespace: s.config.Namespace, Type: r.Type, Priority: r.Type.Priority(), State: r.State, Model: s.config.Model, Entry: r.Entry,
		Attempts: r.Attempts, Error: r.Error, Worker: r.Worker, Generation: r.Generation, NotBefore: when(r.NotBefore), LeaseUntil: when(r.Until),
	}
	if r.Pair != nil {
		j.Against, j.CrossBoundary, j.DiscountFactor = &r.Pair.Against, r.Pair.crosses(), r.Pair.Discount
	}
	return j
}

// find returns a job. Code NotFound.
func (s *space) find(id string) (sluice.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil {
		return s.job(t), nil
	}
	return sluice.Job{}, sluice.Errorf(sluice.NotFound, "job not found: it was done, or its entry is gone")
}

// Job returns a job about entries that the caller may see. Code NotFound. A job about an entry that
// the caller may not see is NotFound, too. Code Unavailable while permissions are unknown.
func (e *Engine) Job(ctx context.Context, namespace, id string, by sluice.Caller) (sluice.Job, error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return sluice.Job{}, err
	}
	all, err := s.jobs(by, func(t *task) bool { return t.id == id })
	if err != nil {
		return sluice.Job{}, err
	}
	if len(all) == 0 {
		return s.find("")
	}
	return all[0], nil
}

// Jobs returns the jobs of a state and a type about entries that the caller may see, ordered by
// priority and id. An empty state or type matches all. The cost is O(jobs of the namespace). It
// takes one of the places for searches, and waits for one until ctx ends. Without an error the
// result is not nil.
func (e *Engine) Jobs(ctx context.Context, namespace string, q JobsRequest, by sluice.Caller) ([]sluice.Job, error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return nil, err
	}
	leave, err := e.turn(ctx, s)
	if err != nil {
		return nil, err
	}
	defer leave()
	all, err := s.jobs(by, func(t *task) bool { return q.Type == "" || t.kind == q.Type })
	return slices.DeleteFunc(all, func(j sluice.Job) bool { return q.State != "" && j.State != q.State }), err
}

// JobsRequest selects jobs; zero values select all.
type JobsRequest struct {
	State sluice.JobState
	Type  sluice.JobType
}

// Retry makes a failed job available to workers again. Codes NotFound; Conflict if it has not
// failed, or its neighbour is gone. Retry checks neither rights nor labels; the handler requires
// the rights of an admin of the namespace. The count of attempts begins anew.
func (e *Engine) Retry(ctx context.Context, namespace, id string) (sluice.Job, error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return sluice.Job{}, err
	}
	j, err := s.find(id)
	switch {
	case err != nil:
		return j, err
	case j.State != sluice.JobFailed:
		return j, sluice.Errorf(sluice.Conflict, "the job is %s; only a failed one is tried again", j.State)
	case s.lacks(&j) != "":
		return j, sluice.Errorf(sluice.Conflict, "%s", s.lacks(&j))
	}
	r, err := s.deps.Records.Get(ctx, namespace, id)
	if err != nil {
		return j, err
	}
	r = r.again(e.opts.Now())
	if err := s.store(ctx, &r); err != nil && !errors.Is(err, errSkip) {
		return j, err
	}
	return s.find(id)
}

// lacks returns why a failed job cannot be done now; "" if it can be tried again.
func (s *space) lacks(j *sluice.Job) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.Against != nil:
		return s.missing(*j.Against)
	case j.Entry.Source == sluice.SourceMirrored && s.mirrors[j.Entry.Subscription] == nil:
		return mirrorDeleted
	}
	return ""
}
