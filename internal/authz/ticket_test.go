package authz_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func mac(seed byte) []byte { return bytes.Repeat([]byte{seed}, 32) }

func ticket(tb testing.TB, t authz.Ticket, key []byte) string {
	tb.Helper()
	text, err := authz.SignTicket(t, [][]byte{key})
	require.NoError(tb, err)
	return text
}

func TestTicket_RoundTrips(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := authz.Ticket{Namespace: "acme", Grant: "g", Token: authz.HashNonce("n"), Expiry: now.Add(time.Hour)}
	text := ticket(t, said, mac(1))
	require.Regexp(t, `^tkt_[A-Za-z0-9_.-]+$`, text, "it goes into an address as it is")
	require.False(t, authz.IsToken(text))
	got, err := authz.VerifyTicket(text, [][]byte{mac(2), mac(1)}, now)
	require.NoError(t, err, "the key before this one")
	got.Expiry = got.Expiry.UTC()
	require.Equal(t, said, got)

	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"ns": "acme", "exp": now.Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	endless, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"ns": "acme"}).SignedString(mac(1))
	require.NoError(t, err)
	for text, why := range map[string]string{
		ticket(t, said, mac(3)):               "signature_invalid",
		text + "A":                            "signature_invalid",
		text[:len(text)-1]:                    "signature_invalid",
		strings.TrimPrefix(text, "tkt_"):      "malformed",
		text + "\n":                           "signature_invalid",
		"tkt_" + none:                         "signature_invalid",
		"tkt_" + endless:                      "signature_invalid",
		"":                                    "malformed",
		"tkt_":                                "signature_invalid",
		"tkt_" + strings.Repeat("A", 1<<20):   "malformed",
		"tkt_" + strings.Repeat("e30.", 3):    "signature_invalid",
		strings.Replace(text, ".", ".e30", 1): "signature_invalid",
		ticket(t, authz.Ticket{Expiry: now}, mac(1)): "expired",
	} {
		_, err := authz.VerifyTicket(text, [][]byte{mac(1)}, now)
		require.Equal(t, why, reason(err), text[:min(len(text), 300)])
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	}
	_, err = authz.VerifyTicket(text, nil, now)
	require.Equal(t, "signature_invalid", reason(err), "without a key nothing counts")
}

// A ticket lasts no longer than its grant, and is that of one token of it.
func TestTicket_EndsWithItsGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := w.grant("whole", ann, "scope:acme", "read")
	g := w.part("g", "whole", ann, "path:acme/a/**", "read")
	g.Nonce = authz.HashNonce("n")
	w.save(g)
	holder := sluice.Caller{Principal: ann, Grant: "g"}
	got, err := w.TicketFor(holder, "acme", w.now.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, authz.Ticket{Namespace: "acme", Grant: "g", Token: g.Nonce, Expiry: w.now.Add(time.Minute)}, got)
	late, err := w.TicketFor(holder, "acme", w.now.Add(48*time.Hour))
	require.NoError(t, err)
	require.Equal(t, g.ExpiresAt, late.Expiry)
	for _, who := range []sluice.Caller{{}, {Principal: sluice.Anonymous}, {Principal: ann, Grant: "none"}} {
		_, err := w.TicketFor(who, "acme", w.now.Add(time.Minute))
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err), "%v", who)
	}
	check := func(t2 authz.Ticket) string {
		c, known, err := w.Holder(&t2, w.now)
		require.True(t, known)
		if err == nil {
			require.Equal(t, holder, c)
		}
		return reason(err)
	}
	require.Empty(t, check(got))
	g.Nonce = authz.HashNonce("renewed")
	w.save(g)
	require.Equal(t, "token_replay", check(got))
	got, err = w.TicketFor(holder, "acme", w.now.Add(time.Minute))
	require.NoError(t, err)
	w.revoke(whole)
	require.Equal(t, "revoked", check(got))
	_, known, err := w.Holder(&authz.Ticket{Grant: "new", Expiry: w.now.Add(time.Minute)}, w.now)
	require.Error(t, err)
	require.False(t, known, "it may have been made a moment ago elsewhere")

	rooted, err := w.TicketFor(sluice.Caller{Principal: sluice.Root}, "acme", w.now.Add(time.Minute))
	require.NoError(t, err)
	c, _, err := w.Holder(&rooted, w.now)
	require.NoError(t, err)
	require.True(t, c.Unbounded())
}

// FuzzTicket looks for a text that is taken for a ticket and was not signed.
func FuzzTicket(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	text := ticket(f, authz.Ticket{Namespace: "acme", Grant: "g", Token: "n", Expiry: now.Add(time.Hour)}, mac(1))
	f.Add(text)
	f.Add(strings.TrimPrefix(text, "tkt_"))
	f.Add(text[:len(text)-1])
	f.Add(strings.Replace(text, ".", "\n.", 1))
	f.Fuzz(func(t *testing.T, given string) {
		for _, given := range []string{given, "tkt_" + given} {
			said, err := authz.VerifyTicket(given, [][]byte{mac(1)}, now)
			if err == nil && given != text {
				t.Fatalf("taken: %q says %+v", given, said)
			}
			if err != nil && sluice.CodeOf(err) != sluice.Unauthenticated {
				t.Fatalf("%q: %v", given, err)
			}
		}
	})
}
