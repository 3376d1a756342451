package mirror_test

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// At the limit, a key that is trusted already is answered as ever, and only a new one is refused.
func TestTrust_RepetitionAtTheLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	newSource(t, f, rand.New(rand.NewPCG(1, 3)), "high")
	key := bundle.NewJWK(f.key.Public().(ed25519.PublicKey))
	all := make(bundle.Trust, 1000)
	for i := range all {
		all[i] = bundle.TrustedKey{KeyID: key.Thumbprint(), JWK: key, Source: fmt.Sprint("s", i), AddedAt: time.Unix(1000, 0).UTC()}
	}
	require.NoError(t, records.NewTrusts(f.rooms[0].Store).Put(t.Context(), "high", all, 0))
	is, err := f.engines[0].Keeper().Trust(t.Context(), "high", key, "s7", "root")
	require.NoError(t, err)
	require.Equal(t, all[7], is)
	_, err = f.engines[0].Keeper().Trust(t.Context(), "high", key, "another", "root")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
}
