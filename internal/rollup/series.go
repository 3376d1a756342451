package rollup

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	hour    = 60      // minutes
	day     = 24 * 60 // minutes
	minutes = hour + 1
)

// Point has the attempts of one step of a series.
type Point struct {
	At time.Time
	Counts
}

// Series returns the attempts of a subscription since a time of the last day, in steps of whole
// minutes that begin with the hours and days of UTC. The last step is not complete yet. The first
// step may begin before since; it then has only the attempts from at most five minutes before
// since.
func (b *Book) Series(sub *sluice.Subscription, since time.Time, step time.Duration) []Point {
	now, wide := minuteOf(b.deps.Now()), int64(step/time.Minute)
	from := max(minuteOf(since), now-day+1)
	points := make([]Point, now/wide-from/wide+1)
	of := owner{sub.ID, sub.CreatedAt.UnixMilli()}
	for i := range points {
		points[i].At, points[i].began = time.Unix((from/wide+int64(i))*wide*60, 0).UTC(), of.began
	}
	add := func(minute int64, c *Counts) {
		if i := minute/wide - from/wide; i >= 0 && i < int64(len(points)) {
			c.began = of.began
			points[i].add(c)
		}
	}
	openMinute, open := b.open.read1(of)
	b.mu.Lock()
	defer b.mu.Unlock()
	edge := now - hour // later attempts are known by minute
	if wide > 1 {
		edge = (edge + recent - 1) / recent * recent
	}
	for minute, columns := range b.minutes {
		if minute < max(edge, from/wide*wide) {
			continue
		}
		for _, c := range columns {
			if cell := c.find(of); cell != nil {
				counts, _, _ := readCell(cell)
				add(minute, &counts)
			}
		}
	}
	if open != nil {
		add(openMinute, open)
	}
	if wide > 1 {
		b.addHours(of, edge, add)
	}
	return points
}

// addHours adds the steps of five minutes that began before a minute.
func (b *Book) addHours(of owner, before int64, add func(minute int64, c *Counts)) {
	for hourOf, columns := range b.hours {
		for _, c := range columns {
			eachCell(c.find(of), func(slot int, counts *Counts) {
				if minute := hourOf*hour + int64(slot*recent); minute < before {
					add(minute, counts)
				}
			})
		}
	}
}

// Minute has the attempts of all subscriptions in a minute.
type Minute struct {
	At                time.Time
	Delivered, Failed uint64
}

// Minutes returns the attempts of the last hour by minute, of the subscriptions for which sees
// returns true, or of all if sees is nil. The last minute is not complete yet.
func (b *Book) Minutes(sees func(id string, began int64) bool) []Minute {
	now := minuteOf(b.deps.Now())
	all := make([]Minute, minutes)
	for i := range all {
		all[i].At = time.Unix((now-hour+int64(i))*60, 0).UTC()
	}
	of := func(minute int64) *Minute {
		if i := minute - now + hour; i >= 0 && i < minutes {
			return &all[i]
		}
		return new(Minute) // it is over, or not begun
	}
	b.open.addTo(of, sees)
	b.mu.Lock()
	defer b.mu.Unlock()
	for minute, columns := range b.minutes {
		for _, c := range columns {
			c.addTo(of(minute), sees)
		}
	}
	return all
}

// addTo adds the attempts of the open minute, of the subscriptions for which sees returns true, or
// of all if sees is nil.
func (o *open) addTo(of func(minute int64) *Minute, sees func(id string, began int64) bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	m := of(o.minute)
	for id, t := range o.all {
		if sees == nil || sees(id, t.began) {
			m.Delivered, m.Failed = m.Delivered+uint64(t.delivered.Load()), m.Failed+uint64(t.failed.Load())
		}
	}
}

// addTo adds the attempts of the subscriptions for which sees returns true, or of all if sees is
// nil.
func (c *column) addTo(m *Minute, sees func(id string, began int64) bool) {
	if sees == nil {
		m.Delivered, m.Failed = m.Delivered+c.delivered, m.Failed+c.failed
		return
	}
	for i, h := range c.owners {
		if of := h.Value(); sees(of.id, of.began) {
			counts, _, _ := readCell(c.at(i))
			m.Delivered, m.Failed = m.Delivered+uint64(counts.Delivered), m.Failed+uint64(counts.Failed)
		}
	}
}
