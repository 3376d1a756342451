package subscription

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// wished is a subscription with everything that a client chooses.
func wished() *sluice.Subscription {
	sub := &sluice.Subscription{
		ID: "s", Namespace: "n", Mode: sluice.Push, Pattern: "/a/**", Target: "scope:n", Filter: sluice.Filter{Types: []string{"t"}}, Start: "new",
		Endpoint:     sluice.Endpoint{URL: "https://192.0.2.1/", Headers: map[string]string{"x-a": "1"}},
		Policy:       sluice.Policy{Window: 4},
		ReplayWindow: sluice.Duration(time.Hour), Description: "d", Metadata: map[string]string{"m": "1"}, IdempotencyKey: "k", Lifecycle: sluice.Lifecycle{CreatedBy: "user:ann"},
	}
	return sub
}

// Every choice of a client makes another configuration; under one key that is a conflict. What makes another structure
// is listed with it.
func TestConfigHash_CoversAllThatIsChosen(t *testing.T) { // S0-26, S0-27, C09
	t.Parallel()
	changes := map[string]struct {
		change    func(sub *sluice.Subscription)
		structure bool // it is another wish, too
	}{
		"Namespace":      {func(sub *sluice.Subscription) { sub.Namespace = "other" }, true},
		"Mode":           {func(sub *sluice.Subscription) { sub.Mode = sluice.Wake }, true},
		"Pattern":        {func(sub *sluice.Subscription) { sub.Pattern = "/b" }, true},
		"Target":         {func(sub *sluice.Subscription) { sub.Target = "entity:x" }, true},
		"Filter":         {func(sub *sluice.Subscription) { sub.Filter.Types = []string{"u"} }, true},
		"URL":            {func(sub *sluice.Subscription) { sub.Endpoint.URL += "x" }, true},
		"Exec":           {func(sub *sluice.Subscription) { sub.Endpoint.Exec = []string{"handlers/a"} }, true},
		"Handshake":      {func(sub *sluice.Subscription) { sub.Endpoint.Handshake = true }, false},
		"Headers":        {func(sub *sluice.Subscription) { sub.Endpoint.Headers = map[string]string{"x-a": "2"} }, false},
		"Auth":           {func(sub *sluice.Subscription) { sub.Endpoint.Auth = &sluice.EndpointAuth{ClientID: "c"} }, false},
		"TLS":            {func(sub *sluice.Subscription) { sub.Endpoint.TLS = &sluice.EndpointTLS{CA: "c"} }, false},
		"Start":          {func(sub *sluice.Subscription) { sub.Start = "all" }, false},
		"Policy":         {func(sub *sluice.Subscription) { sub.Policy.Window = 5 }, false},
		"ReplayWindow":   {func(sub *sluice.Subscription) { sub.ReplayWindow++ }, false},
		"Description":    {func(sub *sluice.Subscription) { sub.Description = "e" }, false},
		"Metadata":       {func(sub *sluice.Subscription) { sub.Metadata = map[string]string{"m": "2"} }, false},
		"IdempotencyKey": {func(sub *sluice.Subscription) { sub.IdempotencyKey = "l" }, false},
	}
	for field := range reflect.TypeFor[configuration]().Fields() {
		require.Contains(t, changes, field.Name, "no test changes it")
	}
	hashes := func(sub *sluice.Subscription) (config, structure string) {
		config, err := configHash(sub)
		require.NoError(t, err)
		structure, err = structureKey(sub)
		require.NoError(t, err)
		return config, structure
	}
	config, structure := hashes(wished())
	for name, c := range changes {
		sub := wished()
		c.change(sub)
		gotConfig, gotStructure := hashes(sub)
		require.NotEqual(t, config, gotConfig, name)
		require.Equal(t, c.structure, structure != gotStructure, name)
	}
	other := wished()
	other.CreatedBy, other.ID, other.Enabled, other.Secrets = "user:bob", "t", true, []sluice.Secret{{Value: "x"}}
	gotConfig, gotStructure := hashes(other)
	require.Equal(t, config, gotConfig, "no choice of the client's")
	require.NotEqual(t, structure, gotStructure, "of another principal")
}

// A key belongs to one principal in one namespace; without one the structure is what is reserved.
func TestReservationKey_IsOfPrincipalAndNamespace(t *testing.T) { // S0-26
	t.Parallel()
	key := func(change func(sub *sluice.Subscription)) string {
		sub := wished()
		change(sub)
		key, err := reservationKey(sub)
		require.NoError(t, err)
		return key
	}
	is := key(func(*sluice.Subscription) {})
	require.Equal(t, is, key(func(sub *sluice.Subscription) { sub.Pattern = "/b" }))
	require.NotEqual(t, is, key(func(sub *sluice.Subscription) { sub.IdempotencyKey = "l" }))
	require.NotEqual(t, is, key(func(sub *sluice.Subscription) { sub.CreatedBy = "user:bob" }))
	require.NotEqual(t, is, key(func(sub *sluice.Subscription) { sub.Namespace = "m" }))
	bare := func(change func(sub *sluice.Subscription)) string {
		return key(func(sub *sluice.Subscription) { sub.IdempotencyKey = ""; change(sub) })
	}
	structure, err := structureKey(wished())
	require.NoError(t, err)
	require.Equal(t, structure, bare(func(*sluice.Subscription) {}))
	require.NotEqual(t, structure, bare(func(sub *sluice.Subscription) { sub.Pattern = "/b" }))
}

func TestSameSecret_IsOneThatCounts(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{Secrets: []sluice.Secret{{Value: "new"}, {Value: "old"}}}
	for given, want := range map[string]bool{"": true, "new": true, "old": true, "other": false, "ne": false} {
		require.Equal(t, want, sameSecret(given, sub), given)
	}
	require.True(t, sameSecret("", &sluice.Subscription{}))
	require.False(t, sameSecret("x", &sluice.Subscription{}))
}
