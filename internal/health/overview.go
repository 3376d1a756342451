package health

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	atOnce = 8                // subscriptions of a page that are read concurrently
	fresh  = time.Second      // callers within this time share a view
	share  = 250              // and for longer after a slow one: making views takes at most 0.4 % of the time
	oldest = 10 * time.Second // but never longer: a slow store must not hide the present
	limit  = 30 * time.Second // for making a view
	p95    = 0.95
)

// Store reads the state of the deliveries of all subscriptions.
type Store interface {
	// Healths returns the records of failing endpoints, by subscription.
	Healths(ctx context.Context) (map[string]model.StoredHealth, error)
	// DeadLetterGauges returns the number of dead letters of each subscription that has some; none
	// if there are too many to count.
	DeadLetterGauges(ctx context.Context, created model.Created) (model.DeadLetterGauges, error)
	// DeadLetterReasons returns the number of dead letters by subscription and reason; nil if there
	// are too many to count, or they were not read yet.
	DeadLetterReasons(ctx context.Context, created model.Created) (map[string]map[sluice.Reason]uint64, error)
	// Brief returns the status of a subscription without its undelivered events.
	Brief(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error)
	// LastAttempt returns the last recorded attempt of a subscription, nil if there is none.
	LastAttempt(ctx context.Context, sub *sluice.Subscription) (*sluice.Attempt, error)
}

// Deps are the dependencies of an overview.
type Deps struct {
	Store         Store
	Subscriptions func(ctx context.Context) ([]*sluice.Subscription, error)
	Hour          func() rollup.Hour
	Minutes       func(sees func(id string, began int64) bool) []rollup.Minute
	Series        func(sub *sluice.Subscription, since time.Time, step time.Duration) []rollup.Point
	Replicas      func() []rollup.Seen
	Now           func() time.Time
}

// Overview ranks subscriptions, and sums them up.
type Overview struct {
	deps   Deps
	census census

	mu    sync.Mutex // held while making a view
	last  view
	until time.Time // the last view is reused until then
}

// view is the state of all subscriptions at a time.
type view struct {
	all     []*known // worst first
	at      time.Time
	counted bool // the dead letters of each subscription were counted
	byID    map[string]*known
}

// created is a model.Created.
func (v *view) created(namespace, id string) (time.Time, bool) {
	k := v.byID[id]
	if k == nil || k.sub.Namespace != namespace {
		return time.Time{}, false
	}
	return k.sub.CreatedAt, true
}

// New returns an overview.
func New(deps Deps) *Overview { return &Overview{deps: deps} }

// known is the state of a subscription in a view.
type known struct {
	sub    *sluice.Subscription
	facts  Facts
	hour   sluice.HourOf
	counts *rollup.Counts // of the last hour; nil: none
	stand  rollup.Standing
	health sluice.Health
	place  place
}

// Facts returns a function that returns a subscription and its facts by its ID; nil if there is
// none.
func (o *Overview) Facts(ctx context.Context) (func(id string) (*sluice.Subscription, *Facts), error) {
	v, err := o.look(ctx)
	if err != nil {
		return nil, err
	}
	return func(id string) (*sluice.Subscription, *Facts) {
		k := v.byID[id]
		if k == nil {
			return nil, nil
		}
		return k.sub, &k.facts
	}, nil
}

// visible returns the subscriptions of a namespace, "" for all, for which sees returns true; a nil
// sees selects all.
func (v *view) visible(namespace string, sees func(*sluice.Subscription) bool) iter.Seq[*known] {
	return func(yield func(*known) bool) {
		for _, k := range v.all {
			if (namespace == "" || k.sub.Namespace == namespace) && (sees == nil || sees(k.sub)) && !yield(k) {
				return
			}
		}
	}
}

// Query selects subscriptions; empty fields select all.
type Query struct {
	Namespace string
	Health    []sluice.Health // any of them
	Limit     int             // 0: all
	Cursor    string          // Next of the previous page
	Visible   func(*sluice.Subscription) bool
	Sparkline bool // include one in each row
}

// Page is a part of the ranked subscriptions.
type Page struct {
	Subscriptions []sluice.SubscriptionHealth
	Counts        map[sluice.Health]int // of all visible subscriptions of the namespace
	Next          string                // empty: last page
}

// List returns a page of the subscriptions, worst first. Code InvalidRequest for an invalid cursor.
func (o *Overview) List(ctx context.Context, q Query) (Page, error) {
	var after place
	var err error
	if q.Cursor != "" {
		if after, err = parseCursor(q.Cursor); err != nil {
			return Page{}, err
		}
	}
	v, err := o.look(ctx)
	if err != nil {
		return Page{}, err
	}
	page := Page{Counts: map[sluice.Health]int{}}
	var picked []*known
	for k := range v.visible(q.Namespace, q.Visible) {
		page.Counts[k.health]++
		if (len(q.Health) == 0 || slices.Contains(q.Health, k.health)) && (q.Cursor == "" || worse(k.place, after) > 0) {
			picked = append(picked, k)
		}
	}
	picked, page.Next = model.FirstPage(picked, q.Limit, func(k **known) string { return (*k).place.cursor() })
	page.Subscriptions, err = o.rows(ctx, picked)
	if q.Sparkline {
		for i := range page.Subscriptions {
			page.Subscriptions[i].Sparkline = o.sparkline(picked[i].sub)
		}
	}
	return page, err
}

// look returns a view, which callers share while it is fresh.
func (o *Overview) look(ctx context.Context) (view, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := o.deps.Now()
	if began.Before(o.until) {
		return o.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	subs, err := o.deps.Subscriptions(ctx)
	if err != nil {
		return view{}, err
	}
	healths, err := o.deps.Store.Healths(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{at: began, all: make([]*known, len(subs)), byID: make(map[string]*known, len(subs))}
	for i, sub := range subs {
		v.all[i] = &known{sub: sub}
		v.byID[sub.ID] = v.all[i]
	}
	dead, err := o.deps.Store.DeadLetterGauges(ctx, v.created)
	if err != nil {
		return view{}, err
	}
	v.counted = dead.Of != nil
	for _, of := range dead.Of {
		v.byID[of.Subscription].facts.DeadLetters = of.Letters
	}
	hour := o.deps.Hour()
	for _, k := range v.all {
		k.judge(healths[k.sub.ID], &hour, began)
	}
	slices.SortFunc(v.all, func(a, b *known) int { return worse(a.place, b.place) })
	now := o.deps.Now()
	o.last, o.until = v, now.Add(min(max(fresh, share*now.Sub(began)), oldest))
	return o.last, nil
}

// judge adds the facts about the subscription, except for its dead letters, and what follows from
// all of them.
func (k *known) judge(h model.StoredHealth, hour *rollup.Hour, now time.Time) {
	sub, f := k.sub, &k.facts
	f.State = sub.State
	if h.Since.Equal(sub.CreatedAt) {
		f.Breaker, f.Unreadable, f.FailingSince = h.Breaker, h.Unopened != "", h.FailingSince
	}
	s := hour.Standings[sub.ID]
	k.stand = s
	f.Parked, f.Held = s.Parked, s.Held
	if s.Breaker == sluice.BreakerOpen || s.Breaker == sluice.BreakerHalfOpen {
		f.Breaker = s.Breaker
	}
	if !s.Oldest.IsZero() {
		f.Lag = now.Sub(s.Oldest)
	}
	if c := hour.Recent[sub.ID]; c != nil && c.Of(sub) {
		f.Attempts, f.Delivered = c.Attempts(), uint64(c.Delivered)
	}
	if c := hour.Counts[sub.ID]; c != nil && c.Of(sub) {
		k.counts = c
		k.hour = sluice.HourOf{Attempts: c.Attempts(), P95: sluice.Duration(c.Quantile(p95).Round(time.Millisecond))}
		if percent, ok := c.Success(); ok {
			k.hour.SuccessPercent = &percent
		}
	}
	k.health = Of(f)
	k.place = placeOf(sub.ID, k.health, f.FailingSince, s.Oldest)
}

// rows returns the full rows of a page's subscriptions.
func (o *Overview) rows(ctx context.Context, picked []*known) ([]sluice.SubscriptionHealth, error) {
	rows, errs := make([]sluice.SubscriptionHealth, len(picked)), make([]error, len(picked))
	each(len(picked), func(i int) { rows[i], errs[i] = o.row(ctx, picked[i]) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// each calls f for 0 to n-1, up to atOnce calls concurrently.
func each(n int, f func(i int)) {
	var asking sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	asking.Wait()
}

// row returns the full row of a subscription, with its condition according to the current state in
// the store.
func (o *Overview) row(ctx context.Context, k *known) (sluice.SubscriptionHealth, error) {
	sub := k.sub
	row := sluice.SubscriptionHealth{
		ID: sub.ID, Namespace: sub.Namespace, Mode: sub.Mode, Pattern: sub.Pattern, URL: sub.Endpoint.URL, Health: k.health,
		State: sub.State, Reason: sub.Reason, Breaker: sluice.BreakerClosed, LastHour: k.hour,
	}
	if !k.facts.FailingSince.IsZero() {
		row.FailingSince = &k.facts.FailingSince
	}
	last, err := o.deps.Store.LastAttempt(ctx, sub)
	if err != nil {
		return row, err
	}
	if last != nil {
		row.LastAttempt = &sluice.LastAnswer{At: last.StartedAt, Outcome: last.Outcome, Status: last.Status, Error: last.Error}
	}
	if sub.Mode != sluice.Push {
		return row, nil
	}
	st, err := o.deps.Store.Brief(ctx, sub)
	if err != nil {
		return row, err
	}
	row.Breaker, row.LagSeconds, row.Backlog, row.SourceError = st.Breaker, st.LagSeconds, st.Backlog, st.SourceError
	row.Parked, row.Held, row.DeadLetters, row.NextAttemptAt = st.Parked, st.Held, st.DeadLetters, st.NextAttemptAt
	f := k.facts
	f.Breaker, f.Unreadable, f.Parked, f.Held, f.DeadLetters = st.Breaker, st.SourceError != "", st.Parked, st.Held, st.DeadLetters
	f.Lag = max(f.Lag, time.Duration(st.LagSeconds*float64(time.Second)))
	row.Health = Of(&f)
	return row, nil
}
