package knowledge

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// space is a namespace with a configuration, in memory: its entries, records, tasks and vectors.
// Whenever one of them changes, settle updates the others, so they may become known in any order.
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
	changed     chan struct{} // closed and replaced when a task may be ready
	readings    readings
	incarnation string // of the log that was read; used only by followLog
	passed      uint64 // sequence up to which that log was read, once it was read to its end; used only by followLog
	byAge       []aged // own entries by sequence
	mirrors     map[string]*sluice.Mirror
	wanted      map[sluice.EntryRef]bool // entries with a stored result that is not in memory

	scans   chan struct{} // limits concurrent searches and lists
	account *account
	omitted omissions
	spare   bool // there may be records that leave their room to entries
	doubts  doubts

	local, mirrored *vector.Index[sluice.EntryRef]
}

// item is an entry.
type item struct {
	ref                  sluice.EntryRef
	fingerprint          string // of its content; "": no content
	seq                  uint64 // in the log, or in the order of its mirror
	order                uint64
	path, subject, label string // of an own entry, for access decisions
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
	unfit   bool   // the index does not accept its embedding
	orphan  int    // consecutive sweeps without its entry
	gone    bool   // its entry was deleted
	loose   bool   // it has no entry, and is charged to the account by itself
	reading uint64 // the last one that found it
}

func newSpace(c Stored, deps Deps, opts Options, memory *budget) *space {
	mine := &account{of: memory}
	s := &space{
		config: c, deps: deps, opts: opts, account: mine, omitted: newOmissions(mine), scans: make(chan struct{}, max(1, opts.Scans/2)), wanted: map[sluice.EntryRef]bool{}, doubts: newDoubts(),
		items: map[sluice.EntryRef]*item{}, records: map[string]*held{}, tasks: map[string]*task{},
		changed: make(chan struct{}), mirrors: map[string]*sluice.Mirror{}, readings: newReadings(),
		local: vector.New[sluice.EntryRef](c.Dimensions), mirrored: vector.New[sluice.EntryRef](c.Dimensions),
	}
	s.queue = newQueue(s.labels)
	return s
}

// labels returns the labels of the entries of a task; that of a missing neighbour is the one that it
// had. The caller holds the lock.
func (s *space) labels(t *task) (of labels) {
	if it := s.items[t.entry]; it != nil {
		of.entry = canonical(it.label)
	}
	if t.pair != nil {
		against := t.pair.Label
		if it := s.items[t.pair.Against]; it != nil {
			against = it.label
		}
		of.against = canonical(against)
	}
	return of
}

// loaded notes that a source was read.
func (s *space) loaded(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings.done(what)
	s.wake()
}

// ready returns an error (Unavailable) until all sources were read once.
func (s *space) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readings.whole {
		return sluice.Errorf(sluice.Unavailable, "the entries of %s are being read; retry", s.config.Namespace)
	}
	return nil
}

// wake wakes waiting claims after a change. The caller holds the lock.
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

// settle updates the tasks and the index for an entry from its content and its records. The caller
// holds the lock.
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
	if s.missing(ref) == "" && s.queue.unpark(ref) {
		s.wake()
	}
}

// placement is where the embedding of a record is.
type placement int

const (
	nowhere placement = iota // not in a form that the index accepts
	stored                   // only in the store, from which it will be read
	placed                   // in the index
)

// place puts a record's embedding into the index.
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

// needEmbedding creates the task to embed an entry with content. The caller holds the lock.
func (s *space) needEmbedding(ref sluice.EntryRef, it *item, id string, rec *held) {
	kind := embeddingType(ref)
	switch {
	case it != nil && it.fingerprint != "":
		s.task(&task{id: id, kind: kind, entry: ref, order: it.order}, s.view(rec, s.config.Model, it.fingerprint))
	case it == nil && rec != nil && s.outlives(&rec.Record): // S3-111
		s.task(&task{id: id, kind: kind, entry: ref}, rec.Record)
	default:
		s.end(id)
	}
}

// settlePairs creates the tasks to compare an own entry with its neighbours. Rec is the record of
// its current embedding, nil if it has none. The caller holds the lock.
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
			delete(s.records, id) // superseded, and kept only in the store
		}
	}
	it.comparisons = ids
}

// settlePair creates the task to compare an own entry with a neighbour, unless that is done. The
// caller holds the lock.
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
		t.state = sluice.JobPending // its result was lost
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

// modelOf returns the embedding model of a task; "" for a comparison.
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
