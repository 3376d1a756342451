package filter

import (
	"encoding/json"
	"sync"
	"weak"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Parsed caches the decoded data of one event for several filters. The garbage collector may free
// the data as soon as no filter uses it; the next filter decodes it again. The zero value is ready,
// and a nil *Parsed caches nothing. It is safe for concurrent use. It belongs to one event: with
// another one, it returns the data of the first. A lock is held during the decoding, so concurrent
// filters wait for one decoding and do not repeat it.
type Parsed struct {
	mu     sync.Mutex
	fields weak.Pointer[fields]
	value  weak.Pointer[value]
}

type (
	fields struct{ of map[string]json.RawMessage } // nil: the data is no JSON object
	value  struct {
		of any // the decoded data as expressions see it
		ok bool
	}
)

// topLevel is the function topLevel with a cached result. The result is read-only.
func (p *Parsed) topLevel(e *sluice.Event) map[string]json.RawMessage {
	if p == nil {
		return topLevel(e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fields.Value()
	if f == nil {
		f = &fields{topLevel(e)}
		p.fields = weak.Make(f)
	}
	return f.of
}

// decode is the function decode with a cached result. The result is read-only.
func (p *Parsed) decode(e *sluice.Event) (any, bool) {
	if p == nil {
		return decode(e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.value.Value()
	if v == nil {
		v = &value{}
		v.of, v.ok = decode(e)
		p.value = weak.Make(v)
	}
	return v.of, v.ok
}

// decoded reports whether the decoded data is cached. It does not accept a nil p.
func (p *Parsed) decoded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value.Value() != nil
}
