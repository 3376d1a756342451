// Package breaker holds back requests to an endpoint in trouble (decision 0008). It decides from the
// outcomes of earlier requests, without clock and I/O. It also tells when an endpoint has failed for
// too long.
package breaker

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The parameters of the breaker (decision 0008).
const (
	streakLength = 10              // the breaker opens after this many consecutive failures,
	shareCount   = 50              // or if of at least this many attempts
	sharePercent = 90              // this percentage failed,
	stillFails   = 5               // including this many last ones, because an old burst of failures is no evidence for the present,
	shareSpan    = 5 * time.Second // within shareSpans spans of this length;
	shareSpans   = 6
	troubleLanes = 3               // in both cases if the failures came from this many lanes
	troubleLasts = 5 * time.Second // and trouble has lasted this long

	firstPause   = time.Second // until the first probe; doubles
	longestPause = 30 * time.Second
	pauseJitter  = 0.1              // as a part of the pause, plus or minus
	quietCloses  = 30 * time.Second // a half-open breaker closes after this time without a failure if it delays nothing

	longestHold = time.Hour // upper limit of a Retry-After
)

// Permit is a permission to send.
type Permit int

// The permits.
const (
	None  Permit = iota
	Probe        // one request that probes the endpoint
	All
)

// Outcome is what the outcome of a request says about the endpoint, apart from the event.
type Outcome int

// The outcomes.
const (
	Nothing Outcome = iota // no request was made
	Well                   // the endpoint works, even if it refused the event
	Trouble                // no answer, 5xx or 429
)

// Answer is the outcome of one request.
type Answer struct {
	Epoch   uint64 // the breaker's epoch when the request was made
	Lane    string
	Outcome Outcome
	Began   time.Time
	Wait    time.Duration // Retry-After of the endpoint
	Own     bool          // only this lane fails, so its failure says nothing about the endpoint
}

// Breaker holds back requests to an endpoint in trouble. It is an immutable value without clock and
// I/O; its methods return the next state.
//
//	         trouble in several lanes                 probe: trouble, longer pause
//	closed ───────────────────────────► open ◄──────────┐
//	  ▲                                 │  ▲────────────┘
//	  │ as many at once                 │  │ trouble
//	  │ as the window       probe: well ▼  │
//	  └──────────────────────────── half-open: 1, 2, 4, … at once
type Breaker struct {
	state sluice.Breaker // zero: closed
	epoch uint64         // incremented when it opens; answers to requests of earlier epochs do not count
	first uint64         // the first epoch of this endpoint; earlier answers are of another one
	spell uint64         // incremented when it opens while closed
	under int            // requests of this epoch in flight
	held  time.Time      // nothing is sent before

	streak streak // closed
	recent recency

	pause   time.Duration // open
	probeAt time.Time

	limit  int       // half-open: limit in flight
	well   int       // successes in this round
	failed int       // failures in this round
	quiet  time.Time // time of the last failure, or when it became half-open
	cured  uint64    // successes in this spell
}

// Opened returns an open breaker, as after a restart: its next probe is due at a time, and its next
// pause follows from the last one.
func Opened(probeAt time.Time, pause time.Duration) Breaker {
	return Breaker{state: sluice.BreakerOpen, probeAt: probeAt, pause: pause, epoch: 1, spell: 1}
}

// Hold permits nothing before a time, as a Retry-After does.
func (b Breaker) Hold(until time.Time) Breaker {
	b.held = until
	return b
}

// Hasten makes the next probe due now.
func (b Breaker) Hasten(now time.Time) Breaker {
	b.probeAt, b.held = now, time.Time{}
	return b
}

// State returns the breaker's state; empty is closed.
func (b Breaker) State() sluice.Breaker { return b.state }

// Epoch returns the epoch that answers to present requests name.
func (b Breaker) Epoch() uint64 { return b.epoch }

// Spell returns how often the breaker has opened while it was closed.
func (b Breaker) Spell() uint64 { return b.spell }

// Held returns the time before which nothing is sent.
func (b Breaker) Held() time.Time { return b.held }

// Pause returns the pause before the next probe.
func (b Breaker) Pause() time.Duration { return b.pause }

// ProbeAt returns when the next probe is due, while the breaker is open.
func (b Breaker) ProbeAt() time.Time { return b.probeAt }

// Closed reports whether the breaker permits everything.
func (b Breaker) Closed() bool { return b.state == "" || b.state == sluice.BreakerClosed }

// Admits returns which requests are permitted now. If none are, it returns when to ask again; zero
// means after the next answer.
func (b Breaker) Admits(now time.Time) (Permit, time.Time) {
	switch {
	case b.state == sluice.BreakerOpen && b.under > 0:
		return None, time.Time{}
	case b.state == sluice.BreakerOpen && b.probeAt.After(now):
		return None, later(b.probeAt, b.held)
	case b.held.After(now):
		return None, b.held
	case b.state == sluice.BreakerOpen:
		return Probe, time.Time{}
	case b.state == sluice.BreakerHalfOpen && b.under >= b.limit:
		return None, time.Time{}
	}
	return All, time.Time{}
}

// Began records that a request begins.
func (b Breaker) Began() Breaker {
	b.under++
	return b
}

// Ended applies the outcome of a request. window is the limit of requests in flight while closed.
// random, in [0, 1), is the jitter of the next probe.
func (b Breaker) Ended(a Answer, window int, now time.Time, random float64) Breaker {
	if a.Epoch < b.first {
		return b
	}
	if a.Wait > 0 {
		b.held = later(b.held, now.Add(min(a.Wait, longestHold)))
	}
	if a.Epoch != b.epoch {
		return b
	}
	b.under = max(0, b.under-1)
	switch {
	case a.Outcome == Nothing:
		return b
	case b.Closed():
		return b.watch(a, now, random)
	case a.Outcome == Well:
		return b.heal(window, now)
	case b.state == sluice.BreakerOpen:
		return b.wait(now, random)
	case a.Own:
		return b
	}
	b.quiet = now
	if b.failed++; 2*b.failed >= b.limit {
		return b.open(now).wait(now, random)
	}
	return b
}

// watch applies an answer while closed, and opens the breaker if the endpoint is in trouble.
func (b Breaker) watch(a Answer, now time.Time, random float64) Breaker {
	b.streak = b.streak.add(a, now)
	b.recent = b.recent.add(a, now)
	if !b.streak.trouble(now) && (!b.recent.trouble(now) || b.streak.count < stillFails) {
		return b
	}
	b.spell++
	b.cured, b.pause = 0, 0
	return b.open(now).wait(now, random)
}

func (b Breaker) open(now time.Time) Breaker {
	b.state, b.probeAt = sluice.BreakerOpen, now
	b.epoch++
	b.under, b.limit, b.well, b.failed = 0, 0, 0, 0
	return b
}

// wait postpones the next probe, each time by a longer pause.
func (b Breaker) wait(now time.Time, random float64) Breaker {
	b.pause = b.NextPause()
	b.probeAt = now.Add(time.Duration(float64(b.pause) * (1 + pauseJitter*(2*random-1))))
	return b
}

// NextPause returns the pause after the next failure.
func (b Breaker) NextPause() time.Duration { return min(max(2*b.pause, firstPause), longestPause) }

// heal raises the limit: one request after the probe, twice as many after each full round.
func (b Breaker) heal(window int, now time.Time) Breaker {
	b.cured++
	b.well++
	if b.state == sluice.BreakerOpen {
		b.state, b.quiet, b.limit = sluice.BreakerHalfOpen, now, 1
	} else if b.well >= b.limit {
		b.limit, b.well, b.failed = 2*b.limit, 0, 0
	}
	if b.limit >= window {
		return b.close(now)
	}
	return b
}

// Proved records that a request outside the deliveries succeeded. While the breaker is open, it
// counts as a successful probe.
func (b Breaker) Proved(window int, now time.Time) Breaker {
	if b.state != sluice.BreakerOpen {
		return b
	}
	b.held = time.Time{}
	return b.heal(window, now)
}

func (b Breaker) close(now time.Time) Breaker {
	b.state = sluice.BreakerClosed
	b.streak, b.recent = streak{after: now}, recency{}
	return b
}

// Settle closes a half-open breaker that has been without a failure for quietCloses and delays
// nothing. The dispatcher calls it when no more permitted work is left.
func (b Breaker) Settle(now time.Time) Breaker {
	if b.state == sluice.BreakerHalfOpen && b.under < b.limit && now.Sub(b.quiet) >= quietCloses {
		return b.close(now)
	}
	return b
}

// ResetAfterRestart records that no request is in flight after a restart.
func (b Breaker) ResetAfterRestart() Breaker {
	b.under = 0
	return b
}

// Reset resets the breaker for another endpoint.
func (b Breaker) Reset() Breaker {
	return Breaker{epoch: b.epoch + 1, first: b.epoch + 1, spell: b.spell}
}

// Mark records when a lane failed without its attempt being counted.
type Mark struct{ spell, cured uint64 }

// Mark returns the present mark, for a lane whose failure is not counted.
func (b Breaker) Mark() Mark { return Mark{spell: b.spell, cured: b.cured} }

// IsCurrent reports whether other lanes have succeeded since a lane got its mark, so that the lane
// fails by itself. Its attempts then count again; otherwise it would keep the breaker from closing.
func (b Breaker) IsCurrent(s Mark) bool {
	return b.state == sluice.BreakerHalfOpen && s.spell == b.spell && s.spell > 0 && b.cured > s.cured
}

// laneSet holds the first few distinct lanes.
type laneSet [troubleLanes]string

func (s laneSet) add(lane string) laneSet {
	for i, known := range s {
		if known == lane {
			break
		}
		if known == "" {
			s[i] = lane
			break
		}
	}
	return s
}

func (s laneSet) full() bool { return s[len(s)-1] != "" }

// streak counts consecutive failures.
type streak struct {
	count int
	after time.Time // when the endpoint last worked; zero: never
	since time.Time // start of the first failed request, but not before after
	lanes laneSet
}

func (s streak) add(a Answer, now time.Time) streak {
	if a.Outcome != Trouble {
		return streak{after: now}
	}
	if s.count == 0 || a.Began.Before(s.since) {
		s.since = later(a.Began, s.after)
	}
	s.count++
	s.lanes = s.lanes.add(a.Lane)
	return s
}

func (s streak) trouble(now time.Time) bool {
	return s.count >= streakLength && s.lanes.full() && now.Sub(s.since) >= troubleLasts
}

// recency counts the attempts of the last shareSpans spans.
type recency struct {
	spans [shareSpans]span
	since time.Time // since when too many of them have failed; zero: they have not
}

type span struct {
	at          int64 // number of the span since 1970
	all, failed int
	lanes       laneSet // lanes with failures
}

func (s recency) add(a Answer, now time.Time) recency {
	at := now.UnixNano() / int64(shareSpan)
	sp := &s.spans[at%shareSpans]
	if sp.at != at {
		*sp = span{at: at}
	}
	sp.all++
	if a.Outcome == Trouble {
		sp.failed++
		sp.lanes = sp.lanes.add(a.Lane)
	}
	switch {
	case !s.failing(at):
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	}
	return s
}

// failing reports whether too many of the recent attempts failed.
func (s recency) failing(at int64) bool {
	var all, failed int
	var lanes laneSet
	for _, sp := range s.spans {
		if sp.at <= at-shareSpans || sp.at > at {
			continue
		}
		all += sp.all
		failed += sp.failed
		for _, lane := range sp.lanes {
			if lane != "" {
				lanes = lanes.add(lane)
			}
		}
	}
	return all >= shareCount && 100*failed >= sharePercent*all && lanes.full()
}

func (s recency) trouble(now time.Time) bool {
	return !s.since.IsZero() && now.Sub(s.since) >= troubleLasts
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
