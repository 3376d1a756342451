package schedule

import (
	"sync"
	"time"
)

const (
	maxRefused = time.Minute     // the longest wait of a refused record
	probeEvery = 2 * time.Second // the interval of the steps that detect the end of an outage
)

// outage is a time during which a full store refuses the steps of due records. A record cannot
// store its attempts then, so it waits for as long as the outage has lasted. One record, the probe,
// is tried more often, so that the others need not wait when there is room again. It is safe for
// concurrent use.
type outage struct {
	mu     sync.Mutex
	began  time.Time
	last   time.Time // the last refusal; zero: there is no outage
	probe  string    // the key of a refused record
	probed time.Time
}

// refused records that the step of a record was refused. It returns how long the record waits, and
// whether an outage begins with it.
func (o *outage) refused(key string, now time.Time) (wait time.Duration, begins bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if begins = o.last.IsZero() || now.Sub(o.last) > 2*maxRefused; begins {
		o.began, o.probe = now, ""
	}
	o.last = now
	if o.probe == "" || o.probe == key || now.Sub(o.probed) > 2*probeEvery { // the probe may be gone
		o.probe, o.probed = key, now
		return probeEvery, begins
	}
	return patience(now.Sub(o.began)), begins
}

// accepted records that the step of a record was not refused, and reports whether that ends an
// outage.
func (o *outage) accepted(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.IsZero() || o.probe != key {
		return false
	}
	o.last, o.probe = time.Time{}, ""
	return true
}
