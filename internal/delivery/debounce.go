package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
)

// A subscription with a debounce policy parks each lane at its first event, without an attempt,
// until the path is quiet. So events wait in the log instead of the window, even across a restart.
// When a lane is due, because its path is quiet or for a retry, it continues with its latest event.

// mostQuietLanes bounds the lanes of a subscription that wait for their paths to be quiet, because
// each takes a record and memory.
const mostQuietLanes = 10_000

// defersNew reports whether a live lane is to be parked until its path is quiet. If too many lanes
// wait already, it is not.
func (b *laneTable) defersNew(l *lane) bool {
	return b.debounce.Quiet > 0 && l.queue[0].Err == nil && b.quiet < mostQuietLanes
}

// deferred makes a parked lane wait for its path to be quiet, if it has something to send and its
// head has not failed.
func (b *laneTable) deferred(p *park, since time.Time) {
	if b.debounce.Quiet == 0 || p.Attempts > 0 || p.Held != "" || p.ended() {
		return
	}
	p.waits, p.since = true, since
	b.quiet++
}

// undefer ends a lane's wait for its path to be quiet.
func (b *laneTable) undefer(p *park) {
	if p.waits {
		p.waits = false
		b.quiet--
	}
}

// defers reports whether a lane that is due has to wait longer, because an event has arrived
// meanwhile, and sets its next time.
func (b *laneTable) defers(p *park, now time.Time) bool {
	if !p.waits || b.debounce.Quiet == 0 {
		return false
	}
	until := earlier(p.latest, now).Add(b.debounce.Quiet.Std()) // the clock of the log may be ahead
	if most := b.debounce.Max.Std(); most > 0 {
		until = earlier(until, p.since.Add(most))
	}
	if !until.After(now) {
		return false
	}
	p.NextAt = until
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// skipToLatest moves a parked lane to its latest event that was settled or can be sent, or to its
// last one if there is none; the events before that are not sent. If one of the events has to be
// decided as a head, the lane stays where it is, and its events are sent one after the other.
func (j job) skipToLatest(ctx context.Context, p *park) error {
	if j.r.scope.debounce(j.sub).Quiet == 0 || p.FromSeq >= p.upTo {
		return nil
	}
	rest, err := j.restOf(ctx, p, p.upTo, 1)
	if err == nil && rest.latest == nil && !rest.alone { // withheld, or, after a restart, no event of the lane
		rest, err = j.restOf(ctx, p, p.FromSeq, readBack)
	}
	to := rest.latest
	if to == nil && p.EventID == "" && !rest.expired {
		to = rest.last
	}
	if err != nil || rest.alone || to == nil || to.Seq == p.FromSeq {
		return err
	}
	j.drop(p)
	if j.r.past.progressOf(&to.Event).Settled { // it was settled before a crash
		p.moveTo(to.Seq + 1)
		return nil
	}
	if rest.latest != nil && p.skippedFrom == 0 {
		p.skippedFrom = p.FromSeq
	}
	p.moveTo(to.Seq)
	p.ahead = []model.ReadEvent{*to}
	return nil
}

// remainder is the part of a parked lane that has not been sent, from a sequence on.
type remainder struct {
	latest  *model.ReadEvent // the last event that was settled or can be sent; nil: none
	last    *model.ReadEvent // the last event; nil: none
	alone   bool             // an event has to be decided as a head; those behind it were not looked at
	expired bool             // events may have left the log unsent
}

// restOf reads the remainder of a parked lane from a sequence on.
func (j job) restOf(ctx context.Context, p *park, from uint64, limit int) (all remainder, err error) {
	for from <= p.upTo && !all.alone {
		var found []model.ReadEvent
		var first uint64
		err := j.persist(ctx, func() (err error) {
			found, first, err = j.r.ports.Events.ReadLane(ctx, j.sub, p.Path, from, limit)
			return err
		})
		if err != nil {
			return remainder{}, err
		}
		all.expired = all.expired || first > from
		j.extend(ctx, &all, found, p.upTo)
		if len(found) < limit {
			break
		}
		from = found[len(found)-1].Seq + 1
	}
	return all, nil
}

// extend adds the next events, up to a sequence, to the remainder of a lane.
func (j job) extend(ctx context.Context, all *remainder, events []model.ReadEvent, upTo uint64) {
	for i := range events {
		ev := &events[i]
		if ev.Seq > upTo {
			return
		}
		var stands bool
		if stands, all.alone = j.stands(ctx, ev); all.alone {
			return
		}
		all.last = ev
		if stands {
			all.latest = ev
		}
	}
}

// stands reports whether an event may take the place of those before it: it was settled or can be
// sent. One that the owner may not see takes no place. alone means that it has to be decided as a
// head.
func (j job) stands(ctx context.Context, ev *model.ReadEvent) (stands, alone bool) {
	if j.r.past.progressOf(&ev.Event).Settled {
		return true, false
	}
	wanted, alone := j.joins(ctx, ev)
	if !wanted && !alone {
		return false, false
	}
	d := j.r.egress.decide(j.sub, &ev.Event)
	if d == model.Withhold {
		return false, false
	}
	return wanted, alone || d != model.Pass
}
