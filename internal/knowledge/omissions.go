package knowledge

import (
	"hash/maphash"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	missedBytes = 48      // of a note about an entry without room
	mostMissed  = 1 << 14 // notes of a namespace
)

// omissions are the entries of a namespace for which there was no room, by their sources, and the
// size of records without an entry that had none. The notes about entries take memory of the account.
// The lock of the space guards them.
type omissions struct {
	account  *account
	seed     maphash.Seed
	bySource map[string]*missed // "" is the log
	notes    int                // in all of bySource
	first    uint64             // first sequence of the log
	reread   bool               // the store may have records that this space does not know
	told     bool               // it was logged that entries have no room

	unknown int64 // bytes that records without an entry would take that are only in the store, at most
	anew    int64 // the part of unknown since the last reading of the records began
	sweeps  int   // since everything was read
}

// missed holds the entries of a source, the log or a mirror, for which there was no room: hashes of
// their ids, with their sequences. The zero value is not usable.
type missed struct {
	known map[uint64]uint64
	more  bool // than known has
}

func newOmissions(a *account) omissions {
	return omissions{account: a, seed: maphash.MakeSeed(), bySource: map[string]*missed{}}
}

// add notes an entry for which there is no room.
func (o *omissions) add(ref sluice.EntryRef, seq uint64) {
	m := o.bySource[ref.Subscription]
	if m == nil {
		m = &missed{known: map[uint64]uint64{}}
		o.bySource[ref.Subscription] = m
	}
	key := maphash.Comparable(o.seed, ref)
	if _, known := m.known[key]; !known {
		if o.notes >= mostMissed {
			m.more = true
			return
		}
		o.noted(1)
	}
	m.known[key] = seq
}

func (o *omissions) noted(n int) {
	o.notes += n
	o.account.force(missedBytes * int64(n))
}

// remove forgets that an entry had no room, and reports whether that was noted. A sequence other than 0
// must be that of the note.
func (o *omissions) remove(ref sluice.EntryRef, seq uint64) bool {
	m := o.bySource[ref.Subscription]
	if m == nil {
		return false
	}
	key := maphash.Comparable(o.seed, ref)
	is, known := m.known[key]
	if !known || seq != 0 && is != seq {
		return false
	}
	delete(m.known, key)
	o.noted(-1)
	return true
}

// unknow notes that a record without an entry is only in the store.
func (o *omissions) unknow(bytes int64) {
	o.unknown += bytes
	o.anew += bytes
}

// beginRecords begins a reading of the records, and endRecords ends it: those that it found are known,
// apart from those that had no room meanwhile.
func (o *omissions) beginRecords() { o.anew = 0 }
func (o *omissions) endRecords()   { o.unknown = o.anew }

// load notes that everything is read again.
func (o *omissions) load() { o.reread, o.sweeps = false, 0 }

// restart forgets the missed entries of a source that is read again.
func (o *omissions) restart(source string) {
	if source == "" {
		o.first = 0
	}
	o.forget(source)
}

// end forgets the missed entries of a mirror that was deleted. If there are some, records of them may
// be stored that this space does not know, so everything has to be read again.
func (o *omissions) end(mirror string) {
	o.reread = o.reread || o.partial(mirror)
	o.forget(mirror)
}

func (o *omissions) forget(source string) {
	if m := o.bySource[source]; m != nil {
		o.noted(-len(m.known))
		delete(o.bySource, source)
	}
}

// outdate forgets the missed own entries before the first sequence of the log.
func (o *omissions) outdate(first uint64) {
	m := o.bySource[""]
	if m == nil || first <= o.first {
		return
	}
	o.first = first
	for key, seq := range m.known {
		if seq < first {
			delete(m.known, key)
			o.noted(-1)
			o.unknow(looseBytes)
		}
	}
}

// has reports whether it is noted that an entry had no room.
func (o *omissions) has(ref sluice.EntryRef) bool {
	m := o.bySource[ref.Subscription]
	if m == nil {
		return false
	}
	_, known := m.known[maphash.Comparable(o.seed, ref)]
	return known
}

// partial reports whether a source has entries without room.
func (o *omissions) partial(source string) bool {
	m := o.bySource[source]
	return m != nil && (m.more || len(m.known) > 0)
}

// count returns the number of missed entries, and whether there may be more.
func (o *omissions) count() (n int, more bool) {
	for _, m := range o.bySource {
		n += len(m.known)
		more = more || m.more
	}
	return n, more
}

// due reports whether all entries have to be read again, given the bytes of an entry. It is asked at
// each sweep. For records alone, everything is read at most once in recheckSweeps.
func (o *omissions) due(each int64) bool {
	o.sweeps++
	if o.reread {
		return true
	}
	n, more := o.count()
	lacking := int64(n) * each
	if more {
		lacking = max(lacking, o.account.of.limit)
	}
	if lacking == 0 && o.sweeps >= recheckSweeps {
		lacking = o.unknown
	}
	_, free := o.account.bytes()
	return worthReading(free, lacking, o.account.of.limit)
}

// tell notes whether it was logged that entries have no room, and returns the note before.
func (o *omissions) tell(some bool) (before bool) {
	before, o.told = o.told, some
	return before
}

const worthOf = 16

// worthReading decides whether all entries are read again to find those, or the records, that had no
// room: if there is room for all of the missing ones, or for enough of them.
func worthReading(free, lacking, limit int64) bool {
	return lacking > 0 && (limit == 0 || free >= min(lacking, limit/worthOf))
}
