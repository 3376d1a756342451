package delivery

import (
	"cmp"
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

// skipToLatest moves a parked lane to its latest event; the events before that are not sent. If one
// of the events has to be decided as a head, the lane stays where it is, and its events are sent
// one after the other.
func (j job) skipToLatest(ctx context.Context, p *park) error {
	if j.r.scope.debounce(j.sub).Quiet == 0 || p.FromSeq >= p.upTo {
		return nil
	}
	latest, err := j.latestIn(ctx, p, p.upTo, 1)
	if err == nil && latest == nil { // after a restart, upTo need not be an event of the lane
		latest, err = j.latestIn(ctx, p, p.FromSeq, readBack)
	}
	if err != nil || latest == nil || latest.Seq == p.FromSeq {
		return err
	}
	j.drop(p)
	if j.r.past.progressOf(&latest.Event).Settled { // it was settled before a crash
		p.moveTo(latest.Seq + 1)
		return nil
	}
	if p.skippedFrom == 0 {
		p.skippedFrom = p.FromSeq
	}
	p.moveTo(latest.Seq)
	p.ahead = []model.ReadEvent{*latest}
	return nil
}

// latestIn returns the last event of a parked lane, from a sequence on, that was settled or can be
// sent. It returns nil if there is none, or if an event has to be decided as a head.
func (j job) latestIn(ctx context.Context, p *park, from uint64, limit int) (latest *model.ReadEvent, err error) {
	for from <= p.upTo {
		var found []model.ReadEvent
		err := j.persist(ctx, func() (err error) {
			found, _, err = j.r.ports.Events.ReadLane(ctx, j.sub, p.Path, from, limit)
			return err
		})
		if err != nil {
			return nil, err
		}
		last, alone := j.lastOf(ctx, found, p.upTo)
		if alone {
			return nil, nil //nolint:nilnil // nil: an event has to be decided as a head
		}
		latest = cmp.Or(last, latest)
		if len(found) < limit {
			break
		}
		from = found[len(found)-1].Seq + 1
	}
	return latest, nil
}

// lastOf returns the last of the events, up to a sequence, that was settled or can be sent. alone
// means that one of them has to be decided as a head.
func (j job) lastOf(ctx context.Context, events []model.ReadEvent, upTo uint64) (last *model.ReadEvent, alone bool) {
	for i := range events {
		ev := &events[i]
		if ev.Seq > upTo {
			break
		}
		stands, alone := j.stands(ctx, ev)
		if alone {
			return nil, true
		}
		if stands {
			last = ev
		}
	}
	return last, false
}

// stands reports whether an event may take the place of those before it: it was settled or can be
// sent. One that the owner may not see takes no place. alone means that it has to be decided as a
// head.
func (j job) stands(ctx context.Context, ev *model.ReadEvent) (stands, alone bool) {
	if j.r.past.progressOf(&ev.Event).Settled {
		return true, false
	}
	wanted, alone := j.joins(ctx, ev)
	if !wanted || alone {
		return false, alone
	}
	d := j.r.egress.decide(j.sub, &ev.Event)
	return d == model.Pass, d != model.Pass && d != model.Withhold
}
