// Package problem groups the failures of deliveries by subscription and class of failure. Each replica counts the failures of its
// own attempts and merges them into one record for each group; the replica that serves a subscription resolves its problems. All
// replicas follow the records:
//
//	attempts ──► changes in memory ──► record in the bucket problems, every 5 s ──► all replicas
//	                                               ▲
//	                             changes by operators, resolution
package problem

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Times after which problems end.
const (
	quiet = 30 * time.Minute   // time without failures after which a successful delivery resolves a problem
	keep  = 7 * 24 * time.Hour // time after which a resolved or ignored problem is removed
)

// maxAnswer is the maximum number of bytes that are kept of a response.
const maxAnswer = 200

// Record is a problem as it is stored.
type Record struct {
	Subscription string              `json:"subscription"`
	Namespace    string              `json:"namespace"`
	Class        sluice.FailureClass `json:"class"`
	Began        int64               `json:"began"` // creation of the subscription, in ms since 1970: tells apart subscriptions with the same ID
	Lease        string              `json:"lease"` // lease key of the subscription
	State        sluice.ProblemState `json:"state"`
	Opened       bool                `json:"opened,omitempty"` // the breaker has opened since the problem began

	Since      time.Time `json:"since"`
	LastAt     time.Time `json:"last_at"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`

	Events   sketch `json:"events,omitempty"`
	Paths    sketch `json:"paths,omitempty"`
	Attempts uint64 `json:"attempts"`

	Last Last `json:"last"`

	Note      string    `json:"note,omitempty"`
	ChangedBy string    `json:"changed_by,omitempty"`
	ChangedAt time.Time `json:"changed_at,omitzero"`

	counted struct{ events, paths uint64 } // in memory, instead of the sketches
}

// Last is the last failure.
type Last struct {
	Status int         `json:"status,omitempty"`
	Answer string      `json:"answer,omitempty"`
	Path   sluice.Path `json:"path,omitempty"`
	Seq    uint64      `json:"seq,omitempty"`
	Next   time.Time   `json:"next,omitzero"` // the earliest next attempt
}

// ID returns the ID of a problem of a subscription. Subscription IDs have no dot, so it is
// unambiguous.
func ID(subscription string, class sluice.FailureClass) string {
	return subscription + "." + string(class)
}

// ID returns the ID of the record.
func (r *Record) ID() string { return ID(r.Subscription, r.Class) }

// fail adds a failed attempt. Next becomes the earliest attempt that is due after at.
func (r *Record) fail(a *sluice.Attempt, at time.Time) {
	if r.Since.IsZero() {
		r.Since = at
	}
	next := r.Last.Next
	if again := a.Verdict.Again; !again.IsZero() && (next.Before(at) || again.Before(next)) {
		next = again
	}
	r.LastAt, r.Attempts = at, r.Attempts+1
	r.Last = Last{a.Status, head(a.Response), a.Path, a.Seq, next}
	for e := range a.Events() {
		r.Events.add(e.EventID)
		r.Paths.add(string(e.Path))
	}
}

// head returns the beginning of a response.
func head(text string) string {
	for i := range text {
		if i > maxAnswer {
			return text[:i]
		}
	}
	return text
}

// merge adds newer failures, which are in a record of their own, to the stored record. An
// occurrence after the resolution opens the problem anew, with counts from the beginning; the note
// stays. Counts of an open problem are added, so no failure may be merged twice.
func (r *Record) merge(news *Record) {
	switch {
	case r.Began > news.Began:
		return // the failures are of an earlier subscription
	case r.Began < news.Began:
		*r = *news
		r.State = sluice.ProblemOpen
		return
	case r.State == sluice.ProblemResolved && !news.LastAt.Before(r.ResolvedAt):
		r.State, r.ResolvedAt, r.Opened = sluice.ProblemOpen, time.Time{}, false
		r.Since, r.Events, r.Paths, r.Attempts = news.Since, nil, nil, 0
	}
	r.Attempts += news.Attempts
	r.Events.merge(news.Events)
	r.Paths.merge(news.Paths)
	if news.LastAt.After(r.LastAt) {
		r.LastAt, r.Last = news.LastAt, news.Last
	}
}

// Standing is the current state of a subscription on the replica that serves it.
type Standing struct {
	Parked    int
	Breaker   sluice.Breaker
	Succeeded time.Time // its last successful delivery here; zero: unknown
	Broke     time.Time // when its breaker last opened here; zero: unknown
}

// act is what to do with a record.
type act int

const (
	leave act = iota
	open      // note that the breaker has opened
	resolve
	remove
)

// due returns what to do with a record now. The states of a record:
//
//	      failure                      a success, and 30 min without failures
//	none ─────────► open ◄────┐        or the breaker closed and nothing parked
//	                │ ▲       │ operator            │
//	                │ └─ acknowledged ──────────────┤
//	       operator │                               ▼
//	                └──► ignored                resolved ──► open: it occurs again
//	                        │ 7 d                   │ 7 d
//	                        └──────► removed ◄──────┘
//
// An operator can also reopen an ignored problem, and ignore a resolved one. The seven days of an
// ignored problem count from its last failure.
func (r *Record) due(s Standing, now time.Time) act {
	switch r.State {
	case sluice.ProblemResolved:
		if now.Sub(r.ResolvedAt) >= keep {
			return remove
		}
		return leave
	case sluice.ProblemIgnored:
		if now.Sub(r.LastAt) >= keep {
			return remove
		}
		return leave
	case sluice.ProblemOpen, sluice.ProblemAcknowledged:
	}
	broken := s.Breaker == sluice.BreakerOpen || s.Breaker == sluice.BreakerHalfOpen
	switch {
	case !r.Opened && (broken || !s.Broke.IsZero() && !s.Broke.Before(r.Since)):
		return open
	case !s.Succeeded.After(r.LastAt):
		return leave
	case now.Sub(r.LastAt) >= quiet, r.Opened && !broken && s.Parked == 0:
		return resolve
	}
	return leave
}
