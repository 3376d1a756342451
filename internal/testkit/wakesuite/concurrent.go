package wakesuite

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
)

// concurrencyTests cover concurrent callbacks and appends.
func concurrencyTests() []test {
	return []test{
		{"twenty callbacks at once are done one after the other, each whole", "S1-78 S1-80", quick, oneAfterTheOther},
		{"done that is said twenty times at once wakes once", "S1-33 S1-78 S1-79 S1-129", quick, doneAtOnce},
		{"the same wake is claimed by twenty at once, another by none", "S1-39 S1-40 S1-41 S1-130", quick, claimedAtOnce},
		{"whatever is appended while consumers work is processed by them", "S1-01 S1-120 S1-136 S1-138", quick, everythingIsProcessed},
	}
}

// callbacks sends concurrent callbacks and returns their outcomes. The outcomes are in the order of
// i.
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

// Each callback subscribes to two streams and acknowledges one more event. There must be an order
// of the answers in which each shows both streams of all callbacks up to its own, and none of a
// later one.
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
	w.until(patience, func() bool { return slices.Contains(s.hook.epochs(), 2) }, "the next wake")
	w.quiet(aMoment)
	require.Equal(w.t, []int64{1, 2}, s.hook.epochs())
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

// Workers that read new events, acknowledge them and report done see every event of constantly
// growing streams, once and in order.
func everythingIsProcessed(w *world) {
	const streams, events = 4, 60
	hook := w.ok("hook")
	w.subscribe(w.path("*"), hook)
	for i := range streams {
		w.create(w.path(number(i)), "[]")
	}
	var appending sync.WaitGroup
	for i := range streams {
		appending.Go(func() { w.appendAll(w.path(number(i)), events) })
	}
	defer appending.Wait()
	seen := map[string][]json.RawMessage{}
	for i, total := 1, 0; total < streams*events; i++ {
		n := hook.notice(i)
		messages := w.work(n)
		seen[n.Primary] = append(seen[n.Primary], messages...)
		total += len(messages)
	}
	want := make([]json.RawMessage, events)
	for n := range want {
		want[n] = json.RawMessage(number(n))
	}
	for i := range streams {
		require.Equal(w.t, want, seen[w.path(number(i))])
	}
}

// appendAll appends numbers, one after the other.
func (w *world) appendAll(path string, events int) {
	for n := range events {
		r, err := w.try(w.t.Context(), "POST "+w.at(path), number(n))
		if err != nil || r.status != http.StatusNoContent {
			w.t.Errorf("append %d: %v %s", n, err, r)
			return
		}
	}
}

// work handles a notice as a worker does, and returns the events to process.
func (w *world) work(n notice) []json.RawMessage {
	w.t.Helper()
	o := w.callback(n, claim(n, nil))
	if o.status == http.StatusConflict {
		return nil // the notice came twice
	}
	from, _ := offset(o.Streams, n.Primary)
	messages, at := w.read(n.Primary, from)
	w.report(n, fields{"acks": acked(n.Primary, at), "done": true})
	return messages
}
