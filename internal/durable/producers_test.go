package durable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
)

// Producers with long names do not fill the record of a stream so far that appends fail.
func TestProducer_LongNamesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{})
	for i := range 600 {
		u.is(t, durable.Accepted, fmt.Sprintf("%04d%s", i, strings.Repeat("<", 400)), 0, 0)
	}
	u.is(t, durable.Accepted, "p", 0, 0)
	_, err := u.append(t.Context(), durable.Append{Close: true, Producer: &durable.Claim{ID: "p", Seq: 1}}) // which writes all of it down
	require.NoError(t, err)
	other := u.space.user()
	done, err := other.append(t.Context(), durable.Append{Close: true, Producer: &durable.Claim{ID: "p", Seq: 1}})
	require.NoError(t, err)
	require.Equal(t, durable.Duplicate, done.Verdict)
}
