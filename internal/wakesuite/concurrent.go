package wakesuite

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"encoding/json"

	"github.com/stretchr/testify/require"
)

// concurrencyTests are about callbacks and appends that happen side by side.
func concurrencyTests() []test {
	return []test{
		{"twenty callbacks at once are done one after the other, each whole", "S1-78 S1-80", false, oneAfterTheOther},
		{"done that is said twenty times at once wakes once", "S1-33 S1-78 S1-79 S1-129", false, doneAtOnce},
		{"the same wake is claimed by twenty at once, another by none", "S1-39 S1-40 S1-41 S1-130", false, claimedAtOnce},
		{"whatever is appended while consumers work is processed by them", "S1-01 S1-120 S1-136 S1-138", false, everythingIsProcessed},
	}
}

// callbacks sends callbacks side by side and returns their outcomes.
func (w *world) callbacks(n notice, count int, each func(i int) fields) []outcome {
	w.t.Helper()
	replies := w.atOnce(count, func(ctx context.Context, i int) (reply, error) {
		return w.try(ctx, "POST "+n.Callback, bodyOf(n, each(i)), "Authorization", bearer(n.Token))
	})
	outcomes := make([]outcome, count)
	for i, r := range replies {
		outcomes[i] = decode[outcome](w, r.body)
		outcomes[i].reply = r
	}
	return outcomes
}

// Each subscribes to two streams and acknowledges one event more: in some order, the answers show both streams of all
// until then and of nobody after.
func oneAfterTheOther(w *world) {
	const count = 20
	s := w.wake(always(answer{}))
	tails := make([]string, count)
	for i := range tails {
		tails[i] = w.append(s.path, number(i))
	}
	name := func(i int) []string { return []string{w.path("one/" + number(i)), w.path("two/" + number(i))} }
	outcomes := w.callbacks(s.first, count, func(i int) fields {
		return claim(s.first, fields{"acks": acked(s.path, tails[i]), "subscribe": name(i)})
	})
	slices.SortFunc(outcomes, func(a, b outcome) int { return len(a.Streams) - len(b.Streams) })
	var before []cursor
	for i, o := range outcomes {
		require.Equal(w.t, http.StatusOK, o.status, "%s", o.reply)
		require.Len(w.t, o.Streams, 1+2*(i+1), "both streams of %d callbacks", i+1)
		for _, c := range before {
			at, there := offset(o.Streams, c.Path)
			require.True(w.t, there, "%s was subscribed", c.Path)
			require.GreaterOrEqual(w.t, at, c.Offset)
		}
		before = o.Streams
	}
	last := w.report(s.first, nil).Streams
	at, _ := offset(last, s.path)
	require.Equal(w.t, tails[count-1], at, "the highest")
	require.Len(w.t, last, 1+2*count)
}

func doneAtOnce(w *world) {
	const count = 20
	s := w.wake(always(answer{}))
	w.append(s.path, "2")
	succeeded := 0
	for _, o := range w.callbacks(s.first, count, func(int) fields {
		return claim(s.first, fields{"acks": acked(s.path, s.tail), "done": true})
	}) {
		if o.status == http.StatusOK {
			succeeded++
			continue
		}
		w.refuse(o, http.StatusConflict, staleEpoch)
	}
	require.Equal(w.t, 1, succeeded, "the others come after the next wake")
	s.hook.stays(2, aMoment)
	require.EqualValues(w.t, 2, s.hook.notice(2).Epoch)
}

func claimedAtOnce(w *world) {
	s := w.wake(always(answer{}))
	for i, o := range w.callbacks(s.first, 40, func(i int) fields {
		if i%2 == 1 {
			return fields{"wake_id": "w_another", "acks": acked(s.path, s.tail)}
		}
		return claim(s.first, nil)
	}) {
		if i%2 == 1 {
			w.refuse(o, http.StatusConflict, alreadyClaimed)
			continue
		}
		require.Equal(w.t, http.StatusOK, o.status, "%s", o.reply)
	}
	w.shows(w.report(s.first, nil).Streams, cursor{s.path, nothing})
}

// Workers that read, acknowledge and say done, half of them with a callback and half in their answer, see every
// event of streams to which others append all the time.
func everythingIsProcessed(w *world) {
	const streams, events = 4, 60
	hook := w.receive("hook", always(answer{}))
	w.subscribe(w.path("*"), hook)
	for i := range streams {
		w.create(w.path(number(i)), "[]")
	}
	var appending sync.WaitGroup
	for i := range streams {
		appending.Go(func() {
			for n := range events {
				r, err := w.try(w.t.Context(), "POST "+w.at(w.path(number(i))), number(n))
				if err != nil || r.status != http.StatusNoContent {
					w.t.Errorf("append: %v %s", err, r)
					return
				}
			}
		})
	}
	defer appending.Wait()
	seen := map[string][]string{}
	total := 0
	for i := 1; total < streams*events; i++ {
		n := hook.notice(i)
		o := w.callback(n, claim(n, nil))
		if o.status == http.StatusConflict {
			continue // the same notice, sent twice
		}
		from, _ := offset(o.Streams, n.Primary)
		messages, at := w.read(n.Primary, from)
		for _, m := range messages {
			seen[n.Primary] = append(seen[n.Primary], text(m))
		}
		total += len(messages)
		w.report(n, fields{"acks": acked(n.Primary, at), "done": true})
	}
	for i := range streams {
		got := strings.Join(seen[w.path(number(i))], ",")
		want := make([]string, events)
		for n := range want {
			want[n] = number(n)
		}
		require.Equal(w.t, strings.Join(want, ","), got, "every event once, in order")
	}
}

func text(m json.RawMessage) string { return string(m) }
