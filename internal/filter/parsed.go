package filter

import (
	"encoding/json"
	"sync"
	"weak"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Parsed is what filters have read of the data of one event, which several of them look at: it is read once as long as
// somebody has looked lately, and takes no memory after that. Its zero value is ready; it may be used at once; nil shares nothing.
type Parsed struct {
	mu     sync.Mutex
	fields weak.Pointer[fields]
	value  weak.Pointer[value]
}

type (
	fields struct{ of map[string]json.RawMessage } // nil: the data is no JSON object
	value  struct {
		of any // what expressions see
		ok bool
	}
)

// topLevel is the function of this name, for several filters. Nobody changes what it returns.
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

// decode is the function of this name, for several filters. Nobody changes what it returns.
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

// decoded reports whether the value of the data is at hand.
func (p *Parsed) decoded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value.Value() != nil
}
