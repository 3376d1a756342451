package durable

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// believed is how long a record that was read is believed to be the stored one. Whatever is decided by it is stored
// only if it still is; the bound is for a log that was removed and made anew, where another record may have the
// same revision.
const believed = time.Second

// remembered is how many streams' records are remembered.
const remembered = 4096

// memory is what an engine remembers of streams, so that what is fenced by a record need not read it before.
type memory struct {
	recent *lru.Cache[Key, recollection]

	mu    sync.Mutex
	holds map[Key]*hold
}

// recollection is a record without its lists, which nothing needs that leaves the record as it is.
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

// recall returns a live stream as it was a moment ago: good for what is stored only if it is so still.
func (m *memory) recall(key Key, now time.Time) (*stream, bool) {
	r, ok := m.recent.Get(key)
	if !ok || now.Sub(r.at) >= believed {
		return nil, false
	}
	return &stream{key: key, revision: r.revision, Record: r.record}, true
}

// remember keeps a record that was read or stored.
func (m *memory) remember(s *stream, now time.Time) {
	if s.State != Live || s.ID == "" || s.Closed {
		m.recent.Remove(s.key)
		return
	}
	r := recollection{record: s.Record, revision: s.revision, at: now}
	r.record.Producers, r.record.Children, r.record.Inherited = nil, nil, nil
	m.recent.Add(s.key, r)
}

// hold returns what is held of a stream, nil if nothing is. What is in it belongs to whoever has the stream's turn.
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

// drop forgets all of a stream.
func (m *memory) drop(key Key) {
	m.recent.Remove(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holds, key)
}

// forget forgets all of a namespace.
func (m *memory) forget(namespace string) {
	for _, key := range append(m.recent.Keys(), m.held()...) {
		if key.Namespace == namespace {
			m.drop(key)
		}
	}
}

// held returns the streams of which something is held.
func (m *memory) held() []Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]Key, 0, len(m.holds))
	for key := range m.holds {
		keys = append(keys, key)
	}
	return keys
}
