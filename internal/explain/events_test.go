package explain_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// events is a log in memory, whose sequences are places in it, from 1 on.
type events struct {
	all     []sluice.Event
	hidden  int    // of all so many have not come yet: they come while a caller waits
	look    int    // how many events a page looks at; 0: all
	waiting func() // called by Await
	broken  error  // of Window
	fails   error  // of Await
	awaited []uint64
}

var _ explain.Log = (*events)(nil)

func (l *events) Window(ctx context.Context, _ *sluice.Subscription, q model.WindowQuery) (page model.WindowPage, err error) {
	after, _ := strconv.ParseUint(q.After, 10, 64)
	if err := cmp.Or(ctx.Err(), l.broken); err != nil {
		return page, err
	}
	page.Next = after
	for i := range l.all[:len(l.all)-l.hidden] {
		e := &l.all[i]
		if e.Seq <= after {
			continue
		}
		if l.look > 0 && e.Seq > after+uint64(l.look) {
			page.More = true
			break
		}
		if page.Next = e.Seq; q.HasType(e.Type) && q.Wanted(e) {
			page.Events = append(page.Events, *e)
		}
	}
	return page, nil
}

func (l *events) Await(_ context.Context, _ *sluice.Subscription, after uint64, wanted func(*sluice.Event) bool) (uint64, error) {
	l.awaited, l.hidden = append(l.awaited, after), 0
	if l.waiting != nil {
		l.waiting()
	}
	for i := range l.all {
		if e := &l.all[i]; e.Seq > after && wanted(e) {
			return e.Seq - 1, l.fails
		}
	}
	return uint64(len(l.all)), l.fails
}

// log returns a log of events with these types, one for each letter, and so many of them yet to come. A page looks at one of them
// if there are any.
func log(hidden int, types string) *events {
	l := &events{hidden: hidden, look: min(hidden, 1)}
	for i, kind := range strings.Split(types, "") {
		l.all = append(l.all, sluice.Event{Seq: uint64(i + 1), Type: kind, ContentType: "application/json", Data: []byte(`{"n":1,"l":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`)})
	}
	return l
}

// costly is an expression that takes longer than what is evaluated at once.
const costly = `event.data.l.map(x, event.data.l.map(y, x + y)).size() > 0`

func seqs(page model.WindowPage) []uint64 {
	out := []uint64{}
	for i := range page.Events {
		out = append(out, page.Events[i].Seq)
	}
	return out
}

// S0-50…S0-52: the events are those of the log that the filter matches and the caller may see. Who waits is answered as soon
// as there is one.
func TestEvents_AnswerAtOnceOrOnceThereIsOne(t *testing.T) {
	t.Parallel()
	const patience = time.Minute // which no case takes
	visible := func(e *sluice.Event) bool { return e.Seq != 2 }
	tests := []struct {
		name    string
		log     *events
		filter  sluice.Filter
		query   model.WindowQuery
		wait    time.Duration
		want    []uint64
		next    uint64
		more    bool
		awaited []uint64 // where it was waited from
	}{
		{name: "all", log: log(0, "aab"), wait: patience, want: []uint64{1, 2, 3}, next: 3},
		{name: "of the filter", log: log(0, "aba"), filter: sluice.Filter{Types: []string{"a"}}, wait: patience, want: []uint64{1, 3}, next: 3},
		{name: "of a costly filter", log: log(0, "ab"), filter: sluice.Filter{CEL: costly}, wait: patience, want: []uint64{1, 2}, next: 2},
		{name: "a filter that fails on an event leaves it out", log: log(0, "a"), filter: sluice.Filter{CEL: `event.data.n / 0 == 1 || event.data.n == 1`}, want: []uint64{1}, next: 1},
		{name: "a filter that fails on all leaves out all", log: log(0, "a"), filter: sluice.Filter{CEL: `event.data.n / 0 == 1`}, want: []uint64{}, next: 1},
		{name: "what may be seen", log: log(0, "aaa"), query: model.WindowQuery{Wanted: visible}, want: []uint64{1, 3}, next: 3},
		{name: "none, without a wait", log: log(1, "aa"), query: model.WindowQuery{After: "1"}, want: []uint64{}, next: 1},
		{name: "a page without one, and more behind it", log: &events{all: log(0, "ab").all, look: 1}, query: model.WindowQuery{Types: []string{"b"}}, wait: patience, want: []uint64{}, next: 1, more: true},
		{name: "the next one", log: log(2, "aab"), query: model.WindowQuery{After: "1"}, wait: patience, want: []uint64{2}, next: 2, more: true, awaited: []uint64{1}},
		{name: "the next of the type", log: log(2, "aab"), query: model.WindowQuery{After: "1", Types: []string{"b"}}, wait: patience, want: []uint64{3}, next: 3, awaited: []uint64{1}},
		{name: "the next of the filter", log: log(2, "aab"), filter: sluice.Filter{Types: []string{"b"}}, query: model.WindowQuery{After: "1"}, wait: patience, want: []uint64{3}, next: 3, awaited: []uint64{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := explain.New(nil, tt.log, explain.Options{}).Events(t.Context(), &sluice.Subscription{Filter: tt.filter}, tt.query, tt.wait)
			require.NoError(t, err)
			require.Equal(t, tt.want, seqs(page))
			require.Equal(t, []any{tt.next, tt.more}, []any{page.Next, page.More})
			require.Equal(t, tt.awaited, tt.log.awaited)
		})
	}
}

// A wait that ends without an event says up to where there is none, so that the next request begins there.
func TestEvents_WaitInVainSaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := log(2, "aaa")
	l.waiting = cancel
	page, err := explain.New(nil, l, explain.Options{}).Events(ctx, &sluice.Subscription{}, model.WindowQuery{After: "1", Types: []string{"b"}}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, model.WindowPage{Next: 3}, page)
}

func TestEvents_ErrorsAreReturned(t *testing.T) {
	t.Parallel()
	broken := errors.New("unreachable")
	sub := &sluice.Subscription{}
	l := &events{broken: broken}
	_, err := explain.New(nil, l, explain.Options{}).Events(t.Context(), sub, model.WindowQuery{}, time.Minute)
	require.ErrorIs(t, err, broken)
	require.Empty(t, l.awaited, "at once")

	l = log(1, "aa")
	l.fails = broken
	_, err = explain.New(nil, l, explain.Options{}).Events(t.Context(), sub, model.WindowQuery{After: "1"}, time.Minute)
	require.ErrorIs(t, err, broken, "of the wait")

	_, err = explain.New(nil, log(0, "a"), explain.Options{}).Events(t.Context(), &sluice.Subscription{Filter: sluice.Filter{CEL: "1 +"}}, model.WindowQuery{}, 0)
	require.Error(t, err, "of a filter that does not compile")
}

// Issue 13, attack 4: where a filter is not evaluated in time there is no page, neither at once nor after a wait: one with less on it
// would be taken for all there is.
func TestEvents_RefusedWhenFilterIsNotEvaluatedInTime(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{Filter: sluice.Filter{CEL: costly}}
	for name, l := range map[string]*events{"at once": log(0, "aa"), "after a wait": log(1, "aa")} {
		ctx, cancel := context.WithCancel(t.Context())
		over := func(e *sluice.Event) bool {
			cancel()
			return true
		}
		page, err := explain.New(nil, l, explain.Options{}).Events(ctx, sub, model.WindowQuery{After: strconv.Itoa(l.hidden), Wanted: over}, time.Minute)
		require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err), name)
		require.Empty(t, page.Events, name)
	}
}

func TestDelivery_NotFoundIfNothingIsKnown(t *testing.T) {
	t.Parallel()
	r := &records{t: t, fails: map[string]error{"Trail": sluice.Errorf(sluice.NotFound, "nothing is known")}}
	d, err := explain.New(r, nil, explain.Options{}).Delivery(t.Context(), &sluice.Subscription{}, "e", "")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.Empty(t, d)
}

// The last attempts at an event come in the order in which they were made.
func TestAttempts_OldestFirst(t *testing.T) {
	t.Parallel()
	r := &records{t: t, attempts: []sluice.Attempt{settled("e", 7, 9), settled("x", 8, 8), failed("e", 7, 5), failed("e", 7, 1)}}
	got, err := explain.New(r, nil, explain.Options{}).Attempts(t.Context(), &sluice.Subscription{}, "e", 2)
	require.NoError(t, err)
	require.Equal(t, []sluice.Attempt{failed("e", 7, 5), settled("e", 7, 9)}, got)
}
