package subscription_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const waking = `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"},"description":"d"}`

// S1-05…09, S1-66, S1-115, S1-117: what is not said follows from the specification.
func TestWake_DefaultsAreThoseOfS1(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub, created, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)
	require.True(t, created)
	require.NotEmpty(t, sub.Endpoint.Secret)
	require.Equal(t, sluice.SchemeT, sub.Policy.Signature.Scheme)
	require.Equal(t, sluice.PresetPersistent, sub.Policy.Retry.Preset)
	require.Equal(t, "30s", sub.Policy.Timeout.String())
}

// S1-108, S1-109: that there is another one is said before the URL is looked at; the description counts.
func TestWake_PutIsIdempotentUntilItDiffers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)

	again, created, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Empty(t, again.Endpoint.Secret)

	for name, other := range map[string]string{
		"a URL that is none":       `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"not a url"},"description":"d"}`,
		"a URL that is refused":    `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"http://10.0.0.1/"},"description":"d"}`,
		"no URL":                   `{"mode":"wake","pattern":"/agents/*","description":"d"}`,
		"another pattern":          `{"mode":"wake","pattern":"/agents/**","endpoint":{"url":"` + url + `"},"description":"d"}`,
		"another description":      `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"},"description":"e"}`,
		"no description":           `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"}}`,
		"another mode":             `{"pattern":"/agents/*","endpoint":{"url":"` + url + `"},"description":"d"}`,
		"a policy of its own":      `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"},"description":"d","policy":{"window":7}}`,
		"metadata that it has not": `{"mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"},"description":"d","metadata":{"a":"b"}}`,
	} {
		_, _, err := b.Put(t.Context(), "agents", parse(t, other), "root")
		require.Equal(t, sluice.SubscriptionDiffers, sluice.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "different configuration", name)
	}
}

// S1-04: what a subscription of mode wake is cannot change, whether it is enabled can.
func TestWake_IsImmutable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)
	for _, patch := range []string{
		`{"endpoint":{"url":"https://192.0.2.1/other"}}`, `{"endpoint":{"headers":{"a":"b"}}}`, `{"description":"e"}`, `{"policy":{"window":7}}`,
		`{"replay_window":"2h"}`, `{"filter":{"types":["a"]}}`,
	} {
		_, err := b.Patch(t.Context(), "agents", []byte(patch), 0, "root")
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "%s: %v", patch, err)
		require.ErrorContains(t, err, "delete the subscription and create a new one")
	}
	_, err = b.Patch(t.Context(), "agents", []byte(`{"pattern":"/b"}`), 0, "root")
	requireCode(t, sluice.InvalidRequest, err)

	sub, err := b.Patch(t.Context(), "agents", []byte(`{"enabled":false,"metadata":{"team":"a"},"description":"d"}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, sluice.Paused, sub.State)
	require.Equal(t, map[string]string{"team": "a"}, sub.Metadata)
	same, created, err := b.Put(t.Context(), "agents", parse(t, waking), "root") // S1 knows no metadata
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, map[string]string{"team": "a"}, same.Metadata)
}

// An anonymous caller learns nothing of the subscriptions of others, and finds those made without a token.
func TestAnonymous_LearnsNothingOfTakenIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)
	anonymous := model.WithCaller(t.Context(), sluice.Caller{Principal: sluice.Anonymous})
	for _, body := range []string{waking, `{"mode":"wake","pattern":"/b","endpoint":{"url":"` + url + `"}}`} {
		_, _, err = b.Put(anonymous, "agents", parse(t, body), string(sluice.Anonymous))
		requireCode(t, sluice.SubscriptionDiffers, err)
		require.EqualError(t, err, "the id is in use; choose another one")
	}
	_, created, err := b.Put(anonymous, "mine", parse(t, waking), string(sluice.Anonymous))
	require.NoError(t, err)
	require.True(t, created)
	_, created, err = b.Put(anonymous, "mine", parse(t, waking), string(sluice.Anonymous))
	require.NoError(t, err)
	require.False(t, created)
}

// What the caller may not have is not told apart by whether the id is taken.
func TestWake_CallerWithoutRightsLearnsNoIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "agents", parse(t, waking), "root")
	require.NoError(t, err)
	b.needs.Access = &losing{asked: 1}
	strict := subscription.New(b.needs)
	for _, id := range []string{"agents", "free"} {
		_, _, err := strict.Put(t.Context(), id, parse(t, waking), "user:eve")
		requireCode(t, sluice.CapabilityRequired, err)
	}
}
