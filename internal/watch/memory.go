package watch

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Standing is the state of a path. A path needs no state if its condition does not hold and it is
// not cooling down.
type Standing struct {
	Key   string `json:"k"`
	Met   bool   `json:"m,omitempty"` // the condition holds
	Since int64  `json:"s,omitempty"` // Unix ms: since when the condition holds
	Seq   uint64 `json:"q,omitempty"` // the sequence of the reading since which it holds
	Armed bool   `json:"a,omitempty"` // it will fire when the condition has held for long enough
	Fired int64  `json:"f,omitempty"` // Unix ms: when it last fired; 0: never, or its cooldown is over
}

// memory holds the states of a bounded number of paths. Beyond that, it evicts the path whose last
// reading is the oldest. It is not safe for concurrent use. An evicted path begins anew: its next
// reading that meets the condition fires again, even within a cooldown, and a duration begins
// again.
type memory struct {
	paths *simplelru.LRU[string, *Standing]
}

// newMemory returns a memory of stored states, the most recently used last.
func newMemory(most int, all []Standing) (memory, error) {
	paths, err := simplelru.NewLRU[string, *Standing](most, nil)
	if err != nil {
		return memory{}, fmt.Errorf("memory of paths: %w", err)
	}
	for i := range all {
		p := all[i]
		paths.Add(p.Key, &p)
	}
	return memory{paths}, nil
}

// keyOf returns a short key of a path: 96 bits of its SHA-256. Two paths with the same key would
// share their state, but that is too unlikely to matter.
func keyOf(path sluice.Path) string {
	sum := sha256.Sum256([]byte(path))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// get returns the state of a path, and marks it as recently used.
func (m memory) get(key string) Standing {
	if p, ok := m.paths.Get(key); ok {
		return *p
	}
	return Standing{Key: key}
}

// put stores a state, or removes it if it is empty.
func (m memory) put(p Standing) {
	if !p.Met && p.Fired == 0 {
		m.paths.Remove(p.Key)
		return
	}
	m.paths.Add(p.Key, &p)
}

// all returns the states, the most recently used last.
func (m memory) all() []Standing {
	values := m.paths.Values()
	all := make([]Standing, len(values))
	for i, p := range values {
		all[i] = *p
	}
	return all
}
