package authz_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Check answers whose a token is; what is not known here may be known elsewhere.
func TestCheck_TellsUnknownFromEnded(t *testing.T) { // S0-55
	t.Parallel()
	w := newWorld(t)
	nonce := authz.HashNonce("n")
	of := w.grant("of", ann, "scope:acme", "read")
	part := w.part("part", "of", bot, "scope:acme", "read")
	part.Nonce = nonce
	w.save(part)
	claims := &authz.Claims{Grant: "part", Nonce: "n", Expiry: w.now.Add(time.Hour)}

	holder, known, err := w.Check(claims, w.now)
	require.NoError(t, err)
	require.Equal(t, []any{caller(part), true}, []any{holder, known})
	_, known, err = w.Check(&authz.Claims{Grant: "part", Nonce: "n", Expiry: w.now}, w.now)
	require.Equal(t, []any{"expired", true}, []any{reason(err), known})
	_, known, err = w.Check(&authz.Claims{Grant: "part", Nonce: "other", Expiry: w.now.Add(time.Hour)}, w.now)
	require.Equal(t, []any{"token_replay", true}, []any{reason(err), known})
	_, known, err = w.Check(&authz.Claims{Grant: "new", Nonce: "n", Expiry: w.now.Add(time.Hour)}, w.now)
	require.Equal(t, []any{"revoked", false}, []any{reason(err), known})

	w.Remove(streams.GrantKey("of"), w.revision+1)
	_, known, err = w.Check(claims, w.now)
	require.Equal(t, []any{"revoked", false}, []any{reason(err), known}, "what it is a part of is not known")
	w.save(of)
	w.revoke(of)
	_, known, err = w.Check(claims, w.now)
	require.Equal(t, []any{"revoked", true}, []any{reason(err), known})

	w.Until(w.now)
	_, known, err = w.Check(claims, w.now)
	require.Equal(t, []any{sluice.Unavailable, true}, []any{sluice.CodeOf(err), known}, "revocations may be on their way")

	holder, known, err = w.Holder(&authz.Ticket{Namespace: "acme"}, w.now)
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Caller{Principal: sluice.Root}, true}, []any{holder, known})
}

// A token of another version is refused under any signature, and so is one without its prefix.
func TestVerify_RefusesOtherForms(t *testing.T) { // S0-55
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	token := signed(t, &g.Grant, "n")
	refuse := func(text string) {
		t.Helper()
		_, err := authz.Verify(text, public)
		require.Equal(t, "malformed", reason(err))
	}
	bare := strings.TrimPrefix(token, "cap_")
	refuse(bare)
	refuse(token[:20] + "\n" + token[20:])
	raw, err := base64.RawURLEncoding.DecodeString(bare)
	require.NoError(t, err)
	write := func(change func(fields map[string]any)) string {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(raw, &fields))
		delete(fields, "signature")
		change(fields)
		body, err := json.Marshal(fields) // canonical: names ascend, and nothing in it needs an escape
		require.NoError(t, err)
		fields["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key(1), body))
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		return "cap_" + base64.RawURLEncoding.EncodeToString(text)
	}
	_, err = authz.Verify(write(func(map[string]any) {}), public)
	require.NoError(t, err, "written as Sign writes it")
	refuse(write(func(fields map[string]any) { fields["token_version"] = 2 }))
	refuse(write(func(fields map[string]any) { fields["nonce"] = strings.Repeat("0", 1<<16) }))

	unsigned := bytes.Replace(raw, raw[bytes.Index(raw, []byte(`"signature":"`)):bytes.Index(raw, []byte(`","subject"`))+2], nil, 1)
	require.True(t, json.Valid(unsigned))
	refuse("cap_" + base64.RawURLEncoding.EncodeToString(unsigned))

	eternal := g.Grant
	eternal.ExpiresAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // no time of JSON
	_, err = authz.Sign(&eternal, "n", "k1", key(1))
	require.Error(t, err)
}

func TestNewNonce_IsLongAndNew(t *testing.T) { // S0-55
	t.Parallel()
	one, err := authz.NewNonce()
	require.NoError(t, err)
	two, err := authz.NewNonce()
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	require.Len(t, one, 64)
}
