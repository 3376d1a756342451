package subscription

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a dry run. The filter's evaluations are charged like those of deliveries, see
// filter.Pool.
const (
	maxCounted = 10_000          // events that it reads
	countLimit = 5 * time.Second // timeout
	countBatch = 256
)

// ReplayCount is the number of events that a replay would deliver.
type ReplayCount struct {
	Count uint64 `json:"count"`
	// Exact is false for an estimate, or if the filter cannot be evaluated on some events.
	Exact bool `json:"exact"`
	// Unevaluated is the number of examined events on which the filter cannot be evaluated. Count
	// leaves them out.
	Unevaluated uint64 `json:"unevaluated"`
}

// Count returns the number of events that a replay would deliver and that the caller may see;
// others are not counted, because a filter must not reveal them. It reads up to 10,000 events, for
// up to 5 s; beyond that, Count is an estimate.
func (r *Registry) Count(ctx context.Context, id string, req ReplayRequest) (ReplayCount, error) {
	sub, rep, err := r.plan(ctx, id, req)
	if err != nil {
		return ReplayCount{}, err
	}
	match, err := r.needs.Filters.CompileNow(sub.Filter, r.needs.Labels)
	if err != nil {
		return ReplayCount{}, err
	}
	limit, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	c := counting{r: r, sub: sub, rep: &rep, match: match, from: rep.From}
	err = c.do(limit)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		err = nil // the time limit was reached
	}
	return c.result(), err
}

// counting is the state of a dry run.
type counting struct {
	r     *Registry
	sub   *sluice.Subscription
	rep   *sluice.Replay
	match *filter.Matcher

	from        uint64 // every earlier event was examined
	count       uint64
	unevaluated uint64
}

func (c *counting) do(ctx context.Context) error {
	for read := 0; c.from <= c.rep.To && read < maxCounted; {
		events, _, err := c.r.needs.ReplayLogs.ReadLane(ctx, c.sub, "", c.from, countBatch)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			c.from = c.rep.To + 1
			return nil
		}
		for i := range events {
			if events[i].Err == nil { // otherwise it becomes a dead letter
				if err := c.look(ctx, &events[i].Event); err != nil {
					return err
				}
			}
			c.from = events[i].Seq + 1
		}
		read += len(events)
	}
	return nil
}

// look examines an event. It returns the cause of ctx if ctx ends before the filter is evaluated.
func (c *counting) look(ctx context.Context, ev *sluice.Event) error {
	if ev.Seq > c.rep.To || !c.rep.Wants(ev) || !c.sub.Pattern.Match(ev.Path) || !c.r.shows(ctx, ev) {
		return nil
	}
	ok, known, err := c.r.needs.Filters.Wait(ctx, c.r.payer(c.sub), c.match, ev)
	switch {
	case !known:
		return context.Cause(ctx)
	case err != nil:
		c.unevaluated++
	case ok:
		c.count++
	}
	return nil
}

func (c *counting) result() ReplayCount {
	all := c.from > c.rep.To
	is := ReplayCount{Count: c.count, Exact: all && c.unevaluated == 0, Unevaluated: c.unevaluated}
	if looked := c.from - c.rep.From; !all && looked > 0 {
		is.Count = uint64(float64(c.count) * float64(c.rep.To-c.rep.From+1) / float64(looked))
	}
	return is
}

// payer returns the payer of a subscription's filter.
func (r *Registry) payer(sub *sluice.Subscription) filter.Payer {
	p := filter.Payer{Namespace: sub.Namespace}
	if r.needs.Payer != nil {
		p.Principal = r.needs.Payer(sub)
	}
	return p
}
