package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F4: a store of an unknown limit is warned of before it is full: nothing keeps room for what frees some.
func TestDoctor_WarnsOfAnUnknownLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		storage        sluice.Storage
		result, detail string
	}{
		{sluice.Storage{UsedBytes: 3 << 20, LimitBytes: 30 << 20}, "ok", "10 % of"},
		{sluice.Storage{UsedBytes: 29 << 20, LimitBytes: 30 << 20}, "warn", "nats.max_store"},
		{sluice.Storage{UsedBytes: 3 << 20}, "warn", "set nats.max_store"},
		{sluice.Storage{UsedBytes: 3 << 20, Level: sluice.StorageBroken, Problem: "no room"}, "fail", "3 MiB used: no room"},
	} {
		e := &examination{}
		e.noteStorage(tt.storage)
		require.Len(t, e.findings, 1)
		require.Equal(t, tt.result, e.findings[0].Result, e.findings[0].Detail)
		require.Contains(t, e.findings[0].Detail, tt.detail)
	}
}
