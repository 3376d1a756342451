package deliverystore

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The sequence is that of the attempt, also if its texts look like one.
func TestSeqIn_ReadsNoText(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]sluice.Attempt{
		"plain":    {EventID: "e", Seq: 42},
		"id":       {EventID: `"seq":7,`, Seq: 42},
		"response": {Response: `{"seq":7}`, Output: `\"seq":7`, Seq: 42},
		"path":     {Path: `/"seq":7`, Seq: 42},
	} {
		line, err := json.Marshal(a)
		require.NoError(t, err, name)
		seq, ok := seqIn(line)
		require.True(t, ok, name)
		require.Equal(t, uint64(42), seq, name)
	}
	for _, line := range []string{``, `{}`, `{"seq":}`, `{"seq":"7"}`, `{"seq":-1}`, `{"seq":99999999999999999999}`, `{"seq":7`} {
		_, ok := seqIn([]byte(line))
		require.False(t, ok, line)
	}
}

// Attempts up to the floor say nothing of what a consumer hands out.
func TestFloorOf_IsBelowTheNextRecord(t *testing.T) { // C01
	t.Parallel()
	at := func(open int, waits uint64) *jetstream.ConsumerInfo {
		return &jetstream.ConsumerInfo{
			AckFloor: jetstream.SequenceInfo{Stream: 5}, Delivered: jetstream.SequenceInfo{Stream: 9}, NumAckPending: open, NumPending: waits,
		}
	}
	require.Equal(t, uint64(5), floorOf(at(1, 0)))
	require.Equal(t, uint64(5), floorOf(at(1, 3)))
	require.Equal(t, uint64(9), floorOf(at(0, 3)))
	require.Equal(t, uint64(math.MaxUint64), floorOf(at(0, 0)))
}

// Attempts are read since what may come again was stored, within bounds.
func TestReadFrom_KnownTimes(t *testing.T) {
	t.Parallel()
	last := time.Now()
	before := func(d time.Duration) time.Time { return last.Add(-d) }
	require.Equal(t, before(recoverSpan), readFrom(last, time.Time{}), "nothing comes again")
	for since, want := range map[time.Duration]time.Duration{
		-time.Hour: recoverSpan, 0: recoverSpan, 20 * time.Second: recoverSpan, time.Minute: time.Minute + clockSkew,
		recoverMost - clockSkew: recoverMost, recoverMost: recoverMost, time.Hour: recoverMost,
	} {
		require.Equal(t, before(want), readFrom(last, before(since)), since)
	}
}
