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
	Limit     int    // 0: all
	Cursor    string // NextCursor of the previous page
	// Whether the caller may see the subscription; nil: all.
	Visible func(*sluice.Subscription) bool
}

// Page is one page of subscriptions, newest first.
type Page struct {
	Subscriptions []*sluice.Subscription
	NextCursor    string // empty on the last page
}

// List returns a page of the matching subscriptions, newest first and without secrets. Code
// InvalidRequest for an invalid cursor.
func (r *Registry) List(ctx context.Context, q Query) (Page, error) {
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	all, err := r.needs.Subscriptions.List(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("list subscriptions: %w", err)
	}
	picked := slices.DeleteFunc(all, func(s *sluice.Subscription) bool {
		return !q.picks(s) || q.Cursor != "" && newestFirst(placeOf(s), after) <= 0
	})
	slices.SortFunc(picked, func(a, b *sluice.Subscription) int { return newestFirst(placeOf(a), placeOf(b)) })
	page, next := model.FirstPage(picked, q.Limit, func(s **sluice.Subscription) string { return placeOf(*s).cursor() })
	return Page{Subscriptions: page, NextCursor: next}, nil
}

func (q Query) picks(s *sluice.Subscription) bool {
	return (q.Namespace == "" || q.Namespace == s.Namespace) &&
		(q.Mode == "" || q.Mode == s.Mode) &&
		(q.State == "" || q.State == s.State) &&
		(q.Visible == nil || q.Visible(s))
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

func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.created.Format(time.RFC3339Nano) + " " + p.id))
}

func parseCursor(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	created, id, _ := strings.Cut(string(text), " ")
	at, timeErr := time.Parse(time.RFC3339Nano, created)
	if err != nil || timeErr != nil {
		return place{}, model.ForeignCursor(cursor)
	}
	return place{at, id}, nil
}
