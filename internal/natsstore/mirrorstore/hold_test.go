package mirrorstore_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// watched returns two stores on one NATS. Before the n-th request for entries of the first one reaches NATS, requested(n) is called.
func watched(t *testing.T, requested func(n int64)) (s, other *mirrorstore.Store) {
	t.Helper()
	url := natstest.Listening(t).ClientURL()
	var n atomic.Int64
	wire := faulttest.OpenWire(t, strings.TrimPrefix(url, "nats://"), func(said []byte) bool {
		if bytes.Contains(said, []byte(`"multi_last"`)) {
			requested(n.Add(1))
		}
		return true
	})
	t.Cleanup(wire.Close)
	var stores [2]*mirrorstore.Store
	for i, at := range []string{"nats://" + wire.Addr(), url} {
		rooms := storetest.Connect(t, natsstore.Options{URL: at})
		require.NoError(t, rooms.Provision(t.Context()))
		stores[i] = mirrorstore.New(rooms.Store, 0)
	}
	return stores[0], stores[1]
}

// large stores a step with entries of 300 KiB each, and returns the new place and the keys.
func large(t *testing.T, s *mirrorstore.Store, entries int) (mirror.Place, []string) {
	t.Helper()
	c, keys := mirror.Commit{Place: mirror.Place{Incarnation: "i"}}, []string{}
	for i := range entries {
		c.Place.Watermark++
		keys = append(keys, fmt.Sprint("e", i))
		c.Entries = append(c.Entries, entry(c.Place.Watermark, keys[i], `"`+strings.Repeat("x", 300<<10)+`"`))
	}
	for { // NATS drops a batch that is idle for two seconds
		revision, err := s.Commit(t.Context(), "m", c)
		if sluice.CodeOf(err) != sluice.Unavailable {
			require.NoError(t, err)
			c.Place.Revision = revision
			return c.Place, keys
		}
	}
}

// S3-57: that many large entries are erased at once is no reason to keep them. No answer of NATS has all of them, and no data is held.
func TestHold_LargeEntriesArriveInParts(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s, _ := watched(t, requests.Store)
	at, keys := large(t, s, 40)
	held, err := s.Hold(t.Context(), "m", append(keys, "unknown"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, requests.Load(), int64(3), "parts of 4 MiB; a slow one is requested again")
	require.Equal(t, at.Revision, held.Place.Revision)
	require.Len(t, held.Entries, len(keys))
	for i, key := range keys {
		want := entry(uint64(i+1), key, "").Change
		want.Event.Data = nil
		require.Equal(t, want, held.Entries[key].Change)
	}
}

// A step that is stored between two parts is in them, or the place shows that it is not.
func TestHold_StepBetweenPartsIsSeen(t *testing.T) {
	t.Parallel()
	var step atomic.Pointer[func()]
	s, other := watched(t, func(n int64) {
		if n == 2 {
			(*step.Load())()
		}
	})
	at, keys := large(t, s, 20)
	next := func() {
		var err error
		at.Watermark = 22
		at.Revision, err = other.Commit(t.Context(), "m", mirror.Commit{Place: at, Entries: []mirror.Entry{entry(21, keys[0], `1`), entry(22, keys[19], `2`)}})
		require.NoError(t, err)
	}
	step.Store(&next)
	held, err := s.Hold(t.Context(), "m", keys)
	require.NoError(t, err)
	require.Equal(t, at.Revision, held.Place.Revision)
	require.Len(t, held.Entries, len(keys))
	for i, key := range keys {
		want := uint64(i + 1)
		switch i {
		case 0:
			want = 21
		case 19:
			want = 22
		}
		e := held.Entries[key]
		require.Equal(t, want, e.Seq(), key)
	}
}

// A request for a step of the longest IDs fits into a message of NATS, also if JSON could write them longer.
func TestHold_LongestIDsFit(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, c := range []string{"&", "\"", "=", "\u2028"} {
		keys := make([]string, 950)
		for i := range keys {
			keys[i] = strings.Repeat(c, (sluice.MaxIDBytes-3)/len(c)) + strconv.Itoa(i)
		}
		_, err := s.Hold(t.Context(), "m", keys)
		require.NoError(t, err, c)
	}
}
