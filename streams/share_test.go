package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

// F4: what is published and what is delivered cannot take the room of what is recorded.
func TestShareOf_EveryStreamHasOne(t *testing.T) {
	t.Parallel()
	want := map[string]streams.Share{
		"EVENTS_acme":            streams.Published,
		streams.Names{}.Mirror(): streams.Published, streams.Names{}.Knowledge(): streams.Published, streams.Names{}.Attempts(): streams.Remembered, streams.Names{}.DeadLetters(): streams.Delivered, streams.Names{}.Ledger(): streams.Recorded,
	}
	for _, b := range streams.Buckets() {
		if _, ok := want["KV_"+b.Name]; !ok {
			want["KV_"+b.Name] = streams.Recorded
		}
	}
	for _, s := range (streams.Names{}).Singles() {
		require.Contains(t, want, s.Name)
	}
	want["OTHERS"], want["KV_others"], want[streams.Scheduled] = streams.Foreign, streams.Foreign, streams.Foreign
	for name, share := range want {
		require.Equal(t, share, streams.Names{}.ShareOf(name), name)
	}
}
