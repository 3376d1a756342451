package grants_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
)

// away is a store that cannot be written for a time.
type away struct{ until time.Time }

func (a away) PutFor(context.Context, string, authz.Record, time.Duration) (uint64, error) {
	if time.Now().Before(a.until) {
		return 0, errors.New("no answer")
	}
	return 1, nil
}

// A replica that cannot announce itself says so once, however long that lasts.
func TestPresence_FailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, nil))
		presence := grants.NewPresence("a", away{until: time.Now().Add(time.Minute)}, authz.NewIndex(), ttl, log)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		presence.Run(ctx)
		require.Equal(t, 1, strings.Count(text.String(), "\n"), text.String())
		require.Contains(t, text.String(), "presence of this replica not recorded")
	})
}
