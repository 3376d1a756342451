package loopguard_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// chainOf returns n causes of different paths, the nearest first; the last one names a cause if
// more is said.
func chainOf(n int, more string) []sluice.Link {
	chain := make([]sluice.Link, n)
	for i := range chain {
		chain[i] = sluice.Link{ID: strconv.Itoa(i), Type: "t", Path: sluice.Path(fmt.Sprintf("/%d", i)), Cause: strconv.Itoa(i + 1)}
	}
	if n > 0 {
		chain[n-1].Cause = more
	}
	return chain
}

func TestChain_RefusesLoopsAndDepth(t *testing.T) { // S4-79, S4-82, C17
	t.Parallel()
	e := sluice.Link{ID: "e", Type: "t", Path: "/e", Cause: "0"}
	with := func(chain []sluice.Link, at int, l sluice.Link) []sluice.Link {
		chain[at].Type, chain[at].Path = l.Type, l.Path
		return chain
	}
	tests := []struct {
		name  string
		event sluice.Link
		chain []sluice.Link
		found bool
		again bool
		hops  int
	}{
		{"no cause", sluice.Link{ID: "e", Type: "t", Path: "/e"}, nil, false, false, 0},
		{"an unknown cause", e, nil, false, false, 0},
		{"another path", e, chainOf(1, ""), false, false, 0},
		{"the same type and path", e, with(chainOf(1, ""), 0, e), true, true, 1},
		{"the nearest is the same, and has a cause", e, with(chainOf(2, ""), 0, e), true, true, 2},
		{"the same path, another type", e, with(chainOf(1, ""), 0, sluice.Link{Type: "u", Path: "/e"}), false, false, 0},
		{"further back", e, with(chainOf(9, ""), 8, e), true, true, 9},
		{"32 hops", e, chainOf(32, ""), false, false, 0},
		{"33 hops", e, chainOf(32, "older"), true, false, 33},
		{"32 hops, the last one unknown", e, chainOf(31, "lost"), false, false, 0},
		{"its own cause", sluice.Link{ID: "e", Type: "t", Path: "/e", Cause: "e"}, []sluice.Link{{ID: "e", Type: "t", Path: "/e"}}, true, true, 1},
	}
	for _, tt := range tests {
		f := loopguard.Loop(tt.event, tt.chain)
		if !tt.found {
			require.Nil(t, f, tt.name)
			continue
		}
		require.Equal(t, &loopguard.Found{Chain: tt.chain, Hops: tt.hops, Again: tt.again}, f, tt.name)
	}
}
