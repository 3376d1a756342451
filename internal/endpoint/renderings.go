package endpoint

import (
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostRendered is the largest data of an event whose body is kept: all kept ones are a megabyte at most.
const mostRendered = 8 << 10

// renderings are the bodies of the latest events as CloudEvents, which are the same for all subscriptions: an
// event that several get is rendered and hashed twice at most.
type renderings [64]rendering

type rendering struct {
	mu   sync.Mutex
	seq  uint64
	data *byte // of the event: others of the same sequence have their own
	body []byte
	hash string
}

// of returns the body of an event and its hash; "" if the hash is not known. The body must not be changed.
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
