package sluice_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func whsec(bytes int) string {
	return sluice.SecretPrefix + base64.StdEncoding.EncodeToString(make([]byte, bytes))
}

// S4-58.
func TestSecret_HasAtLeast32Bytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, secret string
		want         sluice.Code
	}{
		{"Standard Webhooks' form", whsec(32), ""},
		{"the longest of that form", whsec(64), ""},
		{"any other text", strings.Repeat("x", 32), ""},
		{"nothing", "", sluice.SecretTooShort},
		{"the prefix alone", "whsec_", sluice.SecretTooShort},
		{"31 bytes", whsec(31), sluice.SecretTooShort},
		{"31 bytes of text", strings.Repeat("x", 31), sluice.SecretTooShort},
		{"too long", whsec(65), sluice.InvalidRequest},
		{"much too long", strings.Repeat("x", 257), sluice.InvalidRequest},
		{"not base64", "whsec_" + strings.Repeat("-", 44), sluice.InvalidRequest},
	} {
		require.Equal(t, c.want, sluice.CodeOf(sluice.CheckSecret(c.secret)), c.name)
		require.Equal(t, c.want, sluice.CodeOf(sluice.SchemeT.CheckSecret(c.secret)), c.name)
	}
	text := strings.Repeat("x", 32)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(sluice.SchemeStandard.CheckSecret(text)))
	require.Equal(t, sluice.SecretTooShort, sluice.CodeOf(sluice.SchemeStandard.CheckSecret("short")))
	require.NoError(t, sluice.SchemeHeader.CheckSecret(text))
}

func TestNewSecret_FitsEverySchemeAndDiffers(t *testing.T) {
	t.Parallel()
	a, err := sluice.NewSecret()
	require.NoError(t, err)
	b, err := sluice.NewSecret()
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.NoError(t, sluice.SchemeStandard.CheckSecret(a))
	require.Equal(t, a[len(a)-4:], sluice.SecretHint(a))
	require.Equal(t, "xabc", sluice.SecretHint(strings.Repeat("x", 29)+"abc"))
	require.Empty(t, sluice.SecretHint(strings.Repeat("x", 31)), "the rest would be short")
}
