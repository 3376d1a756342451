package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// membershipTests are about streams that a consumer subscribes to and unsubscribes from.
func membershipTests() []test {
	return []test{
		{"a stream is subscribed from its tail on, and wakes from then on", "S1-50 S1-51 S1-75 S1-97", quick, subscribedAtTail},
		{"a stream that does not exist may be subscribed to and wakes when it does", "S1-98 S1-99", quick, subscribedLazily},
		{"subscribing again changes nothing", "S1-79", quick, subscribedAgain},
		{"a stream that is unsubscribed wakes no more", "S1-76 S1-100", quick, unsubscribed},
		{"the primary stream may be unsubscribed while others are left", "S1-76 S1-100", quick, primaryUnsubscribed},
		{"unsubscribing what is not subscribed changes nothing", "S1-79", quick, unsubscribedUnknown},
		{"the callback that unsubscribes the last stream succeeds, later ones are gone", "S1-34 S1-101 S1-124 S1-127", quick, unsubscribedAll},
		{"a secondary stream that is deleted is dropped and the consumer goes on", "S1-34 S1-122", quick, secondaryDeleted},
	}
}

func subscribedAtTail(w *world) {
	other := w.path("other")
	tail := w.create(other, "[1,2,3]")
	s := w.wake(always(answer{}))
	o := w.report(s.first, claim(s.first, fields{"subscribe": []string{other}, "acks": acked(s.path, s.tail)}))
	w.shows(o.Streams, cursor{s.path, s.tail}, cursor{other, tail})
	w.report(s.first, fields{"done": true})
	s.hook.stays(1, aMoment)
	last := w.append(other, "4")
	n := s.hook.notice(2)
	require.Equal(w.t, s.first.ConsumerID, n.ConsumerID)
	require.Equal(w.t, s.path, n.Primary)
	require.Equal(w.t, []string{other}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{other, tail})
	w.report(n, claim(n, fields{"acks": acked(other, last), "done": true}))
	s.hook.stays(2, aMoment)
}

func subscribedLazily(w *world) {
	s := w.wake(always(answer{}))
	one, two := w.path("not/yet/there"), "/elsewhere/"+w.name+"/ü"
	o := w.report(s.first, claim(s.first, fields{"subscribe": []string{one, two}, "acks": acked(s.path, s.tail), "done": true}))
	w.shows(o.Streams, cursor{s.path, s.tail}, cursor{one, nothing}, cursor{two, nothing})
	s.hook.stays(1, aMoment)
	tail := w.create(two, "[1]")
	n := s.hook.notice(2)
	require.Equal(w.t, []string{two}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{one, nothing}, cursor{two, nothing})
	w.shows(w.report(n, claim(n, fields{"acks": acked(two, tail), "done": true})).Streams, cursor{s.path, s.tail}, cursor{one, nothing}, cursor{two, tail})
	s.hook.stays(2, aMoment)
}

func subscribedAgain(w *world) {
	other := w.path("other")
	tail := w.create(other, "[1]")
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{other, other}}))
	w.append(other, "2")
	o := w.report(s.first, fields{"subscribe": []string{other, s.path}})
	w.shows(o.Streams, cursor{s.path, nothing}, cursor{other, tail})
}

func unsubscribed(w *world) {
	other := w.path("other")
	tail := w.create(other, "[1]")
	s := w.wake(always(answer{}))
	o := w.report(s.first, claim(s.first, fields{"subscribe": []string{other}, "acks": acked(s.path, s.tail)}))
	w.shows(o.Streams, cursor{s.path, s.tail}, cursor{other, tail})
	w.append(other, "2")
	o = w.report(s.first, fields{"unsubscribe": []string{other}, "done": true})
	w.shows(o.Streams, cursor{s.path, s.tail})
	w.append(other, "3")
	s.hook.stays(1, aMoment)
	w.append(s.path, "2")
	w.shows(s.hook.notice(2).Streams, cursor{s.path, s.tail})
}

func primaryUnsubscribed(w *world) {
	other := w.path("other")
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{other}}))
	o := w.report(s.first, fields{"unsubscribe": []string{s.path}, "done": true})
	w.shows(o.Streams, cursor{other, nothing})
	w.append(s.path, "2")
	s.hook.stays(1, aMoment)
	w.create(other, "[1]")
	n := s.hook.notice(2)
	require.Equal(w.t, s.first.ConsumerID, n.ConsumerID)
	require.Equal(w.t, s.path, n.Primary)
	require.EqualValues(w.t, 2, n.Epoch)
	require.Equal(w.t, []string{other}, n.TriggeredBy)
	w.shows(n.Streams, cursor{other, nothing})
}

func unsubscribedUnknown(w *world) {
	s := w.wake(always(answer{}))
	o := w.report(s.first, claim(s.first, fields{"unsubscribe": []string{w.path("unknown")}}))
	w.shows(o.Streams, cursor{s.path, nothing})
}

func unsubscribedAll(w *world) {
	other := w.path("other")
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{other}}))
	o := w.report(s.first, fields{"unsubscribe": []string{s.path, other}})
	require.Empty(w.t, o.Streams)
	w.refuse(w.raw(s.first, o.Token, bodyOf(s.first, nil)), http.StatusGone, consumerGone)
	w.refuse(w.callback(s.first, claim(s.first, nil)), http.StatusGone, consumerGone)
	w.create(other, "[1]")
	s.hook.stays(1, aMoment)
}

func secondaryDeleted(w *world) {
	other := w.path("other")
	w.create(other, "[1]")
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{other}}))
	w.append(other, "2")
	w.remove(other)
	w.until(patience, func() bool {
		_, there := offset(w.report(s.first, nil).Streams, other)
		return !there
	}, "the stream is dropped")
	w.shows(s.rest().Streams, cursor{s.path, s.tail})
	s.hook.stays(1, aMoment)
}
