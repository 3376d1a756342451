package knowledge

import (
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// begin begins a reading of a source, and returns its number. Entries that the reading does not
// find are gone (see retain).
func (s *space) begin(mirror string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted.restart(mirror)
	if mirror == "" {
		s.byAge = nil
	}
	return s.readings.begin()
}

// renumber forgets the sequences of the own entries, because the log was replaced.
func (s *space) renumber() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, it := range s.items {
		if ref.Source == sluice.SourceLocal {
			it.seq = 0
		}
	}
}

// set enters the current content of an entry that a reading has found, unless there is no room for
// it. An entry that has no room is noted in omitted, and gets no job and no search result here;
// another replica may have room.
func (s *space) set(ref sluice.EntryRef, ev *sluice.Event, seq, reading uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.items[ref]
	if was != nil {
		ref = was.ref
	} else {
		ref.ID = strings.Clone(ref.ID) // it is a part of a larger string
	}
	is := newItem(ref, ev)
	is.seq, is.reading, is.bytes = seq, reading, s.bytesOf(is)
	arrives := was == nil
	relabels := arrives || was.label != is.label
	if !arrives {
		was.reading = reading
		if ref.Source == sluice.SourceLocal && seq < was.seq { // it was read before
			return
		}
		is.order, is.comparisons = was.order, was.comparisons
	} else {
		s.order++
		is.order = s.order
		was = &item{}
	}
	if !s.fits(is.bytes - was.bytes) {
		s.omit(ref)
		s.omitted.add(ref, seq)
		return
	}
	s.omitted.remove(ref, 0)
	s.items[ref] = is
	if relabels && s.queue.relabel(ref) {
		s.wake()
	}
	if s.attach(ref) || arrives && s.forgotten() { // the stored record may have more than this one
		s.wanted[ref] = true
		s.wake()
	}
	if ref.Source == sluice.SourceLocal {
		s.byAge = append(s.byAge, aged{seq, ref})
		s.thin()
	}
	s.settle(ref)
}

// fits takes bytes for an entry, if necessary those of as many records without an entry, which have
// only the room that entries leave. The caller holds the lock.
func (s *space) fits(bytes int64) bool {
	if s.account.take(bytes) {
		return true
	}
	if !s.spare {
		return false
	}
	for _, rec := range s.records {
		if !rec.loose || rec.gone || s.outlives(&rec.Record) {
			continue
		}
		s.overlook(rec)
		if s.account.take(bytes) {
			return true
		}
	}
	s.spare = false
	return false
}

// overlook forgets a record without an entry, for lack of room. The caller holds the lock.
func (s *space) overlook(rec *held) {
	s.omitted.unknow(s.looseBytes(&rec.Record))
	s.discard(rec.ID)
	s.end(rec.ID)
}

// forgotten reports whether the store may have records without an entry that had no room here, and
// that no reading is about to find. The caller holds the lock.
func (s *space) forgotten() bool { return s.omitted.unknown > 0 && !s.readings.pending() }

// newItem returns an entry with copies of the parts of its event that are needed, so that it does
// not keep the event in memory.
func newItem(ref sluice.EntryRef, ev *sluice.Event) *item {
	is := &item{ref: ref, fingerprint: Fingerprint(ev)}
	if ref.Source == sluice.SourceLocal {
		is.path, is.subject = strings.Clone(string(ev.Path)), strings.Clone(ev.Subject)
		is.label = strings.Clone(ev.Extensions[sluice.AttributeClassification])
	}
	return is
}

// about returns the event of an own entry with as much as access decisions need.
func (it *item) about(namespace string) *sluice.Event {
	ev := &sluice.Event{Namespace: namespace, Path: sluice.Path(it.path), Seq: it.seq, ID: it.ref.ID, Subject: it.subject}
	if it.label != "" {
		ev.Extensions = map[string]string{sluice.AttributeClassification: it.label}
	}
	return ev
}

// thin removes outdated elements from byAge, once they are many. The caller holds the lock.
func (s *space) thin() {
	if len(s.byAge) < 2*len(s.items)+1024 {
		return
	}
	kept := make([]aged, 0, len(s.items))
	for _, a := range s.byAge {
		if it := s.items[a.ref]; it != nil && it.seq == a.seq {
			kept = append(kept, a)
		}
	}
	s.byAge = kept
}

// attach notes that a record has an entry again, and reports whether there is such a record. The bytes
// of the entry include the record. The caller holds the lock.
func (s *space) attach(ref sluice.EntryRef) bool {
	rec := s.records[embeddingID(ref)]
	if rec == nil || !rec.loose {
		return false
	}
	s.account.force(-s.looseBytes(&rec.Record))
	rec.loose, rec.gone, rec.orphan = false, false, 0
	return true
}

// omit forgets an entry, with its records, because there is no more room for it. The caller holds
// the lock.
func (s *space) omit(ref sluice.EntryRef) {
	if it := s.items[ref]; it != nil {
		s.remove(it)
	}
	s.discard(embeddingID(ref))
	s.end(embeddingID(ref))
}

// remove removes an entry and its comparisons, without its embedding. The caller holds the lock.
func (s *space) remove(it *item) {
	for _, id := range it.comparisons {
		s.end(id)
		delete(s.records, id)
	}
	delete(s.items, it.ref)
	delete(s.wanted, it.ref)
	s.index(it.ref).Delete(it.ref)
	s.account.force(-it.bytes)
}

// discard forgets a record. The caller holds the lock.
func (s *space) discard(id string) {
	rec := s.records[id]
	if rec != nil && rec.loose {
		s.account.force(-s.looseBytes(&rec.Record))
	}
	delete(s.records, id)
}

func (s *space) looseBytes(r *Record) int64 {
	return int64(looseBytes + len(r.ID) + len(r.Entry.ID) + len(r.Error))
}

// drop removes a deleted entry, if it has the sequence; 0 matches any sequence.
func (s *space) drop(ref sluice.EntryRef, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(ref, seq)
}

func (s *space) dropLocked(ref sluice.EntryRef, seq uint64) {
	it, id := s.items[ref], embeddingID(ref)
	if it == nil {
		rec := s.records[id]
		switch {
		case s.omitted.remove(ref, seq): // its records may still be stored
			s.loosen(&held{Record: Record{ID: id, Type: embeddingType(ref), Entry: ref}})
		case rec != nil && (seq == 0 || seq == rec.Seq) && !s.omitted.partial(ref.Subscription): // the pattern leaves it out
			rec.gone, rec.orphan = true, 0
		}
		return
	}
	if seq != 0 && it.seq != seq {
		return
	}
	s.remove(it)
	if rec := s.records[id]; rec != nil {
		s.loosen(rec)
	}
	s.settle(ref)
}

// loosen keeps the record of a deleted entry in memory, until a sweep removes it.
func (s *space) loosen(rec *held) {
	s.discard(rec.ID)
	rec.Embedding, rec.Pairs, rec.placed, rec.gone, rec.loose = nil, nil, false, true, true
	s.account.force(s.looseBytes(&rec.Record))
	s.records[rec.ID] = rec
}

// expire drops the own entries before the first sequence of the log.
func (s *space) expire(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted.outdate(first)
	for len(s.byAge) > 0 && s.byAge[0].seq < first {
		s.dropLocked(s.byAge[0].ref, s.byAge[0].seq)
		s.byAge = s.byAge[1:]
	}
}

// retain drops the entries of a source that a reading has not found.
func (s *space) retain(source, mirror string, reading uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retainLocked(source, mirror, reading)
}

func (s *space) retainLocked(source, mirror string, reading uint64) {
	for ref, it := range s.items {
		if ref.Source == source && ref.Subscription == mirror && it.reading != reading {
			s.dropLocked(ref, 0)
		}
	}
}

// learn enters a record unless the space has a later one.
func (s *space) learn(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[r.ID]; was != nil && was.Revision >= r.Revision {
		return
	}
	s.enter(r)
}

// beginRecords begins a reading of the records, and returns its number.
func (s *space) beginRecords() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted.beginRecords()
	return s.readings.begin()
}

// replace enters a record, which a reading has found, in place of any other revision.
func (s *space) replace(r Record, reading uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[r.ID]; was == nil || was.Revision != r.Revision {
		s.enter(r)
	}
	for _, id := range []string{r.ID, embeddingID(r.Entry)} { // the second one may stand for the first
		if is := s.records[id]; is != nil && (id == r.ID || is.loose) {
			is.reading = reading
		}
	}
}

// lose forgets the records that a reading has not found.
func (s *space) lose(reading uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted.endRecords()
	for id, rec := range s.records {
		if rec.reading != reading {
			s.discard(id)
			s.settle(rec.Entry)
		}
	}
}

// restore enters a stored record, with its embedding.
func (s *space) restore(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.records[r.ID]; was != nil && was.Revision > r.Revision {
		return
	}
	s.enter(r)
	if rec := s.records[r.ID]; rec != nil && r.State == done && r.Embedding == nil {
		rec.unfit = true
		s.settle(r.Entry)
	}
}

// enter sets a record. The caller holds the lock.
func (s *space) enter(r Record) {
	r.Comparison = nil
	it := s.items[r.Entry]
	if it == nil {
		s.enterLoose(r)
		return
	}
	if r.Pair != nil && r.Fingerprint != it.fingerprint && r.Seq <= it.seq { // superseded, and kept only in the store
		s.discard(r.ID)
		return
	}
	// Save memory: share equal strings, and keep only the pairs that are compared.
	r.Entry, r.Pairs = it.ref, r.Pairs[:min(len(r.Pairs), s.config.TopK)]
	if r.Model == s.config.Model {
		r.Model = s.config.Model
	}
	if r.Fingerprint == it.fingerprint {
		r.Fingerprint = it.fingerprint
	}
	s.discard(r.ID)
	s.records[r.ID] = &held{Record: r}
	if r.Pair == nil {
		s.settle(r.Entry)
		return
	}
	if rec := s.records[embeddingID(it.ref)]; rec != nil && slices.Contains(it.comparisons, r.ID) {
		for i := range rec.Pairs {
			if rec.Pairs[i].Against == r.Pair.Against {
				s.settlePair(it, &rec.Pairs[i], r.ID)
			}
		}
	}
}

// enterLoose sets a record without an entry: the entry is yet to arrive, was deleted, or has no
// room. One record stands for all records of the entry, with the latest sequence. The caller holds
// the lock.
func (s *space) enterLoose(r Record) {
	id := embeddingID(r.Entry)
	was := s.records[id]
	if r.Pair != nil {
		if was != nil {
			was.Seq = max(was.Seq, r.Seq)
			return
		}
		r = Record{ID: id, Type: embeddingType(r.Entry), Entry: r.Entry, Seq: r.Seq}
	}
	rec := &held{Record: r, loose: true}
	if was != nil {
		rec.gone, rec.orphan, rec.Seq = was.gone, was.orphan, max(was.Seq, r.Seq)
	}
	s.discard(id)
	rec.Embedding, rec.Pairs = nil, nil
	switch bytes := s.looseBytes(&r); {
	case rec.gone: // a sweep must remove it
		s.account.force(bytes)
	case s.omitted.partial(r.Entry.Subscription) && !s.outlives(&r), !s.account.take(bytes):
		s.omitted.unknow(bytes)
		s.end(id)
		return
	default:
		s.spare = true
	}
	s.records[id] = rec
	s.settle(r.Entry)
}

// outlives reports whether a record stays without its entry, because its job failed when its mirror
// was deleted. It ends with the stored record, whose end Follow does not report.
func (s *space) outlives(r *Record) bool {
	return r.State == sluice.JobFailed && r.Entry.Source == sluice.SourceMirrored && s.mirrors[r.Entry.Subscription] == nil &&
		s.opts.Now().Sub(r.At) < cancelLife
}
