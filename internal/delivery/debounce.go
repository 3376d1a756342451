package delivery

import (
	"cmp"
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A subscription with a debounce parks each lane at its first event, without an attempt, until the path is quiet: its
// events wait in the log, not in the window, also across a restart. A lane that is due, for this reason or to try
// again, goes on with its latest event.

// debounce returns the debounce of a runner; a replay has none.
func (r *runner) debounce(sub *sluice.Subscription) sluice.Debounce {
	if r.conclude != nil {
		return sluice.Debounce{}
	}
	return sub.Policy.Debounce
}

// mostQuietLanes bounds the lanes of a subscription that wait for their paths to be quiet: each is a record, and memory.
const mostQuietLanes = 10_000

// defersNew reports whether a live lane is parked until its path is quiet. If too many wait, it is sent at once.
func (b *laneTable) defersNew(l *lane) bool {
	return b.debounce.Quiet > 0 && l.queue[0].Err == nil && b.quiet < mostQuietLanes
}

// deferred enters whether a lane that was parked, or that has sent its latest event, waits for its path to be quiet.
func (b *laneTable) deferred(p *park, since time.Time) {
	if b.debounce.Quiet == 0 || p.Attempts > 0 || p.Held != "" || p.ended() {
		return
	}
	p.waits, p.since = true, since
	b.quiet++
}

// undefer enters that a lane's events are sent.
func (b *laneTable) undefer(p *park) {
	if p.waits {
		p.waits = false
		b.quiet--
	}
}

// defers reports whether a lane that is due waits on, because an event has come meanwhile, and sets until when.
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

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// coverSuperseded enters which events need not be sent any more, because a later one on their path was sent before a restart: their
// acknowledgements may be lost.
func (r *runner) coverSuperseded() {
	for seq, p := range r.recovered {
		if p.SupersedesFrom == 0 {
			continue
		}
		lane := streams.LaneKey(r.lanesOf, r.ordering, p.Path, seq)
		of, ok := r.covered[lane]
		if !ok {
			of = reach{p.SupersedesFrom, seq}
		}
		r.covered[lane] = reach{min(of.from, p.SupersedesFrom), max(of.to, seq)}
	}
}

// skipToLatest moves a parked lane to its latest event, in whose favour those before it are not sent. It stays where it is if one
// has to be looked at alone: then they are sent one after the other.
func (j job) skipToLatest(ctx context.Context, p *park) error {
	if j.r.debounce(j.sub).Quiet == 0 || p.FromSeq >= p.upTo {
		return nil
	}
	latest, err := j.latestIn(ctx, p, p.upTo, 1)
	if err == nil && latest == nil { // after a restart, the end of the lane is no event of it
		latest, err = j.latestIn(ctx, p, p.FromSeq, readBack)
	}
	if err != nil || latest == nil || latest.Seq == p.FromSeq {
		return err
	}
	j.drop(p)
	if j.r.progressOf(latest).Settled { // before a crash
		p.moveTo(latest.Seq + 1)
		return nil
	}
	if p.skippedFrom == 0 {
		p.skippedFrom = p.FromSeq
	}
	p.moveTo(latest.Seq)
	p.ahead = []sluice.Event{*latest}
	return nil
}

// latestIn returns the last event of a parked lane, from a sequence on, that was settled or can be sent; nil if there is none, or one
// has to be looked at alone.
func (j job) latestIn(ctx context.Context, p *park, from uint64, limit int) (latest *sluice.Event, err error) {
	for from <= p.upTo {
		var found []sluice.Event
		err := j.persist(ctx, func() (err error) {
			found, _, err = j.r.ports.Events.ReadLane(ctx, j.sub, p.Path, from, limit)
			return err
		})
		if err != nil {
			return nil, err
		}
		last, alone := j.lastOf(ctx, found, p.upTo)
		if alone {
			return nil, nil //nolint:nilnil // it is no error
		}
		latest = cmp.Or(last, latest)
		if len(found) < limit {
			break
		}
		from = found[len(found)-1].Seq + 1
	}
	return latest, nil
}

// lastOf returns the last of some events, up to a sequence, that was settled or can be sent; alone if one has to be looked at alone.
func (j job) lastOf(ctx context.Context, events []sluice.Event, upTo uint64) (last *sluice.Event, alone bool) {
	for i := range events {
		ev := &events[i]
		if ev.Seq > upTo {
			break
		}
		if j.r.progressOf(ev).Settled {
			last = ev
			continue
		}
		wanted, alone := j.joins(ctx, ev)
		if alone {
			return nil, true
		}
		if wanted {
			last = ev
		}
	}
	return last, false
}
