package authz

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A request that has ended is forgotten, and the others of its grant are not.
func TestWhile_ForgetsEndedRequests(t *testing.T) {
	t.Parallel()
	x := NewIndex()
	x.Set("grant.g", Record{Grant: &Granted{Grant: sluice.Grant{ID: "g", ExpiresAt: time.Now().Add(time.Hour)}}}, 1)
	_, leave := x.While(t.Context(), sluice.Caller{Grant: "g"})
	_, leaveToo := x.While(t.Context(), sluice.Caller{Grant: "g"})
	require.Len(t, x.waits["g"], 2)
	leave()
	require.Len(t, x.waits["g"], 1)
	leaveToo()
	require.Empty(t, x.waits)
}
