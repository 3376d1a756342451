package problem

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Query selects problems; empty fields select all.
type Query struct {
	Namespace    string
	Subscription string
	State        sluice.ProblemState
	Limit        int    // 0: all
	Cursor       string // Next of the previous page
	Visible      func(*sluice.Subscription) bool
}

// Found is a problem with its subscription, and the path and sequence of its last failure.
type Found struct {
	sluice.Problem

	Sub  *sluice.Subscription
	Path sluice.Path
	Seq  uint64
}

// Page is a part of the problems, ordered by state, open ones first, and then by age, the oldest
// first.
type Page struct {
	Problems []Found
	Counts   map[sluice.ProblemState]int // of all visible problems
	Next     string                      // empty: last page
}

// List returns a page of the problems. Code InvalidRequest for an invalid cursor. The cost is O(n
// log n) for all records. Records of deleted subscriptions are left out.
func (b *Book) List(ctx context.Context, q Query) (Page, error) {
	var after place
	if q.Cursor != "" {
		var err error
		if after, err = parsePlace(q.Cursor); err != nil {
			return Page{}, err
		}
	}
	situations, err := b.deps.Situations(ctx)
	if err != nil {
		return Page{}, err
	}
	page, now := Page{Counts: map[sluice.ProblemState]int{}}, b.deps.Now()
	var picked []Found
	for _, r := range b.records() {
		s, is := situations(r.Subscription)
		if !is || !q.selects(&r, &s) {
			continue
		}
		page.Counts[r.State]++
		if f := found(&r, &s, now); (q.State == "" || q.State == r.State) && (q.Cursor == "" || compare(placeOf(&f), after) > 0) {
			picked = append(picked, f)
		}
	}
	slices.SortFunc(picked, func(x, y Found) int { return compare(placeOf(&x), placeOf(&y)) })
	page.Problems, page.Next = model.FirstPage(picked, q.Limit, func(f *Found) string { return placeOf(f).cursor() })
	return page, nil
}

// selects reports whether a query wants a problem, in any state.
func (q *Query) selects(r *Record, s *Situation) bool {
	return s.Sub.CreatedAt.UnixMilli() == r.Began && (q.Namespace == "" || q.Namespace == r.Namespace) &&
		(q.Subscription == "" || q.Subscription == r.Subscription) && (q.Visible == nil || q.Visible(s.Sub))
}

// Get returns a problem. Code NotFound.
func (b *Book) Get(ctx context.Context, id string) (Found, error) {
	r, _, err := b.deps.Store.Get(ctx, id)
	if err != nil {
		return Found{}, unknown(id, err)
	}
	situations, err := b.deps.Situations(ctx)
	if err != nil {
		return Found{}, err
	}
	s, is := situations(r.Subscription)
	if !is || s.Sub.CreatedAt.UnixMilli() != r.Began {
		return Found{}, unknown(id, nil)
	}
	r.counted.events, r.counted.paths = r.Events.count(), r.Paths.count()
	return found(&r, &s, b.deps.Now()), nil
}

// unknown returns the error for a problem that was not found.
func unknown(id string, err error) error {
	if err == nil || sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Errorf(sluice.NotFound, "problem %q not found, or not visible to you", id)
	}
	return err
}

// found returns a problem as it is listed. It shares no memory with the record, except for the time
// of the next attempt.
func found(r *Record, s *Situation, now time.Time) Found {
	p := sluice.Problem{
		ID: r.ID(), Subscription: r.Subscription, Namespace: r.Namespace, Class: r.Class, State: r.State, Since: r.Since, LastAt: r.LastAt,
		Events: r.counted.events, Paths: r.counted.paths, Attempts: r.Attempts, Status: r.Last.Status, Answer: r.Last.Answer,
		Sentence: sentence(r.Class, r.Last.Status), Acts: acts(r, s), Note: r.Note, ChangedBy: r.ChangedBy,
		ResolvedAt: moment(r.ResolvedAt), ChangedAt: moment(r.ChangedAt),
	}
	if r.State != sluice.ProblemResolved && r.Last.Next.After(now) {
		p.NextAttemptAt = &r.Last.Next
	}
	return Found{Problem: p, Sub: s.Sub, Path: r.Last.Path, Seq: r.Last.Seq}
}

// moment returns nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Change changes the state of a problem, or its note. Codes InvalidRequest; NotFound; Conflict if
// it is resolved and the change would acknowledge or reopen it.
func (b *Book) Change(ctx context.Context, id string, c sluice.ProblemChange, by string) error {
	if err := c.Validate(); err != nil {
		return err
	}
	var intent *ledger.Intent
	var refused error
	err := b.change(ctx, id, func(r *Record) act {
		refused = nil
		switch {
		case r.Subscription == "":
			refused = unknown(id, nil)
		case r.State == sluice.ProblemResolved && (c.State == sluice.ProblemAcknowledged || c.State == sluice.ProblemOpen):
			refused = sluice.Errorf(sluice.Conflict, "problem %q is resolved; it opens again when it occurs again", id)
		}
		if refused != nil {
			return leave
		}
		old := view{r.State, r.Note}
		r.State = cmp.Or(c.State, r.State)
		if r.State != sluice.ProblemResolved {
			r.ResolvedAt = time.Time{}
		}
		if c.Note != nil {
			r.Note = *c.Note
		}
		r.ChangedBy, r.ChangedAt = by, b.deps.Now().UTC()
		intent, refused = b.deps.Ledger.Intend(ctx, intent, ledger.Change{
			Actor: by, Action: sluice.ActionProblemChange, Namespace: r.Namespace, Resource: id, Old: old, New: view{r.State, r.Note},
		})
		if refused != nil {
			return leave
		}
		return open
	})
	err = cmp.Or(err, refused)
	if err != nil {
		intent.Fail(ctx, err)
	}
	return err
}

// view is the form of a problem in the ledger. The ledger has nothing else of it: counts change
// with every failure.
type view struct {
	State sluice.ProblemState `json:"state"`
	Note  string              `json:"note,omitempty"`
}

// place is the position of a problem in a list. The cursor is the base64 of "RANK SINCE ID", with
// since in milliseconds. A problem that changes its state between two pages may be shown twice or
// not at all.
type place struct {
	rank  int
	since int64
	id    string
}

func placeOf(f *Found) place {
	return place{slices.Index(sluice.ProblemStates(), f.State), f.Since.UnixMilli(), f.ID}
}

func compare(a, b place) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.since, b.since), strings.Compare(a.id, b.id))
}

func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", p.rank, p.since, p.id))
}

// parsePlace returns the place of a cursor. Code InvalidRequest.
func parsePlace(text string) (p place, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(data), "%d %d %s", &p.rank, &p.since, &p.id)
	}
	if err != nil || p.cursor() != text {
		return place{}, model.ForeignCursor(text)
	}
	return p, nil
}
