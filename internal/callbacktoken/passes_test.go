package callbacktoken_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type keys [][]byte

func (k keys) WakeKeys() [][]byte { return k }

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

type consumer struct {
	Consumer string `json:"sub"`

	callbacktoken.Term
}

type subscription struct {
	Wakes string `json:"wakes"`

	callbacktoken.Term
}

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func sign(t *testing.T, k keys) string {
	t.Helper()
	pass, err := callbacktoken.Sign(k, consumer{"a", callbacktoken.Until(now.Add(time.Hour))})
	require.NoError(t, err)
	return pass
}

// Keys are followed: a pass counts as long as its key is one of the server's, the newest signs.
func TestToken_CountsWhileItsKeyExists(t *testing.T) {
	t.Parallel()
	pass := sign(t, keys{key(1)})
	for _, k := range []keys{{key(1)}, {key(2), key(1)}, {key(3), key(2), key(1)}} {
		said, err := callbacktoken.Read[consumer](k, pass, now)
		require.NoError(t, err)
		require.Equal(t, "a", said.Consumer)
	}
	for _, k := range []keys{{}, {key(2)}} {
		said, err := callbacktoken.Read[consumer](k, pass, now)
		require.ErrorIs(t, err, callbacktoken.ErrForged)
		require.Zero(t, said)
	}
	_, err := callbacktoken.Read[consumer](keys{key(2)}, sign(t, keys{key(2), key(1)}), now)
	require.NoError(t, err)
	_, err = callbacktoken.Sign(keys{}, consumer{})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
}

func TestToken_ExpiredOneIsStillRead(t *testing.T) {
	t.Parallel()
	said, err := callbacktoken.Read[consumer](keys{key(2), key(1)}, sign(t, keys{key(1)}), now.Add(time.Hour))
	require.ErrorIs(t, err, callbacktoken.ErrExpired)
	require.Equal(t, "a", said.Consumer)
}

// A pass of one engine names nothing to another, though the same keys sign it.
func TestToken_OfOneEngineIsInvalidForAnother(t *testing.T) {
	t.Parallel()
	said, err := callbacktoken.Read[subscription](keys{key(1)}, sign(t, keys{key(1)}), now)
	require.NoError(t, err)
	require.Empty(t, said.Wakes)
}
