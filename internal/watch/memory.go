package watch

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Standing is what is remembered of a path. Nothing needs to be of one on which the condition does not hold and
// that is not cooling down.
type Standing struct {
	Key   string `json:"k"`
	Met   bool   `json:"m,omitempty"` // the condition holds
	Since int64  `json:"s,omitempty"` // ms; since when
	Seq   uint64 `json:"q,omitempty"` // by which reading
	Armed bool   `json:"a,omitempty"` // it fires when the condition has held for long enough
	Fired int64  `json:"f,omitempty"` // ms; when it fired last; 0: it did not, or that does not matter any more
}

// memory is what is remembered of paths, of a bounded number. Beyond it the path is forgotten of which no reading
// has come for the longest time.
type memory struct {
	paths *simplelru.LRU[string, *Standing]
}

// newMemory returns a memory of what was remembered, what was used last at the end.
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

// keyOf returns what stands for a path, which may be long. Nobody can bring it about that two stand for the same.
func keyOf(path sluice.Path) string {
	sum := sha256.Sum256([]byte(path))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// get returns what is remembered of a path, and notes that it was needed.
func (m memory) get(key string) Standing {
	if p, ok := m.paths.Get(key); ok {
		return *p
	}
	return Standing{Key: key}
}

// put remembers it. What says nothing is forgotten.
func (m memory) put(p Standing) {
	if !p.Met && p.Fired == 0 {
		m.paths.Remove(p.Key)
		return
	}
	m.paths.Add(p.Key, &p)
}

// all returns what is remembered, what was used last at the end.
func (m memory) all() []Standing {
	values := m.paths.Values()
	all := make([]Standing, len(values))
	for i, p := range values {
		all[i] = *p
	}
	return all
}
