package subscription_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// C08, C36.
func TestRotate_KeepsTheOldSecretForTheOverlap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.create(t, minimal)
	sub, err := b.Rotate(t.Context(), old.ID, time.Hour, "root")
	require.NoError(t, err)
	require.NotEqual(t, old.Endpoint.Secret, sub.Endpoint.Secret)
	require.Equal(t, sluice.SecretHint(sub.Endpoint.Secret), sub.SecretHint)
	require.Equal(t, []string{sub.Endpoint.Secret, old.Endpoint.Secret}, sub.LiveSecrets(time.Now()))
	require.Equal(t, []string{sub.Endpoint.Secret}, sub.LiveSecrets(time.Now().Add(time.Hour)))

	next, err := b.Rotate(t.Context(), old.ID, time.Minute, "root")
	require.NoError(t, err)
	require.Equal(t, []string{next.Endpoint.Secret, old.Endpoint.Secret}, next.LiveSecrets(time.Now().Add(2*time.Minute)), "the first overlap was promised")
	last, err := b.Rotate(t.Context(), old.ID, 0, "root")
	require.NoError(t, err)
	require.Equal(t, []string{last.Endpoint.Secret}, last.LiveSecrets(time.Now()), "after a leak")
	stored, err := b.Get(t.Context(), old.ID)
	require.NoError(t, err)
	require.Empty(t, stored.Endpoint.Secret)

	_, err = b.Rotate(t.Context(), old.ID, -1, "root")
	requireCode(t, sluice.InvalidRequest, err)
	_, err = b.Rotate(t.Context(), "missing", 0, "root")
	requireCode(t, sluice.SubscriptionMissing, err)
}
