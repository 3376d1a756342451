package wake

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type keys [][]byte

func (k keys) WakeKeys() [][]byte { return k }

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// S1-102, S1-104, S1-148: a token says whose it is, of which epoch, and until when.
func TestToken_NamesConsumerEpochAndExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	claim := Claim{Namespace: "acme", Consumer: "s:%2Fa", Of: "x", Epoch: 7}
	token, err := newToken(keys{key(1)}, claim, now)
	require.NoError(t, err)
	said, err := verify(keys{key(1)}, token, now.Add(TokenFor-time.Second))
	require.NoError(t, err)
	require.Equal(t, claim.Namespace, said.Namespace)
	require.Equal(t, claim.Consumer, said.Consumer)
	require.Equal(t, claim.Of, said.Of)
	require.Equal(t, claim.Epoch, said.Epoch)
	require.Equal(t, now.Add(time.Hour), said.ExpiresAt.UTC())

	said, err = verify(keys{key(1)}, token, now.Add(TokenFor+time.Second))
	require.Equal(t, sluice.WakeTokenExpired, sluice.CodeOf(err))
	require.Equal(t, claim.Consumer, said.Consumer, "it can be exchanged")
}

// S1-87, S1-102, S1-147: only what a key of the server signed counts, while the server has the key.
func TestToken_NeedsTheServersKey(t *testing.T) {
	t.Parallel()
	now := time.Now()
	claim := Claim{Consumer: "s:%2Fa", Epoch: 7}
	token, err := newToken(keys{key(1)}, claim, now)
	require.NoError(t, err)
	_, err = verify(keys{key(2), key(1)}, token, now)
	require.NoError(t, err, "the key before this one")

	claim.ExpiresAt = jwt.NewNumericDate(now.Add(time.Hour))
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claim).SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	other, err := jwt.NewWithClaims(jwt.SigningMethodHS512, claim).SignedString(key(1))
	require.NoError(t, err)
	endless, err := jwt.NewWithClaims(jwt.SigningMethodHS256, Claim{Consumer: "s:%2Fa", Epoch: 7}).SignedString(key(1))
	require.NoError(t, err)
	parts := strings.Split(token, ".")
	for name, forged := range map[string]string{
		"nothing":             "",
		"no token":            "abc",
		"an empty token":      none,
		"another way to sign": other,
		"one without an end":  endless,
		"another signature":   parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
		"no signature":        parts[0] + "." + parts[1] + ".",
		"another text":        parts[0] + "." + strings.ToLower(parts[1]) + "." + parts[2],
		"something behind":    token + "A",
		"a line end":          token + "\n",
		"the key of another":  mustToken(t, keys{key(3)}, claim, now),
	} {
		_, err := verify(keys{key(1)}, forged, now)
		require.Equal(t, sluice.WakeTokenInvalid, sluice.CodeOf(err), name)
	}
	_, err = newToken(keys{}, claim, now)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "without a key nothing is signed")
}

func mustToken(t *testing.T, k callbacktoken.Keys, c Claim, now time.Time) string {
	t.Helper()
	token, err := newToken(k, c, now)
	require.NoError(t, err)
	return token
}

// S1-83, S1-103, S1-132: the same token is given back until it is about to expire.
func TestToken_IsRenewedBeforeItsExpiry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	k := keys{key(1)}
	token := mustToken(t, k, Claim{Consumer: "s:%2Fa", Epoch: 7}, now)
	for after, same := range map[time.Duration]bool{0: true, 54 * time.Minute: true, 56 * time.Minute: false, 59 * time.Minute: false} {
		at := now.Add(after)
		said, err := verify(k, token, at)
		require.NoError(t, err)
		fresh, err := next(k, token, said, at)
		require.NoError(t, err)
		require.Equal(t, same, fresh == token, after)
		again, err := verify(k, fresh, at)
		require.NoError(t, err)
		require.Equal(t, uint64(7), again.Epoch)
		if !same {
			require.WithinDuration(t, at.Add(TokenFor), again.ExpiresAt.Time, time.Second)
		}
	}
}

// Register C28: what has expired for longer than a day is exchanged no more.
func TestToken_ExpiredOneIsExchangedForADay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	said, err := verify(keys{key(1)}, mustToken(t, keys{key(1)}, Claim{Consumer: "s:%2Fa"}, now), now)
	require.NoError(t, err)
	require.True(t, said.renewable(now.Add(TokenFor+23*time.Hour)))
	require.False(t, said.renewable(now.Add(TokenFor+25*time.Hour)))
}
