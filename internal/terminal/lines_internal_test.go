package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A line is one JSON object, and nothing else.
func TestParseLine_RefusesMoreThanAnEvent(t *testing.T) {
	t.Parallel()
	_, err := parseLine([]byte(`{"path":"/a","type":"t"} `), sluice.Event{})
	require.NoError(t, err)
	for _, more := range []string{"}", "]", "{}", "1", "x"} {
		_, err := parseLine([]byte(`{"path":"/a","type":"t"}`+more), sluice.Event{})
		require.ErrorContains(t, err, "unexpected data after the event", more)
	}
}
