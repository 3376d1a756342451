package grants_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
)

// lost is a store whose records cannot be followed.
type lost struct{ away }

func (lost) FollowTo(context.Context, *grants.Follower) error { return errors.New("it is gone") }

// A replica that cannot follow the records ends at once, and no longer announces its presence.
func TestReplica_EndsWithItsFollower(t *testing.T) {
	t.Parallel()
	index, log := authz.NewIndex(), slog.New(slog.DiscardHandler)
	presence := grants.NewPresence("a", away{}, index, ttl, log)
	r := grants.Replica{Presence: presence, Records: lost{}, Log: log, Follower: &grants.Follower{Index: index, Presence: presence, Now: time.Now, Log: log}}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	select {
	case err := <-ended:
		require.EqualError(t, err, "it is gone")
	case <-time.After(patience):
		require.Fail(t, "it still announces its presence")
	}
}
