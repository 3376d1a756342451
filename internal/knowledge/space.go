package knowledge

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// space is a namespace with a configuration, in memory: its entries, records, tasks and vectors. What
// one of them means for the others is settled whenever one changes, so the order in which they become
// known does not matter.
type space struct {
	config Stored
	deps   Deps
	opts   Options

	mu          sync.Mutex
	items       map[sluice.EntryRef]*item
	records     map[string]*held
	tasks       map[string]*task
	queue       queue
	order       uint64
	changed     chan struct{}   // closed and replaced when a task may be ready
	loading     map[string]bool // what has not been read yet
	whole       bool            // everything was read once
	reading     uint64          // number of readings that began, of sources and of records
	incarnation string          // of the log that was read; of its follower
	byAge       []aged          // own entries by sequence
	mirrors     map[string]*sluice.Mirror
	wanted      map[sluice.EntryRef]bool // entries with a result that is stored and not here

	scans   chan struct{} // searches and lists at once
	account *account
	seed    maphash.Seed
	missed  map[string]*missed // by source: "" is the log
	notes   int                // in all of missed
	first   uint64             // sequence of the log
	reread  bool               // records may be stored that are not known
	told    bool               // that entries have no room

	local, mirrored *vector.Index[sluice.EntryRef]
}

// item is an entry.
type item struct {
	ref                  sluice.EntryRef
	fingerprint          string // of its content; "": it has none
	seq                  uint64 // in the log, or in the order of its mirror
	order                uint64
	path, subject, label string // of an own entry: access decisions need them
	reading              uint64 // the last one that found it
	bytes                int64  // of the account

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

	placed  bool   // its embedding is in the index
	unfit   bool   // its embedding is none for the index
	orphan  int    // sweeps in a row without its entry
	gone    bool   // its entry was here, and is deleted
	loose   bool   // it has no entry, and is in the account by itself
	reading uint64 // the last one that found it
}

func newSpace(c Stored, deps Deps, opts Options, memory *budget) *space {
	return &space{
		config: c, deps: deps, opts: opts, account: &account{of: memory}, scans: make(chan struct{}, max(1, opts.Scans/2)), seed: maphash.MakeSeed(), missed: map[string]*missed{}, wanted: map[sluice.EntryRef]bool{},
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
	s.whole = s.whole || len(s.loading) == 0
	s.wake()
}

// ready returns an error until everything was read once. Code Unavailable.
func (s *space) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole {
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

// settle decides what follows for an entry from what is known of it. The caller holds the lock.
func (s *space) settle(ref sluice.EntryRef) {
	it, id := s.items[ref], embeddingID(ref)
	rec := s.records[id]
	where := nowhere
	if it != nil && it.fingerprint != "" && rec != nil && rec.Model == s.config.Model && rec.Fingerprint == it.fingerprint && rec.State == done {
		where = s.place(rec)
	}
	if where == nowhere {
		s.index(ref).Delete(ref)
		if rec != nil {
			rec.placed = false
		}
		s.needEmbedding(ref, it, id, rec)
	} else {
		s.end(id)
	}
	if it != nil && ref.Source == sluice.SourceLocal {
		if where == nowhere {
			rec = nil
		}
		s.settlePairs(it, rec)
	}
}

// placement is where the embedding of a record is.
type placement int

const (
	nowhere placement = iota // in no form that the index accepts
	stored                   // only in the store, from where it comes
	placed                   // in the index
)

// place enters a record's embedding into the index.
func (s *space) place(rec *held) placement {
	switch {
	case rec.placed:
		return placed
	case rec.unfit:
		return nowhere
	case rec.Embedding == nil:
		s.index(rec.Entry).Delete(rec.Entry)
		s.wanted[rec.Entry] = true
		s.wake()
		return stored
	}
	rec.placed = s.index(rec.Entry).Put(rec.Entry, decodeVector(rec.Embedding)) == nil
	rec.Embedding, rec.unfit = nil, !rec.placed // the index has it
	if rec.unfit {
		return nowhere
	}
	return placed
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
			s.settlePair(it, pair, id)
		}
	}
	for _, id := range it.comparisons {
		if !slices.Contains(ids, id) {
			s.end(id)
			delete(s.records, id) // superseded: the store has it
		}
	}
	it.comparisons = ids
}

// settlePair has an own entry compared with a neighbour. The caller holds the lock.
func (s *space) settlePair(it *item, pair *Pair, id string) {
	was := s.records[id]
	if was != nil && was.State == done {
		s.end(id)
		return
	}
	s.task(&task{id: id, kind: sluice.JobCompare, entry: it.ref, pair: pair, order: it.order}, s.view(was, "", it.fingerprint))
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
