package eventlog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// heardOf returns the sequences of each call for a listener to which these messages are told.
func heardOf(messages ...entry) (calls [][]uint64) {
	by := &listener{"events.a", "durable.a", func(all []PathNews) {
		var seqs []uint64
		for _, n := range all {
			seqs = append(seqs, n.Seq)
		}
		calls = append(calls, seqs)
	}}
	log := &newsLog{listeners: map[string]map[*listener]struct{}{"events.a": {by: {}}, "durable.a": {by: {}}}}
	n := &pathNotifier{}
	for _, m := range messages {
		n.take(log, m)
	}
	return calls
}

func TestNews_BatchIsToldAsAWhole(t *testing.T) {
	t.Parallel()
	part := func(seq uint64, subject, batch string) entry {
		return entry{seq: seq, subject: subject, batch: batch, weight: 10}
	}
	end := entry{seq: 4, subject: "events.other", batch: "x", commits: true}
	require.Equal(t, [][]uint64{{1, 3}, {5}},
		heardOf(part(1, "events.a", "x"), part(2, "events.other", "x"), part(3, "durable.a", "x"), end, part(5, "events.a", "")))
	require.Equal(t, [][]uint64{{1, 2}, {7}}, heardOf(part(1, "events.a", "x"), part(2, "events.a", "x"), part(7, "events.a", "")), "its end cannot be read")
	require.Equal(t, [][]uint64{{1}}, heardOf(part(1, "events.a", "x"), part(2, "events.other", "")), "nor is anything else for the listener")
	require.Equal(t, [][]uint64{{1}}, heardOf(part(1, "events.a", "x"), part(2, "events.a", "y")), "another one begins")
	large := part(2, "events.a", "x")
	large.weight = readersWeight
	require.Equal(t, [][]uint64{{1, 2}}, heardOf(part(1, "events.a", "x"), large, part(3, "events.a", "x")), "what is held has a bound")
	large.subject = "events.other"
	require.Empty(t, heardOf(part(1, "events.a", "x"), large), "what has no listener is not held")
}
