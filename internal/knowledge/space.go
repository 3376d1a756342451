package knowledge

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// space is a namespace with a configuration, in memory: its entries, records, tasks and vectors. What
// one of them means for the others is settled whenever one changes, so the order in which they become
// known does not matter.
type space struct {
	config Stored
	deps   Deps
	opts   Options

	mu      sync.Mutex
	items   map[sluice.EntryRef]*item
	records map[string]*held
	tasks   map[string]*task
	queue   queue
	order   uint64
	changed chan struct{}   // closed and replaced when a task may be ready
	loading map[string]bool // what has not been read yet
	byAge   []aged          // own entries by sequence
	mirrors map[string]*sluice.Mirror

	local, mirrored *vector.Index[sluice.EntryRef]
}

// item is an entry.
type item struct {
	ref         sluice.EntryRef
	fingerprint string // of its content; "": it has none
	seq         uint64 // in the log, or in the order of its mirror
	order       uint64
	about       sluice.Event // of an own entry: what access decisions need, without its data

	comparisons []string // tasks
}

// aged is an entry at a sequence.
type aged struct {
	seq uint64
	ref sluice.EntryRef
}

// held is a record without its large parts.
type held struct {
	Record

	placed bool // its embedding is in the index
	orphan bool // it had no entry at the last sweep
}

func newSpace(c Stored, deps Deps, opts Options) *space {
	return &space{
		config: c, deps: deps, opts: opts,
		items: map[sluice.EntryRef]*item{}, records: map[string]*held{}, tasks: map[string]*task{}, queue: newQueue(),
		changed: make(chan struct{}), mirrors: map[string]*sluice.Mirror{}, loading: map[string]bool{loadLog: true, loadRecords: true, loadMirrors: true},
		local: vector.New[sluice.EntryRef](c.Dimensions), mirrored: vector.New[sluice.EntryRef](c.Dimensions),
	}
}

// What a space reads before it can answer, besides each mirror.
const (
	loadLog     = "=log"
	loadRecords = "=records"
	loadMirrors = "=mirrors"
)

// loaded notes that something was read.
func (s *space) loaded(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loading, what)
	s.wake()
}

// ready returns an error until everything was read once. Code Unavailable.
func (s *space) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.loading) > 0 {
		return sluice.Errorf(sluice.Unavailable, "the entries of %s are being read; retry", s.config.Namespace)
	}
	return nil
}

// wake tells waiting claims that something has changed. The caller holds the lock.
func (s *space) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// index returns the index of an entry's source.
func (s *space) index(ref sluice.EntryRef) *vector.Index[sluice.EntryRef] {
	if ref.Source == sluice.SourceMirrored {
		return s.mirrored
	}
	return s.local
}

// set enters the present content of an entry.
func (s *space) set(ref sluice.EntryRef, ev *sluice.Event, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[ref]
	if it == nil {
		s.order++
		it = &item{ref: ref, order: s.order}
		s.items[ref] = it
	}
	it.fingerprint, it.seq = Fingerprint(ev), seq
	if ref.Source == sluice.SourceLocal {
		it.about = *ev
		it.about.Data = nil
		s.byAge = append(s.byAge, aged{seq, ref})
	}
	s.settle(ref)
}

// drop removes an entry that has the sequence, or with 0 any.
func (s *space) drop(ref sluice.EntryRef, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(ref, seq)
}

func (s *space) dropLocked(ref sluice.EntryRef, seq uint64) {
	it := s.items[ref]
	if it == nil || seq != 0 && it.seq != seq {
		return
	}
	for _, id := range it.comparisons {
		s.end(id)
	}
	delete(s.items, ref)
	s.settle(ref)
}

// expire drops the own entries before the first sequence of the log.
func (s *space) expire(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.byAge) > 0 && s.byAge[0].seq < first {
		s.dropLocked(s.byAge[0].ref, s.byAge[0].seq)
		s.byAge = s.byAge[1:]
	}
}

// retain drops the entries of a source that are not among those.
func (s *space) retain(source, mirror string, keep map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.items {
		if ref.Source == source && ref.Subscription == mirror && !keep[ref.ID] {
			s.dropLocked(ref, 0)
		}
	}
}

// learn enters a record, unless a later one is known.
func (s *space) learn(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[r.ID]; was != nil && was.Revision >= r.Revision {
		return
	}
	s.enter(r)
}

// replace enters a record in place of any other revision.
func (s *space) replace(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[r.ID]; was == nil || was.Revision != r.Revision {
		s.enter(r)
	}
}

// lose forgets the records that are not among those.
func (s *space) lose(keep map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, rec := range s.records {
		if !keep[id] {
			delete(s.records, id)
			s.settle(rec.Entry)
		}
	}
}

// enter sets a record. The caller holds the lock.
func (s *space) enter(r Record) {
	r.Comparison = nil
	s.records[r.ID] = &held{Record: r}
	s.settle(r.Entry)
}

// settle decides what follows for an entry from what is known of it. The caller holds the lock.
func (s *space) settle(ref sluice.EntryRef) {
	it, id := s.items[ref], embeddingID(ref)
	rec := s.records[id]
	embedded := it != nil && it.fingerprint != "" && rec != nil && rec.Model == s.config.Model && rec.Fingerprint == it.fingerprint && rec.State == done && s.place(rec)
	if embedded {
		s.end(id)
	} else {
		s.index(ref).Delete(ref)
		if rec != nil {
			rec.placed = false
		}
		s.needEmbedding(ref, it, id, rec)
	}
	if it != nil && ref.Source == sluice.SourceLocal {
		if !embedded {
			rec = nil
		}
		s.settlePairs(it, rec)
	}
}

// place enters a record's embedding into the index, and reports whether it is there.
func (s *space) place(rec *held) bool {
	if rec.placed {
		return true
	}
	if rec.Embedding == nil || s.index(rec.Entry).Put(rec.Entry, decodeVector(rec.Embedding)) != nil {
		return false
	}
	rec.placed, rec.Embedding = true, nil // the index has it
	return true
}

// needEmbedding has an entry with content embedded. The caller holds the lock.
func (s *space) needEmbedding(ref sluice.EntryRef, it *item, id string, rec *held) {
	kind := embeddingType(ref)
	switch {
	case it != nil && it.fingerprint != "":
		s.task(&task{id: id, kind: kind, entry: ref, order: it.order}, s.view(rec, s.config.Model, it.fingerprint))
	case rec != nil && rec.State == sluice.JobFailed: // its mirror was deleted (S3-111)
		s.task(&task{id: id, kind: kind, entry: ref}, rec.Record)
	default:
		s.end(id)
	}
}

// settlePairs has an own entry compared with its neighbours: those of the record of its present
// embedding, nil if it has none. The caller holds the lock.
func (s *space) settlePairs(it *item, rec *held) {
	var ids []string
	if rec != nil {
		for i := range rec.Pairs {
			pair := &rec.Pairs[i]
			id := comparisonID(it.ref, it.fingerprint, pair.Against)
			ids = append(ids, id)
			if was := s.records[id]; was != nil && was.State == done {
				s.end(id)
				continue
			}
			s.task(&task{id: id, kind: sluice.JobCompare, entry: it.ref, pair: pair, order: it.order}, s.view(s.records[id], "", it.fingerprint))
		}
	}
	for _, id := range it.comparisons {
		if !slices.Contains(ids, id) {
			s.end(id)
		}
	}
	it.comparisons = ids
}

// view returns the record of a job for a model and a content, as of now.
func (s *space) view(rec *held, of, fingerprint string) Record {
	if rec == nil {
		return Record{Model: of, Fingerprint: fingerprint, State: sluice.JobPending}
	}
	return rec.renewedFor(of, fingerprint).asOf(s.opts.Now(), s.config.MaxAttempts)
}

// task enters a task with the state that its record has. The caller holds the lock.
func (s *space) task(t *task, r Record) {
	if was := s.tasks[t.id]; was != nil {
		s.queue.drop(was)
	}
	s.tasks[t.id] = t
	t.state = r.State
	switch {
	case r.State == sluice.JobFailed:
		return
	case r.State == sluice.JobClaimed:
		s.queue.set(t, r.Until)
	case r.NotBefore.After(s.opts.Now()):
		s.queue.set(t, r.NotBefore)
	default:
		t.state = sluice.JobPending // a result that was lost
		s.queue.set(t, time.Time{})
	}
	s.wake()
}

// end removes a task. The caller holds the lock.
func (s *space) end(id string) {
	if t := s.tasks[id]; t != nil {
		s.queue.drop(t)
		delete(s.tasks, id)
	}
}

// modelOf returns the embedding model that a task is for; a comparison is for none.
func (s *space) modelOf(t *task) string {
	if t.pair != nil {
		return ""
	}
	return s.config.Model
}

// Errors of jobs whose neighbour is gone.
const (
	mirrorDeleted = "subscription deleted" // S3-111
	entryDeleted  = "the neighbour was deleted"
)

// job returns a task as a job. The caller holds the lock.
func (s *space) job(t *task) sluice.Job {
	rec := s.records[t.id]
	fingerprint := ""
	if it := s.items[t.entry]; it != nil {
		fingerprint = it.fingerprint
	}
	r := s.view(rec, s.modelOf(t), fingerprint)
	if rec != nil && s.items[t.entry] == nil {
		r = rec.Record
	}
	j := sluice.Job{
		ID: t.id, Namespace: s.config.Namespace, Type: t.kind, Priority: t.kind.Priority(), State: r.State, Model: s.config.Model, Entry: t.entry,
		Attempts: r.Attempts, Error: r.Error, Worker: r.Worker, Generation: r.Generation, NotBefore: when(r.NotBefore), LeaseUntil: when(r.Until),
	}
	if r.State == done {
		j.State = sluice.JobPending
	}
	if t.pair != nil {
		j.Against, j.CrossBoundary, j.DiscountFactor = &t.pair.Against, t.pair.crosses(), t.pair.Discount
		if why := s.missing(t.pair.Against); why != "" {
			j.State, j.Error, j.NotBefore, j.LeaseUntil = sluice.JobFailed, why, nil, nil
		}
	}
	return j
}

// missing returns why a neighbour is not there; "" if it is. The caller holds the lock.
func (s *space) missing(ref sluice.EntryRef) string {
	switch it := s.items[ref]; {
	case it != nil && it.fingerprint != "":
		return ""
	case ref.Source == sluice.SourceMirrored && s.mirrors[ref.Subscription] == nil:
		return mirrorDeleted
	}
	return entryDeleted
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// jobs returns the wanted jobs about entries that a caller may see, in the order of their priorities and
// ids.
func (s *space) jobs(by sluice.Caller, wanted func(*task) bool) ([]sluice.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sees := s.eyes(by)
	all := []sluice.Job{}
	for _, t := range s.tasks {
		if wanted(t) && sees.entry(s.items[t.entry]) && (t.pair == nil || sees.pair(t.pair)) {
			all = append(all, s.job(t))
		}
	}
	if sees.undecided {
		return nil, model.PermissionsUnknown()
	}
	slices.SortFunc(all, func(a, b sluice.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
