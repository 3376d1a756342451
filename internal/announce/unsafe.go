package announce

import (
	"maps"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// unsafeEvery is how often it is told of one producer that it is unsafe, at most.
const unsafeEvery = time.Minute

// unsafeData is the data of producer_unsafe.
type unsafeData struct {
	Producer string      `json:"producer"`
	Since    time.Time   `json:"since"`
	Count    uint64      `json:"count"`
	Event    sluice.Link `json:"event"`
	Hops     int         `json:"hops"`
}

// Unsafe tells of a producer that is marked, at most once a minute. It returns at once.
func (a *Announcer) Unsafe(is sluice.Unsafe) {
	if a.toldUnsafe(is.Producer, time.Now()) {
		return
	}
	a.enqueue(announcement{
		namespace: is.Namespace, path: sluice.ProducersPath, kind: sluice.TypeProducerUnsafe,
		data: unsafeData{Producer: is.Producer, Since: is.Since, Count: is.Count, Event: is.Event, Hops: is.Hops},
	})
}

func (a *Announcer) toldUnsafe(producer string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if told, ok := a.unsafe[producer]; ok && now.Sub(told) < unsafeEvery {
		return true
	}
	maps.DeleteFunc(a.unsafe, func(_ string, told time.Time) bool { return now.Sub(told) >= unsafeEvery })
	a.unsafe[producer] = now
	return false
}
