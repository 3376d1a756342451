package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// scope is what a runner delivers: the live deliveries of its subscription, or a replay.
type scope struct {
	lanesOf  string                      // key prefix of its lanes; for live deliveries the subscription's id
	only     func(*sluice.Event) bool    // nil: all events
	rate     sluice.Rate                 // if not zero, it replaces that of the subscription
	conclude func(context.Context) error // stores that everything was delivered; nil: no replay
}

// isReplay reports whether the scope is a replay.
func (s *scope) isReplay() bool { return s.conclude != nil }

// settings returns a subscription with the settings that apply. A replay holds no lanes, because
// operators would not look for them there.
func (s *scope) settings(sub *sluice.Subscription) *sluice.Subscription {
	if !s.isReplay() || sub.Policy.OnDead != sluice.DeadHolds {
		return sub
	}
	giving := *sub
	giving.Policy.OnDead = sluice.DeadContinues
	return &giving
}

// debounce returns the debounce policy that applies; a replay has none.
func (s *scope) debounce(sub *sluice.Subscription) sluice.Debounce {
	if s.isReplay() {
		return sluice.Debounce{}
	}
	return sub.Policy.Debounce
}

// takes reports whether an event is on one of the subscription's paths and belongs to the scope.
func (s *scope) takes(sub *sluice.Subscription, ev *sluice.Event) bool {
	return sub.Pattern.Match(ev.Path) && (s.only == nil || s.only(ev))
}

// laneOf returns the key of a delivery's lane.
func (s *scope) laneOf(sub *sluice.Subscription, d *model.Delivery) string {
	if d.Err != nil && d.Event.Path == "" {
		return streams.LaneKey(s.lanesOf, sluice.OrderNone, "", d.Event.Seq)
	}
	return streams.LaneKey(s.lanesOf, sub.Policy.Ordering, d.Event.Path, d.Event.Seq)
}

// constants are what does not change while a runner serves a subscription.
type constants struct {
	ordering sluice.Ordering // the keys of lanes depend on it
	program  bool            // the subscription runs a program, so the permits are those of programs
	began    time.Time       // Began of the subscription that the source is opened for
}

func constantsOf(sub *sluice.Subscription) constants {
	return constants{ordering: sub.Policy.Ordering, program: runsProgram(sub), began: sub.Began()}
}

// allow reports whether a runner can continue with new settings of its subscription.
func (c *constants) allow(sub *sluice.Subscription) bool {
	return c.ordering == sub.Policy.Ordering && c.began.Equal(sub.Began()) && c.program == runsProgram(sub)
}

// runsProgram reports whether the attempts of a subscription are runs of a module's program.
func runsProgram(sub *sluice.Subscription) bool { return len(sub.Endpoint.Exec) > 0 }
