package durable

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// believed is how long a record counts as the stored one after it was read. A write that relies on
// it fails if it is not any more. The limit matters only for a log that was deleted and created
// again, where another record may have the same revision.
const believed = time.Second

// remembered is the number of records in the cache.
const remembered = 4096

// memory caches streams, so that a write fenced by a record need not read it first.
type memory struct {
	recent *lru.Cache[Key, recollection]

	mu    sync.Mutex
	holds map[Key]*hold
}

// recollection is a cached record without its lists. A write that leaves the record unchanged does
// not need the lists.
type recollection struct {
	record   Record
	revision uint64
	at       time.Time
}

func newMemory() *memory {
	recent, err := lru.New[Key, recollection](remembered)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &memory{recent: recent, holds: map[Key]*hold{}}
}

// recall returns a recent record of a live stream. Use it only for a write that is fenced by its
// revision.
func (m *memory) recall(key Key, now time.Time) (*stream, bool) {
	r, ok := m.recent.Get(key)
	if !ok || now.Sub(r.at) >= believed {
		return nil, false
	}
	return &stream{key: key, revision: r.revision, Record: r.record}, true
}

// remember caches a record that was read or stored, if it is that of an open stream.
func (m *memory) remember(s *stream, now time.Time) {
	if s.State != Live || s.ID == "" || s.Closed {
		m.recent.Remove(s.key)
		return
	}
	r := recollection{record: s.Record, revision: s.revision, at: now}
	r.record.Producers, r.record.Children, r.record.Inherited = nil, nil, nil
	m.recent.Add(s.key, r)
}

// hold returns the hold on a stream, or nil. The stream's lock guards its content.
func (m *memory) hold(key Key) *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds[key]
}

func (m *memory) keep(h *hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds[h.key] = h
}

// drop removes a stream from memory.
func (m *memory) drop(key Key) {
	m.recent.Remove(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holds, key)
}

// forget removes the streams of a namespace from memory.
func (m *memory) forget(namespace string) {
	for _, key := range append(m.recent.Keys(), m.held()...) {
		if key.Namespace == namespace {
			m.drop(key)
		}
	}
}

// held returns the streams with a hold.
func (m *memory) held() []Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]Key, 0, len(m.holds))
	for key := range m.holds {
		keys = append(keys, key)
	}
	return keys
}
