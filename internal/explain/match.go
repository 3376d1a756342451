package explain

import (
	"context"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// reasonUnevaluated is the reason of an event on which the filter cannot be evaluated.
const reasonUnevaluated = string(sluice.FilterError)

// Match is the result of a subscription's pattern and filter for an event, regardless of where the
// subscription starts. Reason is "" if it matches.
type Match struct {
	Matches     bool
	Reason      string // pattern, filter or filter_error
	Explanation string // a sentence
}

// Match evaluates a subscription's pattern and filter on an event, which need not be stored. It
// charges asker, as Delivery does. Code QuotaExceeded.
func (e *Explainer) Match(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, asker string) (Match, error) {
	limit, cancel := context.WithTimeout(ctx, filterPatience)
	defer cancel()
	q := question{
		sub: sub, t: &model.Trail{Path: ev.Path, Event: ev}, d: &Delivery{},
		labels: e.labels, judge: e.judged(limit, filter.Payer{Principal: asker, Namespace: sub.Namespace}),
	}
	if !sub.Pattern.Match(ev.Path) {
		q.say(NotWanted, reasonPattern, "The pattern %s does not match the path %s.", sub.Pattern, ev.Path)
		return q.match(), nil
	}
	whole, err := e.filters.CompileNow(sub.Filter, e.labels)
	if err != nil {
		return Match{}, err
	}
	switch ok, err := q.judge(whole, ev); {
	case sluice.CodeOf(err) == sluice.QuotaExceeded:
		return Match{}, err
	case err != nil:
		q.say(NotWanted, reasonUnevaluated, "The filter cannot be evaluated on it: %s.", err)
	case ok:
		return Match{Matches: true, Explanation: "The pattern and the filter match."}, nil
	default:
		q.filtered()
	}
	return q.match(), q.err
}

func (q *question) match() Match { return Match{Reason: q.d.Reason, Explanation: q.d.Explanation} }
