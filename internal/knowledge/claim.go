package knowledge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a claim.
const (
	MaxClaims    = 100 // jobs
	MaxClaimWait = 30 * time.Second
	maxWorker    = 256  // bytes
	maxSkipped   = 1000 // jobs that a claim tries and skips
)

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	Worker string
	Max    int
	Types  []sluice.JobType // nil: all
	Wait   time.Duration    // for the first job
}

// Validate sets the defaults and checks the request. Code InvalidRequest.
func (q *ClaimRequest) Validate() error {
	switch {
	case q.Worker == "" || len(q.Worker) > maxWorker:
		return sluice.Errorf(sluice.InvalidRequest, "worker: use a name of 1 to %d bytes", maxWorker).With("field", "worker")
	case q.Max < 0 || q.Max > MaxClaims:
		return sluice.Errorf(sluice.InvalidRequest, "max %d: use 1 to %d", q.Max, MaxClaims).With("field", "max")
	case q.Wait < 0 || q.Wait > MaxClaimWait:
		return sluice.Errorf(sluice.InvalidRequest, "wait %s: use a duration up to %s", q.Wait, MaxClaimWait).With("field", "wait")
	}
	q.Max = max(q.Max, 1)
	if q.Types == nil {
		q.Types = []sluice.JobType{sluice.JobEmbed, sluice.JobEmbedMirrored, sluice.JobCompare}
	}
	slices.SortFunc(q.Types, func(a, b sluice.JobType) int { return b.Priority() - a.Priority() })
	return nil
}

// errSkip says that a job cannot be claimed by this caller, or at this moment.
var errSkip = errors.New("not this one")

// Claim gives jobs to a worker, those of the highest priority first, in the order of their entries
// (S3-84). The caller must have the right to read the whole namespace. Claim does not touch jobs
// about entries whose own label hides them from the caller (S3-95). Codes InvalidRequest; NotFound;
// Unavailable. If there is no job, Claim waits up to q.Wait, and then returns an empty list. If an
// error occurs after it has claimed some jobs, it returns these without the error, because their
// leases have begun. Each job has a token, and the lease in milliseconds.
func (e *Engine) Claim(ctx context.Context, namespace string, q ClaimRequest, by sluice.Caller) ([]sluice.ClaimedJob, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	over := time.NewTimer(q.Wait)
	defer over.Stop()
	for {
		s, err := e.space(ctx, namespace)
		if err != nil {
			return nil, err
		}
		news := s.news()
		jobs, err := s.claim(ctx, &q, by)
		if err != nil || len(jobs) > 0 || q.Wait == 0 {
			return jobs, err
		}
		if err := s.await(ctx, news, over.C); err != nil {
			return jobs, unlessOver(err)
		}
	}
}

// errOver means that the wait of a claim is over.
var errOver = errors.New("the wait is over")

func unlessOver(err error) error {
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// await waits until a task may be ready.
func (s *space) await(ctx context.Context, news <-chan struct{}, over <-chan time.Time) error {
	s.mu.Lock()
	next := s.queue.next()
	s.mu.Unlock()
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(next.Sub(s.opts.Now()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-news:
	case <-due:
	case <-over:
		return errOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// claim claims ready tasks.
func (s *space) claim(ctx context.Context, q *ClaimRequest, by sluice.Caller) ([]sluice.ClaimedJob, error) {
	jobs := []sluice.ClaimedJob{}
	var aside []*task
	defer func() { s.back(aside) }()
	sees := s.eyes(by)
	for len(jobs) < q.Max && len(aside) < maxSkipped {
		t := s.next(q.Types, sees)
		if t == nil && sees.undecided && len(jobs) == 0 {
			return nil, model.PermissionsUnknown()
		}
		if t == nil {
			break
		}
		job, err := s.claimOne(ctx, t, q.Worker, by)
		if err == nil {
			jobs = append(jobs, job)
			continue
		}
		aside = append(aside, t)
		if !errors.Is(err, errSkip) {
			if len(jobs) > 0 { // these are claimed
				return jobs, nil
			}
			return nil, err
		}
	}
	return jobs, nil
}

// next takes a ready task out of the queue, with labels that are seen. Others stay, so that they
// neither end the claim nor are missing from the claim of another worker.
func (s *space) next(types []sluice.JobType, sees *eyes) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.advance(s.opts.Now())
	for {
		t := s.queue.take(types, sees.labels)
		if t == nil {
			return nil
		}
		if t.state = s.job(t).State; t.state != sluice.JobFailed {
			return t
		}
		if t.pair != nil && s.missing(t.pair.Against) != "" {
			s.queue.park(t)
		}
	}
}

// back returns tasks that could not be claimed to the queue, unless others have taken their place. A
// task that is in a heap was queued again meanwhile. They are tried again a little later, after
// those behind them.
func (s *space) back(all []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) > 0 {
		defer s.wake()
	}
	due := s.opts.Now().Add(firstWait)
	for _, t := range all {
		if s.tasks[t.id] == t && t.in == nil {
			s.queue.set(t, due)
		}
	}
}

// claimOne claims a task. It returns errSkip if the caller may not see the entries of the task,
// they have changed, or another replica was faster.
func (s *space) claimOne(ctx context.Context, t *task, worker string, by sluice.Caller) (job sluice.ClaimedJob, err error) {
	r, ok := s.toClaim(t)
	if ok {
		ok, err = s.maySee(t, by)
	}
	if err != nil || !ok {
		return job, cmp.Or(err, errSkip)
	}
	if job.Item, err = s.shown(ctx, t.entry, r.Seq, r.Fingerprint, by); err != nil {
		return job, err
	}
	if t.pair != nil {
		if job.With, err = s.shown(ctx, t.pair.Against, s.seqOf(t.pair.Against), "", by); err != nil {
			return job, err
		}
	}
	now := s.opts.Now()
	r = r.claim(worker, s.config.Lease.Std(), now)
	if err = s.store(ctx, &r); err != nil {
		return job, err
	}
	s.mu.Lock()
	job.Job = s.job(t)
	s.mu.Unlock()
	job.LeaseTTL = s.config.Lease.Std().Milliseconds()
	job.Token, err = token(s.deps.Keys, &s.config, &r, now)
	return job, err
}

// maySee reports whether a caller may see the entries of a task.
func (s *space) maySee(t *task, by sluice.Caller) (bool, error) {
	ok, err := s.mayKnow(t.entry, by)
	if ok && t.pair != nil {
		ok, err = s.mayKnow(t.pair.Against, by)
	}
	return ok, err
}

// toClaim returns the current record of a task that is about to be claimed.
func (s *space) toClaim(t *task) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[t.entry]
	if it == nil || s.tasks[t.id] != t {
		return Record{}, false
	}
	r := s.view(s.records[t.id], s.modelOf(t), it.fingerprint)
	r.ID, r.Type, r.Entry, r.Pair, r.Embedding, r.Pairs, r.Seq = t.id, t.kind, t.entry, t.pair, nil, nil, 0
	if t.entry.Source == sluice.SourceLocal {
		r.Seq = it.seq
	}
	return r, true
}

func (s *space) seqOf(ref sluice.EntryRef) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[ref]; it != nil {
		return it.seq
	}
	return 0
}

// store stores a record and enters it into the space. If another replica was faster, it enters that
// replica's record and returns errSkip. The lease of a claim begins with this write, which of
// several replicas only one makes.
func (s *space) store(ctx context.Context, r *Record) (err error) {
	r.Revision, err = s.deps.Records.Put(ctx, s.config.Namespace, *r, 0)
	if sluice.CodeOf(err) == sluice.Conflict {
		is, err := s.deps.Records.Get(ctx, s.config.Namespace, r.ID)
		if err != nil {
			return err
		}
		if is.Revision == 0 {
			s.lost(r.ID)
		} else {
			s.learn(is)
		}
		return errSkip
	}
	if err == nil {
		s.learn(*r)
	}
	return err
}

// lost forgets a record that is no longer stored.
func (s *space) lost(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[id]; was != nil {
		s.discard(id)
		s.settle(was.Entry)
	}
}

// shown returns an entry with its content for a caller. It returns errSkip if the entry is gone,
// differs from the given fingerprint, or is hidden from the caller. An empty fingerprint matches
// any content.
func (s *space) shown(ctx context.Context, ref sluice.EntryRef, seq uint64, fingerprint string, by sluice.Caller) (*sluice.MirroredItem, error) {
	item, err := s.content(ctx, ref, seq)
	if err != nil {
		return nil, err
	}
	if is := Fingerprint(&item.Change.Event); fingerprint != "" && is != fingerprint {
		return nil, errSkip
	}
	if ref.Source == sluice.SourceMirrored {
		return item, nil // its label is that of the namespace
	}
	switch s.deps.Access.Shows(by, sluice.VerbRead, &item.Change.Event, s.opts.Now()) {
	case model.Pass:
		return item, nil
	case model.Undecided:
		return nil, model.PermissionsUnknown()
	case model.Withhold, model.Lost:
	}
	return nil, errSkip
}

// content returns an entry as it is stored; seq is the sequence of an entry of the namespace
// itself. It returns errSkip if the entry is gone.
func (s *space) content(ctx context.Context, ref sluice.EntryRef, seq uint64) (*sluice.MirroredItem, error) {
	if ref.Source == sluice.SourceLocal {
		ev, err := s.deps.Log.EventAt(ctx, s.config.Namespace, seq)
		if code := sluice.CodeOf(err); code == sluice.NotFound || code == sluice.WindowExceeded {
			return nil, errSkip
		}
		if err != nil {
			return nil, err
		}
		return &sluice.MirroredItem{Source: sluice.SourceLocal, Change: sluice.ChangeOf(ev)}, nil
	}
	entries, err := s.deps.Mirrors.Entries(ctx, ref.Subscription, []string{ref.ID})
	if err != nil {
		return nil, err
	}
	e, ok := entries[ref.ID]
	if !ok || e.Tombstone {
		return nil, errSkip
	}
	return s.mirroredItem(ref.Subscription, &e), nil
}

// mirroredItem returns a mirrored entry with the label of the namespace, and with the source and
// the weight of its mirror.
func (s *space) mirroredItem(mirror string, e *MirrorEntry) *sluice.MirroredItem {
	label := s.deps.Access.Label(s.config.Namespace)
	item := &sluice.MirroredItem{
		Source: sluice.SourceMirrored, Subscription: mirror, Label: &label, MirroredAt: &e.MirroredAt, Cursor: e.Cursor, Change: e.Change,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mirrors[mirror]; m != nil {
		item.Origin, item.Weight = m.Source, m.Weight
	}
	return item
}
