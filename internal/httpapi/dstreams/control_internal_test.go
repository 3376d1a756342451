package dstreams

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Arrays of control requests are read within their bounds: reading one that is too long allocates less than 2 MiB.
func TestControlBody_LongArraysCostNoMemory(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	ask := func(body string, target any) error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", strings.NewReader(body))
		return controlBody(echo.New().NewContext(req, httptest.NewRecorder()), target)
	}
	for name, x := range map[string]struct {
		body   string
		target any
	}{
		"acks":    {`{"acks":[` + strings.Repeat("{},", 40_000) + `{}]}`, &callRequest{}},
		"streams": {`{"streams":[` + strings.Repeat(`"",`, 40_000) + `""]}`, &streamSubRequest{}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := ask(x.body, x.target)
		runtime.ReadMemStats(&after)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.Contains(t, err.Error(), "at most 1000 streams", name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), name)
	}
	var call callRequest
	require.NoError(t, ask(`{"acks":[`+strings.Repeat(`{"path":"a"},`, streamsub.MaxAcks-1)+`{}]}`, &call))
	require.Len(t, call.Acks, streamsub.MaxAcks)
}
