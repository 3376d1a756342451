package httpapi

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestFailures_AllowTenThenOnePerSixSeconds(t *testing.T) {
	t.Parallel()
	f, now, caller := newFailures(10, 6*time.Second), time.Now(), addr("203.0.113.7")
	for range 10 {
		_, yes := f.blocked(caller, now)
		require.False(t, yes)
		f.note(caller, now)
	}
	wait, yes := f.blocked(caller, now)
	require.True(t, yes)
	require.Equal(t, 6*time.Second, wait)
	f.note(caller, now) // what is refused anyway does not make it longer
	wait, yes = f.blocked(caller, now.Add(4*time.Second))
	require.True(t, yes)
	require.InDelta(t, 2*time.Second, wait, float64(time.Millisecond))
	_, yes = f.blocked(caller, now.Add(6*time.Second))
	require.False(t, yes)
	f.note(caller, now.Add(6*time.Second))
	_, yes = f.blocked(caller, now.Add(7*time.Second))
	require.True(t, yes, "only one is forgiven")
	_, yes = f.blocked(addr("203.0.113.8"), now)
	require.False(t, yes, "others have not failed")
}

// A failure that read the clock before the one that got the lock first makes no room.
func TestFailures_CountNoTimeTwice(t *testing.T) {
	t.Parallel()
	f, now, caller := newFailures(10, 6*time.Second), time.Now(), addr("203.0.113.7")
	for range 5 {
		f.note(caller, now)
		f.note(caller, now.Add(-time.Minute))
	}
	_, yes := f.blocked(caller, now)
	require.True(t, yes)
}

func TestFailures_SourceIsAnAddressOrAHostsNetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ one, other string }{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"},
		{"203.0.113.7", "::ffff:203.0.113.7"},
		{"fe80::1%eth0", "fe80::2%eth1"},
	} {
		require.Equal(t, httpkit.SourceOf(addr(tt.one)), httpkit.SourceOf(addr(tt.other)))
	}
	require.NotEqual(t, httpkit.SourceOf(addr("2001:db8:1:2::1")), httpkit.SourceOf(addr("2001:db8:1:3::1")))
	require.NotEqual(t, httpkit.SourceOf(addr("203.0.113.7")), httpkit.SourceOf(addr("203.0.113.8")))
	f, now := newFailures(1, time.Second), time.Now()
	f.note(netip.Addr{}, now)
	_, yes := f.blocked(netip.Addr{}, now)
	require.True(t, yes, "an address that is not known is one too")
}

// numberedAddress returns the nth /64 of a documentation prefix.
func numberedAddress(n uint32) netip.Addr {
	raw := addr("2001:db8::1").As16()
	binary.BigEndian.PutUint32(raw[4:8], n)
	return netip.AddrFrom16(raw)
}

func TestFailures_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	f, now := newFailures(10, 6*time.Second), time.Now()
	for n := range uint32(10 * maxSources) {
		f.note(numberedAddress(n), now)
	}
	require.Equal(t, maxSources, f.order.Len())
	require.Len(t, f.bySource, maxSources)
	require.Contains(t, f.bySource, httpkit.SourceOf(numberedAddress(10*maxSources-1)), "the last ones are remembered")
	f.note(addr("203.0.113.7"), now.Add(time.Minute))
	require.Len(t, f.bySource, 1, "what would be forgiven anyway is forgotten")
	f.note(addr("203.0.113.8"), now.Add(2*time.Minute))
	require.Len(t, f.bySource, 1)
}

func TestFailures_WithoutABoundRememberNothing(t *testing.T) {
	t.Parallel()
	f, now := newFailures(0, time.Second), time.Now()
	for range 1000 {
		f.note(addr("203.0.113.7"), now)
	}
	_, yes := f.blocked(addr("203.0.113.7"), now)
	require.False(t, yes)
	require.Empty(t, f.bySource)
}
