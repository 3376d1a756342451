package natsstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a reconnect to a replica that is behind, a removed record stays removed, also if its marker has expired when the replica has
// caught up. A record that is there is reported, also if its revision was given before.
func TestWatcher_RemovedRecordStaysRemoved(t *testing.T) {
	t.Parallel()
	var told []Entry[int]
	w := watcher[int]{told: map[string]uint64{}, tell: func(e Entry[int]) { told = append(told, e) }}
	made := time.Now()
	read := func(made time.Time, pending uint64, entries ...Entry[int]) []Entry[int] {
		w.begin(made)
		told = nil
		for i, e := range entries {
			w.enter(e, pending+uint64(len(entries)-1-i))
		}
		return told
	}
	gone, stays := Entry[int]{Key: "gone", Revision: 1}, Entry[int]{Key: "stays", Revision: 2}
	require.Equal(t, []Entry[int]{gone, stays, {Change: CaughtUp}}, read(made, 0, gone, stays))
	removed := Entry[int]{Key: "gone", Revision: 3, Change: Removed}
	w.enter(removed, 0)
	require.Equal(t, removed, told[len(told)-1])

	require.Empty(t, read(made, 1, gone, stays), "the replica is behind")
	require.Empty(t, read(made, 0, gone, stays, removed), "it was behind")
	require.Empty(t, read(made, 0, stays), "the marker has expired")
	again := Entry[int]{Key: "gone", Revision: 4}
	require.Equal(t, []Entry[int]{again}, read(made, 0, gone, stays, again))
	require.Equal(t, []Entry[int]{{Key: "gone", Revision: 4, Change: Removed}}, read(made, 0, stays))

	late := Entry[int]{Key: "late", Revision: 3}
	require.Equal(t, []Entry[int]{late}, read(made, 0, stays, late), "the bucket had lost its end")
	other := Entry[int]{Key: "gone", Revision: 2}
	require.Equal(t, []Entry[int]{other, {Key: "late", Revision: 3, Change: Removed}}, read(made.Add(1), 0, stays, other)[1:], "another bucket")
}
