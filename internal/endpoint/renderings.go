package endpoint

import (
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostRendered is the maximum size of an event's data for its body to be cached, so that the cache
// takes about a megabyte at most.
const mostRendered = 8 << 10

// renderings caches the bodies of the latest events as CloudEvents, which are the same for all
// subscriptions. The second rendering of an event is cached, so the first two subscriptions render
// it. An event has the slot of its sequence modulo 64, so the latest 64 of one log have a slot
// each. It is safe for concurrent use; each slot has a lock of its own, which is not held while a
// body is rendered.
type renderings [64]rendering

type rendering struct {
	mu   sync.Mutex
	seq  uint64
	data *byte // identifies the event together with seq, because an event of another namespace may have the same sequence
	body []byte
	hash string
}

// of returns the body of an event, which the caller must not change, and its hash; "" if the hash
// was not computed.
func (r *renderings) of(ev *sluice.Event) (body []byte, hash string) {
	if len(ev.Data) == 0 || len(ev.Data) > mostRendered {
		return ev.AppendJSON(nil), ""
	}
	slot := &r[ev.Seq%uint64(len(r))]
	slot.mu.Lock()
	again := slot.seq == ev.Seq && slot.data == &ev.Data[0]
	if again && slot.body != nil {
		defer slot.mu.Unlock()
		return slot.body, slot.hash
	}
	if !again {
		slot.seq, slot.data, slot.body, slot.hash = ev.Seq, &ev.Data[0], nil, ""
	}
	slot.mu.Unlock()
	body = ev.AppendJSON(nil)
	if !again {
		return body, ""
	}
	hash = hashOf(body)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.seq == ev.Seq && slot.data == &ev.Data[0] {
		slot.body, slot.hash = body, hash
	}
	return body, hash
}
