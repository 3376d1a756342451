package wake_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The arrays of a callback are read within their bound: one that is too long costs less memory than it has bytes.
func TestParseCallback_LongArraysCostNoMemory(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	for _, body := range []string{
		`{"epoch":1,"acks":[` + strings.Repeat("{},", 690_000) + `{}]}`,
		`{"epoch":1,"subscribe":[` + strings.Repeat(`"",`, 690_000) + `""]}`,
		`{"epoch":1,"unsubscribe":[` + strings.Repeat(`"",`, 690_000) + `""]}`,
		`{"epoch":1,"acks":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"subscribe":[` + strings.Repeat(`{},`, 690_000) + `{}]}`,
	} {
		raw := []byte(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := wake.ParseCallback(raw, durable.ParseOffset)
		runtime.ReadMemStats(&after)
		require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(err), "%.40s", body)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(raw)), "%.40s", body)
	}
	full := `{"epoch":1,"subscribe":[` + strings.Repeat(`"/a",`, wake.MaxStreams-1) + `"/a"]}`
	_, err := wake.ParseCallback([]byte(full), durable.ParseOffset)
	require.NoError(t, err)
}
