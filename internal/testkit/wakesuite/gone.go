package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// goneTests are about consumers that are removed, and that come back.
func goneTests() []test {
	return []test{
		{"a consumer is gone with its primary stream", "S1-34 S1-122 S1-127 S1-134 S1-91", quick, primaryDeleted},
		{"a consumer is gone with its primary stream, whatever else it is subscribed to", "S1-34 S1-122 S1-126 S1-134", quick, primaryDeletedWithOthers},
		{"consumers are gone with their subscription", "S1-34 S1-114 S1-123 S1-127 S1-134", quick, subscriptionDeleted},
		{"a consumer is gone whose subscription is deleted while its notice is open", "S1-114 S1-123 S1-134", quick, deletedWhileOpen},
		{"a consumer that is gone is notified no more", "S1-34 S1-114 S1-122", quick, noMoreRetries},
		{"epochs go on when a stream is deleted and made again", "S1-36 S1-128", quick, epochsGoOnForStreams},
		{"a stream that is deleted and made again at once wakes anew, from its beginning", "S1-122 S1-128 S1-134 S1-136", quick, madeAgainAtOnce},
		{"what was pending before a subscription was made again wakes nobody", "S1-114 S1-140", quick, oldNewsWakeNobody},
		{"epochs go on when a subscription is deleted and made again", "S1-36 S1-128", quick, epochsGoOnForSubscriptions},
	}
}

// gone waits until the consumer of a notice is gone, and checks that it stays gone.
func (w *world) gone(n notice) {
	w.t.Helper()
	w.until(patience, func() bool { return w.callback(n, nil).status != http.StatusOK }, "the consumer is gone")
	for range 2 {
		w.refuse(w.callback(n, nil), http.StatusGone, consumerGone)
		w.refuse(w.callback(n, claim(n, fields{"done": true})), http.StatusGone, consumerGone)
	}
}

func primaryDeleted(w *world) {
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, nil))
	w.remove(s.path)
	w.gone(s.first)
	s.hook.stays(1, aMoment)
}

// Of two consumers, one has left its primary stream, so that only the other stream is subscribed.
func primaryDeletedWithOthers(w *world) {
	other := w.path("other")
	w.create(other, "[1]")
	for i, f := range []fields{{"subscribe": []string{other}}, {"subscribe": []string{other}, "unsubscribe": []string{w.path("1")}}} {
		path, hook := w.path(number(i)), w.ok("hook"+number(i))
		w.subscribe(path, hook)
		w.create(path, "[1]")
		n := hook.notice(1)
		w.report(n, claim(n, f))
		w.remove(path)
		w.gone(n)
		w.append(other, "2")
		hook.stays(1, aMoment)
	}
}

func subscriptionDeleted(w *world) {
	hook := w.ok("hook")
	sub := w.subscribe(w.path("*"), hook)
	const streams = 5
	for i := range streams {
		w.create(w.path(number(i)), "[1]")
	}
	hook.wait(streams)
	for i := range streams {
		n := hook.notice(i + 1)
		w.report(n, claim(n, nil))
	}
	w.must(http.StatusNoContent, "DELETE "+w.one(sub.Pattern, sub.ID), "")
	for i := range streams {
		n := hook.notice(i + 1)
		w.refuse(w.callback(n, fields{"done": true}), http.StatusGone, consumerGone)
		w.append(n.Primary, "2")
	}
	hook.stays(streams, aMoment)
}

func deletedWhileOpen(w *world) {
	hold := make(chan struct{})
	s := w.wake(always(answer{body: `{"done":true}`, hold: hold}))
	w.must(http.StatusNoContent, "DELETE "+w.one(s.sub.Pattern, s.sub.ID), "")
	w.refuse(w.callback(s.first, claim(s.first, nil)), http.StatusGone, consumerGone)
	close(hold)
	w.append(s.path, "2")
	s.hook.stays(1, aMoment)
	w.refuse(w.callback(s.first, claim(s.first, nil)), http.StatusGone, consumerGone)
}

func noMoreRetries(w *world) {
	failed := always(answer{status: http.StatusInternalServerError})
	one, two := w.receive("one", failed), w.receive("two", failed)
	sub := w.subscribe(w.path("a"), one)
	w.subscribe(w.path("b"), two)
	w.create(w.path("a"), "[1]")
	w.create(w.path("b"), "[1]")
	one.wait(1)
	n := two.notice(1)
	w.must(http.StatusNoContent, "DELETE "+w.one(sub.Pattern, sub.ID), "")
	w.remove(w.path("b"))
	w.until(patience, func() bool { return w.callback(n, nil).status == http.StatusGone }, "the consumer is gone")
	before := []int{len(one.all()), len(two.all())}
	w.quiet(2 * aMoment)
	require.LessOrEqual(w.t, len(one.all()), before[0]+1, "but for one that was on its way")
	require.LessOrEqual(w.t, len(two.all()), before[1]+1, "but for one that was on its way")
}

func epochsGoOnForStreams(w *world) {
	s := w.wake(always(answer{}))
	last := s.first
	for i := range 3 {
		w.report(last, claim(last, nil))
		w.remove(s.path)
		w.gone(last)
		w.create(s.path, "[1]")
		n := s.hook.notice(i + 2)
		require.Equal(w.t, last.ConsumerID, n.ConsumerID)
		require.Greater(w.t, n.Epoch, last.Epoch)
		require.NotEqual(w.t, last.WakeID, n.WakeID)
		last = n
	}
	w.report(last, claim(last, nil))
}

func epochsGoOnForSubscriptions(w *world) {
	s := w.wake(always(answer{}))
	n := s.next()
	w.must(http.StatusNoContent, "DELETE "+w.one(s.sub.Pattern, s.sub.ID), "")
	w.subscribe(s.sub.Pattern, s.hook)
	w.append(s.path, "3")
	again := s.hook.notice(3)
	require.Equal(w.t, n.ConsumerID, again.ConsumerID)
	require.Greater(w.t, again.Epoch, n.Epoch)
	w.report(again, claim(again, nil))
}

func madeAgainAtOnce(w *world) {
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, nil))
	for i := range 5 {
		last := s.hook.notice(i + 1)
		w.remove(s.path)
		w.create(s.path, "["+number(i)+"]")
		n := s.hook.notice(i + 2)
		require.Equal(w.t, last.ConsumerID, n.ConsumerID)
		require.Greater(w.t, n.Epoch, last.Epoch)
		o := w.callback(last, claim(last, fields{"done": true}))
		require.Contains(w.t, []string{tokenInvalid, staleEpoch, consumerGone}, o.Error.Code, "%s", o.reply)
		require.Len(w.t, n.Streams, 1)
		messages, at := w.read(s.path, n.Streams[0].Offset)
		require.Len(w.t, messages, 1)
		require.Equal(w.t, number(i), string(messages[0]))
		w.shows(w.report(n, claim(n, fields{"acks": acked(s.path, at)})).Streams, cursor{s.path, at})
	}
}

func oldNewsWakeNobody(w *world) {
	s := w.wake(always(answer{}))
	tail := w.append(s.path, "2")
	w.must(http.StatusNoContent, "DELETE "+w.one(s.sub.Pattern, s.sub.ID), "")
	w.subscribe(s.sub.Pattern, s.hook)
	s.hook.stays(1, aMoment)
	w.append(s.path, "3")
	n := s.hook.notice(2)
	w.shows(n.Streams, cursor{s.path, tail})
	w.report(n, claim(n, nil))
}
