package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// A new signing key is picked up by servers that run, wherever it was asked for; receivers that know
// only one of the two verify through the overlap, and afterwards the old one is gone.
func TestSigningKey_RotatesWithoutGapOrRestart(t *testing.T) {
	t.Parallel()
	shared := natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	hook := hooktest.New(t, nil)
	const subs = 8
	for i := range subs {
		subscribe(t, one.api, wish(fmt.Sprintf("%s/s%d", hook.URL, i), fmt.Sprintf(`"id":"s%d"`, i), `"policy":{"signature":{"scheme":"ed25519"}}`))
	}
	eventually(t, func() bool {
		a, b := 0, 0
		for i := range subs {
			a += len(one.servedOf(t, fmt.Sprintf("s%d", i)))
			b += len(two.servedOf(t, fmt.Sprintf("s%d", i)))
		}
		return a > 0 && b > 0 && a+b == subs
	}, "both serve some")
	jwks := func(s *running) webhook.Receiver {
		t.Helper()
		keys, err := webhook.ParseKeys([]byte(s.must(t, http.StatusOK, "GET /.well-known/jwks.json", "").text))
		require.NoError(t, err)
		return webhook.Receiver{Scheme: webhook.Ed25519, Keys: keys}
	}
	sent := 0
	signatures := func() (all []hooktest.Request) {
		t.Helper()
		sent++
		put(t, one.api, "/a", sent, sent)
		return hook.Wait(sent * subs)[(sent-1)*subs:]
	}
	// signedBy publishes until every request of a round has so many signatures, and returns it.
	signedBy := func(n int) []hooktest.Request {
		t.Helper()
		var round []hooktest.Request
		eventually(t, func() bool {
			round = signatures()
			for _, r := range round {
				if len(strings.Fields(r.Header.Get(webhook.HeaderSignature))) != n {
					return false
				}
			}
			return true
		}, fmt.Sprintf("%d signatures each", n))
		return round
	}
	before := jwks(one)
	require.Len(t, before.Keys, 1)
	signedBy(1)
	made, err := two.api.RotateKey(t.Context(), time.Hour)
	require.NoError(t, err)
	during := jwks(one)
	require.Len(t, during.Keys, 2)
	list, err := one.api.Keys(t.Context())
	require.NoError(t, err)
	list = slices.DeleteFunc(list, func(k sluice.SigningKey) bool { return k.Use != sluice.UseWebhook })
	require.Len(t, list, 2)
	require.Equal(t, made.ID, list[0].ID)
	require.Nil(t, list[0].RetiresAt)
	require.WithinDuration(t, made.CreatedAt.Add(time.Hour), *list[1].RetiresAt, 0)
	for _, r := range signedBy(2) {
		receive(t, &before, r) // who knows only the old key
		receive(t, &during, r)
	}
	last, err := one.api.RotateKey(t.Context(), 0)
	require.NoError(t, err)
	after := jwks(two)
	require.Len(t, after.Keys, 1)
	for _, r := range signedBy(1) {
		receive(t, &after, r)
	}
	text := everything(t, dial(t, shared.ClientURL()))
	require.Contains(t, text, `"action":"key.rotate"`)
	require.Contains(t, text, `"signs":"`+last.ID+`"`)
	for _, id := range []string{list[0].ID, list[1].ID} {
		require.NotContains(t, text, `"kid":"`+id+`"`, "its seed is gone")
	}
	require.Equal(t, http.StatusBadRequest, one.call(t, "POST /v1/keys/rotate", `{"overlap":"-1h"}`).status)
	require.Equal(t, http.StatusUnauthorized, one.call(t, "POST /v1/keys/rotate", "", "Authorization", "Bearer nobody").status)
}

// nonceOf returns the part of a grant's token that is no record's.
func nonceOf(t *testing.T, token string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "cap_"))
	require.NoError(t, err)
	var says struct{ Nonce string }
	require.NoError(t, json.Unmarshal(text, &says))
	require.Len(t, says.Nonce, 64)
	return says.Nonce
}
