// Package rollup counts the attempts of each subscription. It keeps those of all replicas for the
// last hour by minute, and for the last day by five minutes. Each replica stores blocks of its
// minutes and hours, and follows those of the others:
//
//	attempts ──► open minute ──► block, every 15 s ──► bucket rollups ──► blocks of the other replicas
//	                   └───────────── the last hour, and day ◄────────────────────┘
//
// A crash loses the attempts since the last block: those since the last block of a minute are
// missing in the hour, and those since the last block of an hour in the day.
package rollup

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Buckets of the histogram of durations. A duration is in the first bucket with a bound that it
// does not exceed, or else in the last bucket.
const buckets = 12

// bounds returns the upper bounds of all buckets but the last.
func bounds() [buckets - 1]time.Duration {
	return [...]time.Duration{
		5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
		500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 15 * time.Second,
	}
}

// longest is the upper bound of the last bucket for the estimate of a quantile: the longest timeout of an attempt.
const longest = time.Minute

func upperBound(bucket int) time.Duration {
	for i, bound := range bounds() {
		if i == bucket {
			return bound
		}
	}
	return longest
}

func bucketOf(d time.Duration) int {
	limits := bounds()
	for i := range limits {
		if d <= limits[i] {
			return i
		}
	}
	return buckets - 1
}

// Counts are the attempts of a subscription in some time. It is for one goroutine. Each count wraps
// around after 2³² attempts.
type Counts struct {
	Delivered uint32          // attempts with a 2xx
	Failed    uint32          // all other attempts
	Durations [buckets]uint32 // of both, by bucket
	Failures  *Failures       // nil: none
	began     int64           // creation of the subscription, in ms since 1970: tells apart subscriptions with the same ID
}

// Failures are the failed attempts by class, in the order of sluice.FailureClasses.
type Failures [classes]uint32

// classes is the number of classes of failures.
const classes = 14

// ByClass returns the failed attempts by class, without zeros.
func (c *Counts) ByClass() map[sluice.FailureClass]uint64 {
	all := map[sluice.FailureClass]uint64{}
	if c.Failures != nil {
		for i, class := range sluice.FailureClasses() {
			if n := c.Failures[i]; n > 0 {
				all[class] = uint64(n)
			}
		}
	}
	return all
}

// Attempts returns the number of attempts.
func (c *Counts) Attempts() uint64 { return uint64(c.Delivered) + uint64(c.Failed) }

// Of reports whether the attempts are of this subscription, not of an earlier one with the same ID.
func (c *Counts) Of(sub *sluice.Subscription) bool { return c.began == sub.CreatedAt.UnixMilli() }

// Success returns the percentage of successful attempts; false if there was no attempt.
func (c *Counts) Success() (float64, bool) {
	if c.Attempts() == 0 {
		return 0, false
	}
	return 100 * float64(c.Delivered) / float64(c.Attempts()), true
}

// Quantile estimates the duration that a share of the attempts did not exceed, by interpolation
// within a bucket. It returns zero if there was no attempt. share is between 0 and 1. The error is
// at most the width of a bucket.
func (c *Counts) Quantile(share float64) time.Duration {
	var all uint64
	for _, n := range c.Durations {
		all += uint64(n)
	}
	rank, low := share*float64(all), time.Duration(0)
	for i, n := range c.Durations {
		high := upperBound(i)
		if n > 0 && rank <= float64(n) {
			return low + time.Duration(float64(high-low)*rank/float64(n))
		}
		rank, low = rank-float64(n), high
	}
	return 0
}

// Sum adds the counts of any subscription.
func (c *Counts) Sum(o *Counts) {
	began := c.began
	c.began = o.began
	c.add(o)
	c.began = began
}

// add adds other counts. The counts of a later subscription with the same ID replace those of an
// earlier one.
func (c *Counts) add(o *Counts) {
	switch {
	case o.began < c.began:
		return
	case o.began > c.began:
		*c = Counts{began: o.began}
	}
	c.Delivered += o.Delivered
	c.Failed += o.Failed
	for i, n := range o.Durations {
		c.Durations[i] += n
	}
	if o.Failures == nil {
		return
	}
	if c.Failures == nil {
		c.Failures = new(Failures)
	}
	for i, n := range o.Failures {
		c.Failures[i] += n
	}
}

// remove subtracts counts that were added. o must be equal to counts that were added.
func (c *Counts) remove(o *Counts) {
	if o.began != c.began {
		return
	}
	c.Delivered -= o.Delivered
	c.Failed -= o.Failed
	for i, n := range o.Durations {
		c.Durations[i] -= n
	}
	if c.Failures == nil || o.Failures == nil {
		return
	}
	for i, n := range o.Failures {
		c.Failures[i] -= n
	}
}

// tally is the Counts of a subscription in the open minute. It is safe for concurrent use.
type tally struct {
	began             int64
	delivered, failed atomic.Uint32
	durations         [buckets]atomic.Uint32
	failures          [classes]atomic.Uint32
}

func (t *tally) add(a *sluice.Attempt) {
	if a.Outcome == sluice.Delivered {
		t.delivered.Add(1)
	} else {
		t.failed.Add(1)
		t.failures[placeOf(a.Failure())].Add(1)
	}
	t.durations[bucketOf(a.Duration.Std())].Add(1)
}

func (t *tally) counts() Counts {
	c := Counts{began: t.began, Delivered: t.delivered.Load(), Failed: t.failed.Load()}
	for i := range t.durations {
		c.Durations[i] = t.durations[i].Load()
	}
	if c.Failed > 0 {
		c.Failures = new(Failures)
		for i := range t.failures {
			c.Failures[i] = t.failures[i].Load()
		}
	}
	return c
}

// placeOf returns the index of a class in Failures.
func placeOf(class sluice.FailureClass) int {
	for i, one := range sluice.FailureClasses() {
		if one == class {
			return i
		}
	}
	return classes - 1
}

// open is the minute that attempts are added to.
type open struct {
	mu     sync.RWMutex
	minute int64 // since 1970
	all    map[string]*tally
}

// attempted counts an attempt: one look-up, and three additions.
func (o *open) attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	began := sub.CreatedAt.UnixMilli()
	o.mu.RLock()
	t := o.all[sub.ID]
	if t != nil && t.began == began {
		t.add(a)
		o.mu.RUnlock()
		return
	}
	o.mu.RUnlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if t = o.all[sub.ID]; t == nil || t.began < began {
		t = &tally{began: began}
		o.all[sub.ID] = t
	}
	if t.began == began {
		t.add(a)
	}
}

// read1 returns the counts of a subscription in the open minute; nil if it has none.
func (o *open) read1(of owner) (minute int64, c *Counts) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if t := o.all[of.id]; t != nil && t.began == of.began {
		counts := t.counts()
		c = &counts
	}
	return o.minute, c
}

// read returns the counts of the open minute.
func (o *open) read() (minute int64, all map[string]Counts) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	all = make(map[string]Counts, len(o.all))
	for id, t := range o.all {
		all[id] = t.counts()
	}
	return o.minute, all
}

// next closes the open minute and returns its counts, if another one has begun.
func (o *open) next(now int64) (minute int64, all map[string]Counts, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now <= o.minute {
		return 0, nil, false
	}
	minute, all = o.minute, make(map[string]Counts, len(o.all))
	for id, t := range o.all {
		all[id] = t.counts()
	}
	o.minute, o.all = now, map[string]*tally{}
	return minute, all, true
}
