package registry

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of a dry run. Its filter pays as deliveries do, see filter.Pool.
const (
	maxCounted = 10_000          // events that it reads
	countLimit = 5 * time.Second // that it takes
	countBatch = 256
)

// ReplayCount is how many events a replay would deliver.
type ReplayCount struct {
	Count       uint64 `json:"count"`
	Exact       bool   `json:"exact"`       // false: an estimate from a part of them, or the filter cannot be evaluated on some
	Unevaluated uint64 `json:"unevaluated"` // events on which it cannot, of those that were looked at; they are not in Count
}

// Count returns how many events a replay would deliver, of those that whoever asks may see: a filter
// must not tell what is in the others. It looks at up to 10,000 events, for up to 5 s; if there are more, Count is an estimate.
func (r *Registry) Count(ctx context.Context, id string, req ReplayRequest) (ReplayCount, error) {
	sub, rep, err := r.plan(ctx, id, req)
	if err != nil {
		return ReplayCount{}, err
	}
	match, err := filter.CompileWith(sub.Filter, r.needs.Labels)
	if err != nil {
		return ReplayCount{}, err
	}
	limit, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	c := counting{r: r, sub: sub, rep: &rep, match: match, from: rep.From}
	err = c.do(limit)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		err = nil // it took as long as it may
	}
	return c.result(), err
}

// counting is a dry run.
type counting struct {
	r     *Registry
	sub   *sluice.Subscription
	rep   *sluice.Replay
	match *filter.Matcher

	from        uint64 // everything before was looked at
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
			if err := c.look(ctx, &events[i]); err != nil {
				return err
			}
			c.from = events[i].Seq + 1
		}
		read += len(events)
	}
	return nil
}

// look looks at an event. It returns the error of ctx if that is done before the filter is evaluated.
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

// payer returns what a subscription's filter is charged to.
func (r *Registry) payer(sub *sluice.Subscription) filter.Payer {
	p := filter.Payer{Namespace: sub.Namespace}
	if r.needs.Payer != nil {
		p.Principal = r.needs.Payer(sub)
	}
	return p
}
