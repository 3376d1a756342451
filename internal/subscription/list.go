package subscription

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Query filters subscriptions; empty fields match all.
type Query struct {
	Namespace string
	Mode      sluice.Mode
	State     sluice.State
	ByID      bool   // order by ID, instead of newest first
	Limit     int    // 0: all
	Cursor    string // NextCursor of the previous page
	// Visible reports whether the caller may see a subscription; nil: it may see all.
	Visible func(*sluice.Subscription) bool
}

// Page is one page of subscriptions.
type Page struct {
	Subscriptions []*sluice.Subscription
	NextCursor    string // empty on the last page
}

// List returns a page of the subscriptions that match, in the order of the query, without secrets.
// Code InvalidRequest for an invalid cursor.
func (r *Registry) List(ctx context.Context, q Query) (Page, error) {
	after, err := q.after()
	if err != nil {
		return Page{}, err
	}
	all, err := r.needs.Subscriptions.List(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("list subscriptions: %w", err)
	}
	picked := slices.DeleteFunc(all, func(s *sluice.Subscription) bool {
		return !q.picks(s) || q.Cursor != "" && q.compare(placeOf(s), after) <= 0
	})
	slices.SortFunc(picked, func(a, b *sluice.Subscription) int { return q.compare(placeOf(a), placeOf(b)) })
	page, next := model.FirstPage(picked, q.Limit, func(s **sluice.Subscription) string { return q.cursor(*s) })
	return Page{Subscriptions: page, NextCursor: next}, nil
}

func (q Query) picks(s *sluice.Subscription) bool {
	return (q.Namespace == "" || q.Namespace == s.Namespace) &&
		(q.Mode == "" || q.Mode == s.Mode) &&
		(q.State == "" || q.State == s.State) &&
		(q.Visible == nil || q.Visible(s))
}

func (q Query) compare(a, b place) int {
	if q.ByID {
		return strings.Compare(a.id, b.id)
	}
	return newestFirst(a, b)
}

// place is the position of a subscription in a list.
type place struct {
	created time.Time
	id      string
}

func placeOf(s *sluice.Subscription) place { return place{s.CreatedAt, s.ID} }

func newestFirst(a, b place) int {
	return cmp.Or(b.created.Compare(a.created), strings.Compare(b.id, a.id))
}

// byID takes the place of the time in cursors of the order by ID.
const byID = "id"

// cursor returns the cursor for the page that follows a subscription.
func (q Query) cursor(s *sluice.Subscription) string {
	began := s.CreatedAt.Format(time.RFC3339Nano)
	if q.ByID {
		began = byID
	}
	return base64.RawURLEncoding.EncodeToString([]byte(began + " " + s.ID))
}

// After returns the cursor for the page that follows a subscription, in the query's order.
func (q Query) After(s *sluice.Subscription) string { return q.cursor(s) }

// after returns the place in the query's cursor. Code InvalidRequest for a cursor of another order.
func (q Query) after() (place, error) {
	if q.Cursor == "" {
		return place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	began, id, _ := strings.Cut(string(text), " ")
	if err == nil && q.ByID && began == byID {
		return place{id: id}, nil
	}
	at, timeErr := time.Parse(time.RFC3339Nano, began)
	if err != nil || timeErr != nil || q.ByID {
		return place{}, model.ForeignCursor(q.Cursor)
	}
	return place{at, id}, nil
}
