package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of one list. maxPages bounds the cost of a list with a filter that matches little: such a
// page may be short, and has a cursor. Letters beyond maxDead may be shown twice.
const (
	maxPages = 10     // of the log of attempts
	maxDead  = 10_000 // dead letters that are examined
)

// Query selects deliveries. Limit is required, and at least 1.
type Query struct {
	model.HistoryQuery

	States []State // any of them; none: all
	Cursor string  // Next of the previous page
}

func (q *Query) wants(s State) bool { return len(q.States) == 0 || slices.Contains(q.States, s) }

// Page is a part of a list. A page may have fewer deliveries than the limit, or none, and still
// have a next one.
type Page struct {
	Deliveries []Delivery
	Next       string // for Cursor; empty: last page
}

// cursor is the position in each of the sources of a list. The text is "ATTEMPTS.LETTERS.LANES",
// such as "812.1.0".
type cursor struct {
	attempts, letters uint64 // position of the last one shown; 0: none was shown; 1: all were
	lanes             int    // number shown
}

// exhausted is the position before which there are no more elements.
const exhausted = 1

// parseCursor parses a cursor. It returns the zero cursor for "". Code InvalidRequest for a text
// that String does not return.
func parseCursor(text string) (cursor, error) {
	var c cursor
	if text == "" {
		return c, nil
	}
	if _, _ = fmt.Sscanf(text, "%d.%d.%d", &c.attempts, &c.letters, &c.lanes); c.lanes < 0 || c.String() != text {
		return c, model.ForeignCursor(text)
	}
	return c, nil
}

// String returns the cursor in the form that parseCursor reads.
func (c cursor) String() string { return fmt.Sprintf("%d.%d.%d", c.attempts, c.letters, c.lanes) }

// entry is a delivery of a list, with its source.
type entry struct {
	d     Delivery
	at    time.Time // time of the last change
	place uint64
}

// listing is one list under construction.
//
//	attempts ─ newest first ─┐
//	letters ── newest first ─┼─► merge: by time, up to the limit ─► page, cursor of each source
//	forgotten lanes ─────────┘
//
// It is used for one page, by one goroutine.
type listing struct {
	e     *Explainer
	sub   *sluice.Subscription
	q     Query
	from  cursor
	lanes []sluice.Parked
	dead  map[uint64]*sluice.DeadLetter // read when needed
}

// List returns a subscription's deliveries in the order of their last change, newest first. A
// delivery has the place of its last attempt, and may occur on several pages. Without an attempt in
// the log, it has the place of its dead letter or of its parked lane. Code InvalidRequest for a
// cursor of another list. The cost is up to maxPages reads of attempts and as many of dead letters,
// and all parked lanes.
func (e *Explainer) List(ctx context.Context, sub *sluice.Subscription, q Query) (Page, error) {
	l := listing{e: e, sub: sub, q: q}
	var err error
	if l.from, err = parseCursor(q.Cursor); err != nil {
		return Page{}, err
	}
	if sub.State != sluice.Cancelled { // its lanes are no longer sent, though their records may remain
		if l.lanes, err = e.history.ParkedLanes(ctx, sub); err != nil {
			return Page{}, err
		}
	}
	attempts, moreAttempts, err := l.attempts(ctx)
	if err != nil {
		return Page{}, err
	}
	letters, moreLetters, err := l.letters(ctx)
	if err != nil {
		return Page{}, err
	}
	lanes, err := l.forgotten(ctx)
	if err != nil {
		return Page{}, err
	}
	return l.merge(attempts, letters, lanes, cursor{attempts: moreAttempts, letters: moreLetters}), nil
}

// gather reads pages until there are enough entries, and returns the next position.
func gather[T any](before uint64, limit int,
	read func(before uint64, limit int) ([]model.Placed[T], uint64, error), take func(*T) (entry, bool, error),
) (found []entry, next uint64, err error) {
	if before == exhausted {
		return nil, exhausted, nil
	}
	for range maxPages {
		page, older, err := read(before, limit-len(found))
		if err != nil {
			return nil, 0, err
		}
		if found, err = pick(found, page, take); err != nil {
			return nil, 0, err
		}
		if before = older; older == 0 {
			return found, exhausted, nil
		}
		if len(found) >= limit {
			break
		}
	}
	return found, before, nil
}

// pick adds the entries that take accepts, with the places of their elements. An error of take ends
// it.
func pick[T any](found []entry, page []model.Placed[T], take func(*T) (entry, bool, error)) ([]entry, error) {
	for i := range page {
		ent, ok, err := take(&page[i].Value)
		if err != nil {
			return nil, err
		}
		if ok {
			ent.place = page[i].Place
			found = append(found, ent)
		}
	}
	return found, nil
}

// attempts returns deliveries by their last attempt, and the next position.
func (l *listing) attempts(ctx context.Context) (found []entry, next uint64, err error) {
	seen := map[uint64]bool{}
	return gather(l.from.attempts, l.q.Limit, func(before uint64, limit int) ([]model.Placed[sluice.Attempt], uint64, error) {
		return l.e.history.Attempts(ctx, l.sub, l.page(before, limit))
	}, func(a *sluice.Attempt) (entry, bool, error) {
		for one := range a.Events() { // the first wanted event stands for its batch
			if !l.q.Wants(one.EventID, one.Seq, one.Path, one.Type, a.StartedAt) || seen[one.Seq] {
				continue
			}
			for other := range a.Events() {
				seen[other.Seq] = true
			}
			return l.attempted(ctx, a, one)
		}
		return entry{}, false, nil
	})
}

// page returns the query for one page of a source.
func (l *listing) page(before uint64, limit int) model.HistoryQuery {
	q := l.q.HistoryQuery
	q.Before, q.Limit = before, limit
	return q
}

// attempted returns the delivery of an attempt, if the query wants it and it is not shown elsewhere
// in the list.
func (l *listing) attempted(ctx context.Context, a *sluice.Attempt, of sluice.EventRef) (entry, bool, error) {
	ent := entry{d: Delivery{EventID: of.EventID, Seq: of.Seq, Path: of.Path, Type: of.Type}, at: a.StartedAt}
	ent.d.attempted(a)
	if ent.d.State == Retrying || ent.d.State == Held {
		shown, err := l.waits(ctx, &ent.d)
		if !shown {
			return ent, false, err
		}
	}
	return ent, l.q.wants(ent.d.State), nil
}

// waits sets the state of a delivery whose last attempt in the list was to be retried, or was held.
// If its lane is parked, the lane has the time of the retry, or waits for an operator. Otherwise
// there may be a dead letter, which is shown separately if it is about more than the attempt. A
// letter that counts more attempts belongs to a later attempt.
func (l *listing) waits(ctx context.Context, d *Delivery) (shown bool, err error) {
	for i := range l.lanes {
		if lane := &l.lanes[i]; lane.FromSeq == d.Seq && lane.EventID == d.EventID || lane.FromSeq < d.Seq && d.Seq <= lane.BatchTo {
			d.parked(lane)
			return true, nil
		}
	}
	letter, err := l.letterOf(ctx, d.Seq)
	if err != nil {
		return false, err
	}
	switch {
	case letter == nil || letter.At.Before(d.LastAttemptAt): // older than the new attempt
	case showsItself(letter):
		return false, nil
	case d.State == Held || letter.Attempts <= d.AttemptCount: // it was discarded, or could not be sent again
		d.State, d.Reason, d.NextAttemptAt = Dead, string(letter.Reason), nil
		return true, nil
	}
	if l.sub.State == sluice.Cancelled {
		d.State, d.Reason, d.NextAttemptAt = Dead, l.sub.Reason, nil
	}
	return true, nil
}

// letterOf returns the dead letter of an event; nil if there is none.
func (l *listing) letterOf(ctx context.Context, seq uint64) (*sluice.DeadLetter, error) {
	if l.dead == nil {
		letters, _, err := l.e.history.LetterHistory(ctx, l.sub, model.HistoryQuery{Limit: maxDead})
		if err != nil {
			return nil, err
		}
		l.dead = map[uint64]*sluice.DeadLetter{}
		for i := range letters {
			l.dead[letters[i].Value.Seq] = &letters[i].Value
		}
	}
	return l.dead[seq], nil
}

// showsItself reports whether a dead letter is shown regardless of attempts, because it is about no
// attempt or about more than one.
func showsItself(letter *sluice.DeadLetter) bool {
	return letter.Attempts == 0 || letter.Reason == sluice.Expired
}

// parked sets the state from the lane that the delivery heads.
func (d *Delivery) parked(lane *sluice.Parked) {
	if lane.Held != "" {
		d.State, d.Reason, d.NextAttemptAt = Held, string(lane.Held), nil
		return
	}
	d.State, d.Reason, d.NextAttemptAt = Retrying, "", &lane.NextAt
}

// letters returns the deliveries of dead letters without an attempt in the list.
func (l *listing) letters(ctx context.Context) (found []entry, next uint64, err error) {
	if !l.q.wants(Dead) {
		return nil, exhausted, nil
	}
	first, err := l.e.history.FirstAttemptAt(ctx, l.sub)
	if err != nil {
		return nil, 0, err
	}
	return gather(l.from.letters, l.q.Limit, func(before uint64, limit int) ([]model.Placed[sluice.DeadLetter], uint64, error) {
		return l.e.history.LetterHistory(ctx, l.sub, l.page(before, limit))
	}, func(letter *sluice.DeadLetter) (entry, bool, error) {
		shown := showsItself(letter) || first.IsZero() || letter.At.Before(first)
		return entry{d: buried(letter), at: letter.At}, shown, nil
	})
}

// buried returns the delivery of a dead letter. The letter has the number of attempts; its event
// may be missing.
func buried(letter *sluice.DeadLetter) Delivery {
	d := Delivery{
		EventID: letter.EventID, Seq: letter.Seq, LastSeq: letter.LastSeq, Path: letter.Path, State: Dead,
		Reason: string(letter.Reason), AttemptCount: letter.Attempts, LastError: letter.LastError,
	}
	if letter.Event != nil {
		d.Type = letter.Event.Type
	}
	return d
}

// forgotten returns deliveries of parked lanes with heads that have no attempts left in the log.
func (l *listing) forgotten(ctx context.Context) ([]entry, error) {
	if !l.q.wants(Retrying) && !l.q.wants(Held) {
		return nil, nil
	}
	lanes, err := l.e.history.Forgotten(ctx, l.sub, l.lanes)
	if err != nil {
		return nil, err
	}
	var found []entry
	for i := range lanes {
		lane := &lanes[i]
		if !l.q.Wants(lane.EventID, lane.FromSeq, lane.Path, "", lane.Since()) {
			continue
		}
		d := Delivery{EventID: lane.EventID, Seq: lane.FromSeq, Path: lane.Path, AttemptCount: lane.Attempts, LastError: lane.LastError}
		if d.parked(lane); l.q.wants(d.State) {
			found = append(found, entry{at: lane.Since(), d: d})
		}
	}
	slices.SortFunc(found, func(a, b entry) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.d.Seq, b.d.Seq))
	})
	return found[min(l.from.lanes, len(found)):], nil
}

// merge returns a page of the newest entries of three lists. All is the cursor for the case that
// all entries of the first two are shown.
func (l *listing) merge(attempts, letters, lanes []entry, all cursor) Page {
	rest := [3][]entry{attempts, letters, lanes}
	page := Page{Deliveries: []Delivery{}}
	for len(page.Deliveries) < l.q.Limit {
		var newest *[]entry
		for i := range rest {
			if len(rest[i]) > 0 && (newest == nil || rest[i][0].at.After((*newest)[0].at)) {
				newest = &rest[i]
			}
		}
		if newest == nil {
			break
		}
		page.Deliveries = append(page.Deliveries, (*newest)[0].d)
		*newest = (*newest)[1:]
	}
	next := cursor{
		attempts: goOn(attempts, len(attempts)-len(rest[0]), l.from.attempts, all.attempts),
		letters:  goOn(letters, len(letters)-len(rest[1]), l.from.letters, all.letters),
		lanes:    l.from.lanes + len(lanes) - len(rest[2]),
	}
	if next.attempts != exhausted || next.letters != exhausted || len(rest[2]) > 0 {
		page.Next = next.String()
	}
	return page
}

// goOn returns the next position of a source after some of its entries were taken. taken is the
// number of entries on the page. If all entries were taken, the source continues at the position
// all; if none was, at before.
func goOn(source []entry, taken int, before, all uint64) uint64 {
	switch taken {
	case len(source):
		return all
	case 0:
		return before
	}
	return source[taken-1].place
}
