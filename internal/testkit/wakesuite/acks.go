package wakesuite

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// ackTests are about offsets.
func ackTests() []test {
	return []test{
		{"an offset that is acknowledged is shown in the answer and in the next notice", "S1-17 S1-18 S1-50 S1-74 S1-82 S1-84", quick, ackedIsShown},
		{"an ack beyond the tail is refused", "S1-89 S1-18", quick, ackBeyondTail},
		{"an ack that is no offset is refused", "S1-89", quick, ackNoOffset},
		{"an ack of a stream that is not subscribed is refused", "S1-89 S1-74", quick, ackUnknown},
		{"acked offsets never decrease", "S1-131", quick, ackDecreasing},
		{"offsets of nine, ten and a hundred events are in order", "S1-20", quick, offsetsInOrder},
		{"the next read begins behind what was acknowledged", "S1-96 S1-17", quick, readBehindAck},
		{"work is pending while any stream has more than was acknowledged", "S1-16 S1-51", quick, pendingInAny},
	}
}

func ackedIsShown(w *world) {
	s := w.wake(always(answer{}))
	last := w.append(s.path, "2")
	w.shows(w.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)})).Streams, cursor{s.path, s.tail})
	w.shows(w.report(s.first, nil).Streams, cursor{s.path, s.tail})
	w.shows(w.report(s.first, fields{"acks": []cursor{}}).Streams, cursor{s.path, s.tail})
	w.shows(w.report(s.first, fields{"acks": acked(s.path, last), "done": true}).Streams, cursor{s.path, last})
	w.append(s.path, "3")
	w.shows(s.hook.notice(2).Streams, cursor{s.path, last})
}

func ackBeyondTail(w *world) {
	s := w.wake(always(answer{}))
	digits := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '9'
		}
		return r
	}, s.tail)
	other := w.path("longer")
	w.create(other, "[1]")
	later := w.append(other, "2")
	for _, at := range []string{digits, bump(s.tail)} {
		w.refuse(w.callback(s.first, claim(s.first, fields{"acks": acked(s.path, at)})), http.StatusConflict, invalidOffset)
	}
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
	if later > s.tail {
		w.refuse(w.callback(s.first, fields{"acks": acked(s.path, later), "done": true}), http.StatusConflict, invalidOffset)
	}
	s.hook.stays(1, aMoment)
	s.rest()
	w.append(s.path, "2")
	w.shows(s.hook.notice(2).Streams, cursor{s.path, s.tail})
}

// bump returns a text that sorts after an offset: the offset with its first number increased, as if
// more had been appended.
func bump(at string) string {
	first, rest, _ := strings.Cut(at, "_")
	digits := []byte(first)
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			break
		}
		digits[i] = '0'
	}
	return strings.TrimSuffix(string(digits)+"_"+rest, "_")
}

func ackNoOffset(w *world) {
	s := w.wake(always(answer{}))
	for _, at := range []string{"yesterday", "now", s.tail + "x"} {
		o := w.callback(s.first, claim(s.first, fields{"acks": acked(s.path, at)}))
		require.Equal(w.t, http.StatusConflict, o.status, "%q: %s", at, o.reply)
		require.Equal(w.t, invalidOffset, o.Error.Code, "%q", at)
	}
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
}

func ackUnknown(w *world) {
	s := w.wake(always(answer{}))
	other := w.path("never")
	w.refuse(w.callback(s.first, claim(s.first, fields{"acks": acked(other, s.tail)})), http.StatusConflict, invalidOffset)
	tail := w.create(other, "[1]")
	w.refuse(w.callback(s.first, fields{"acks": acked(other, tail)}), http.StatusConflict, invalidOffset)
	w.shows(w.report(s.first, nil).Streams, cursor{s.path, nothing})
}

func ackDecreasing(w *world) {
	s := w.wake(always(answer{}))
	last := w.append(s.path, "2")
	w.report(s.first, claim(s.first, fields{"acks": acked(s.path, last)}))
	w.shows(w.report(s.first, fields{"acks": acked(s.path, s.tail)}).Streams, cursor{s.path, last})
	both := []cursor{{s.path, last}, {s.path, s.tail}}
	w.shows(w.report(s.first, fields{"acks": both}).Streams, cursor{s.path, last})
	w.callback(s.first, fields{"acks": acked(s.path, nothing)})
	w.shows(w.report(s.first, fields{"done": true}).Streams, cursor{s.path, last})
	s.hook.stays(1, aMoment)
}

func offsetsInOrder(w *world) {
	s := w.wake(always(answer{}))
	last := s.tail
	w.report(s.first, claim(s.first, nil))
	for i := range 101 {
		at := w.append(s.path, number(i))
		require.Greater(w.t, at, last, "offsets are in order as texts")
		last = at
		if n := i + 2; n == 9 || n == 10 || n == 99 || n == 100 {
			w.shows(w.report(s.first, fields{"acks": acked(s.path, at)}).Streams, cursor{s.path, at})
		}
	}
	w.report(s.first, fields{"acks": acked(s.path, last), "done": true})
	s.hook.stays(1, aMoment)
}

func readBehindAck(w *world) {
	s := w.wake(always(answer{}))
	messages, at := w.read(s.path, s.first.Streams[0].Offset)
	require.Len(w.t, messages, 1, "from -1 on: everything")
	require.Equal(w.t, s.tail, at)
	w.report(s.first, claim(s.first, fields{"acks": acked(s.path, at), "done": true}))
	w.must(http.StatusNoContent, "POST "+w.at(s.path), "[2,3]")
	n := s.hook.notice(2)
	messages, at = w.read(s.path, n.Streams[0].Offset)
	require.Len(w.t, messages, 2)
	require.Equal(w.t, "2", string(messages[0]))
	w.report(n, claim(n, fields{"acks": acked(s.path, at), "done": true}))
	s.hook.stays(2, aMoment)
}

func pendingInAny(w *world) {
	a, b := w.path("a"), w.path("b")
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{a, b}, "acks": acked(s.path, s.tail)}))
	atB := w.create(b, "[1]")
	w.report(s.first, fields{"done": true})
	n := s.hook.notice(2)
	require.Equal(w.t, []string{b}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{a, nothing}, cursor{b, nothing})
	w.append(s.path, "2")
	w.create(a, "[1]")
	w.report(n, claim(n, fields{"acks": acked(b, atB), "done": true}))
	n = s.hook.notice(3)
	require.ElementsMatch(w.t, []string{s.path, a}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{a, nothing}, cursor{b, atB})
}
