package durable_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An array of more messages than one append may have is refused before its elements cost any memory; one of as many as
// it may have is stored.
func TestAppend_LongArrayCostsNoMemory(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{ContentType: durable.JSONType})
	array := func(elements int) []byte { return fmt.Appendf(nil, "[%s1]", strings.Repeat("1,", elements-1)) }
	body := array(5 << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: body})
	runtime.ReadMemStats(&after)
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(err), err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(body)))
	_, err = u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: array(991)})
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(err), err)
	_, err = u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: array(990)})
	require.NoError(t, err)
}
