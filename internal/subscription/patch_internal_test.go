package subscription

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPatch_NamesTheFault(t *testing.T) {
	t.Parallel()
	const object = `the body is not a JSON object; send a merge patch such as {"description":"…"}`
	for patch, want := range map[string]string{
		``:                              object,
		`[]`:                            object,
		`null`:                          object,
		`{"colour":"red"}`:              `field "colour" is unknown`,
		`{"policy":{"window":"many"}}`:  `field "policy.window": a JSON string is not expected; use a number`,
		`{"filter":{"colour":"red"}}`:   `field "filter.colour" is unknown; valid fields are types, sources, subjects, labels, cel`,
		`{"policy":{"retries":{}}}`:     `field "policy.retries" is unknown; use policy.retry: {"policy":{"retry":{"preset":"standard"}}}`,
		`{"endpoint":{"secret":"new"}}`: `the secret cannot be patched; rotate it: POST …/secret/rotate`,
		`{"id":"x"}`:                    `field "id" cannot be changed`,
	} {
		require.EqualError(t, applyPatch(whole(), []byte(patch)), want, patch)
	}
	require.NoError(t, applyPatch(whole(), []byte(`{"idempotency_key":"","id":"`+whole().ID+`"}`)), "as an answer once had it")
	for range 20 { // for any order of maps
		err := applyPatch(whole(), []byte(`{"start":"all","state":"paused","revision":9,"pattern":"/b","namespace":"b","mode":"wake","id":"x"}`))
		require.EqualError(t, err, `field "id" cannot be changed`, "the first one")
	}
}

// What is not active is made so by "enabled": true, and by nothing else.
func TestPatch_EnablesAndDisables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state  sluice.State
		patch  string
		want   sluice.State
		reason string
	}{
		{sluice.Active, `{"description":"x"}`, sluice.Active, ""},
		{sluice.Active, `{"enabled":true}`, sluice.Active, ""},
		{sluice.Active, `{"enabled":false}`, sluice.Paused, ""},
		{sluice.Disabled, `{"description":"x"}`, sluice.Disabled, "why"},
		{sluice.Disabled, `{"enabled":false}`, sluice.Disabled, "why"},
		{sluice.Suspended, `{"enabled":true}`, sluice.Active, ""},
	} {
		sub := whole()
		if sub.State = c.state; c.state != sluice.Active {
			sub.Enabled, sub.Reason = false, "why"
		}
		require.NoError(t, applyPatch(sub, []byte(c.patch)))
		require.Equal(t, c.want, sub.State, "%s %s", c.state, c.patch)
		require.Equal(t, c.reason, sub.Reason, "%s %s", c.state, c.patch)
		require.Equal(t, c.want == sluice.Active, sub.Enabled, "%s %s", c.state, c.patch)
	}
}

// asked says what a registry asked of endpoints, catalogue and quota, and refuses what it is told to.
type asked struct {
	all    []string
	refuse string
}

func (a *asked) ask(what string) error {
	a.all = append(a.all, what)
	if what == a.refuse {
		return errors.New("no " + what)
	}
	return nil
}

func (a *asked) Check(context.Context, sluice.Endpoint) error { return a.ask("check") }

func (a *asked) Handshake(context.Context, *sluice.Subscription) (*sluice.Agreement, error) {
	return &sluice.Agreement{}, a.ask("handshake")
}

func (a *asked) CheckTypes(string, []string) error                      { return a.ask("types") }
func (a *asked) Enter(context.Context, *sluice.Subscription) error      { return a.ask("enter") }
func (a *asked) Move(*sluice.Subscription) error                        { return a.ask("move") }
func (a *asked) Leave(string)                                           {}
func (*asked) Trial() func(context.Context, *sluice.Subscription) error { return nil }

// Only what changes is looked at again: an endpoint that is away for now is no reason to refuse a description.
func TestRecheck_AsksAboutChangedFields(t *testing.T) { // C08
	t.Parallel()
	ordering := "policy.ordering cannot change, because lane keys depend on it; create a new subscription"
	for name, c := range map[string]struct {
		change func(*sluice.Subscription)
		asks   []string
		fails  string
	}{
		"a description":         {func(sub *sluice.Subscription) { sub.Description = "x" }, nil, ""},
		"a namespace's label":   {func(sub *sluice.Subscription) { sub.Filter.Labels = nil }, nil, ""},
		"types":                 {func(sub *sluice.Subscription) { sub.Filter.Types = []string{"a"} }, []string{"types"}, ""},
		"a header":              {func(sub *sluice.Subscription) { sub.Endpoint.Headers = nil }, []string{"check", "move"}, ""},
		"the URL":               {func(sub *sluice.Subscription) { sub.Endpoint.URL += "x" }, []string{"check", "handshake", "move"}, ""},
		"no handshake any more": {func(sub *sluice.Subscription) { sub.Endpoint.Handshake = false }, []string{"check", "move"}, ""},
		"an ordering":           {func(sub *sluice.Subscription) { sub.Policy.Ordering = sluice.OrderAll }, nil, ordering},
		"a wrong window":        {func(sub *sluice.Subscription) { sub.Policy.Window = -1 }, nil, "policy.window is -1; use at least 1"},
		"a short secret":        {func(sub *sluice.Subscription) { sub.Secrets = []sluice.Secret{{Value: "x"}} }, nil, "secret has 1 bytes; use at least 32"},
	} {
		before := whole()
		before.Endpoint.Handshake, before.Agreed = true, &sluice.Agreement{At: time.Unix(1, 0)}
		after := whole()
		after.Endpoint.Handshake, after.Agreed = true, &sluice.Agreement{At: time.Unix(1, 0)}
		c.change(after)
		try := func(refuse string) error {
			a := &asked{refuse: refuse}
			err := New(Deps{Endpoints: a, Catalogue: a, Quota: a}).recheck(t.Context(), before, after)
			if refuse == "" {
				require.Equal(t, c.asks, a.all, name)
			}
			return err
		}
		if c.fails != "" {
			require.EqualError(t, try(""), c.fails, name)
			continue
		}
		require.NoError(t, try(""), name)
		for _, refuse := range c.asks {
			require.EqualError(t, try(refuse), "no "+refuse, name)
		}
		if name == "no handshake any more" {
			require.Nil(t, after.Agreed)
		}
	}
	before, after := whole(), whole()
	after.Endpoint.Handshake = true
	a := &asked{}
	require.NoError(t, New(Deps{Endpoints: a}).recheck(t.Context(), before, after))
	require.Equal(t, []string{"check", "handshake"}, a.all, "one that was asked for later")
}

// C36: earlier secrets end when they were promised to, and at most five sign.
func TestRotated_KeepsPromisedSecrets(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	secret := func(value string, ends time.Time) sluice.Secret { return sluice.Secret{Value: value, ExpiresAt: ends} }
	is := []sluice.Secret{secret("is", time.Time{})}
	for name, c := range map[string]struct {
		secrets []sluice.Secret
		overlap time.Duration
		want    []sluice.Secret
	}{
		"with an overlap":    {is, time.Hour, []sluice.Secret{secret("is", now.Add(time.Hour))}},
		"without":            {[]sluice.Secret{secret("is", time.Time{}), secret("a", now.Add(time.Hour))}, 0, nil},
		"one that has ended": {[]sluice.Secret{secret("a", now), secret("b", now.Add(1))}, time.Hour, []sluice.Secret{secret("b", now.Add(1))}},
		"many": {
			[]sluice.Secret{secret("a", now.Add(1)), secret("b", now.Add(2)), secret("c", now.Add(3)), secret("d", now.Add(4)), secret("e", now.Add(5))},
			time.Hour,
			[]sluice.Secret{secret("a", now.Add(1)), secret("b", now.Add(2)), secret("c", now.Add(3)), secret("d", now.Add(4))},
		},
	} {
		got := rotated(c.secrets, "new", now, c.overlap)
		require.Equal(t, sluice.Secret{Value: "new", CreatedAt: now}, got[0], name)
		require.Equal(t, c.want, append([]sluice.Secret(nil), got[1:]...), name)
	}
}
