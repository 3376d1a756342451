package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMirror_CallsMatchTheContract(t *testing.T) {
	t.Parallel()
	weight := 0.5
	for _, tt := range []struct {
		name string
		call func(context.Context, *client.Client) error
		want string
		body string
	}{
		{"create", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateMirror(ctx, client.MirrorSpec{ID: "m", Source: "low"})
			return err
		}, "POST /v1/subscriptions", `{"id":"m","source":"low","mode":"mirror"}`},
		{"create with everything", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateMirror(ctx, client.MirrorSpec{
				ID: "m", Namespace: "high", Source: "https://h/v1/namespaces/low", Depth: sluice.DepthFull, PathPrefix: "/a/", PollInterval: sluice.Duration(time.Hour),
				Weight: 1, Credential: "cap_x", Description: "d", Metadata: map[string]string{"k": "v"},
			})
			return err
		}, "POST /v1/subscriptions", `{"id":"m","namespace":"high","source":"https://h/v1/namespaces/low","depth":"full","path_prefix":"/a/","poll_interval":"1h0m0s","weight":1,` +
			`"credential":"cap_x","description":"d","metadata":{"k":"v"},"mode":"mirror"}`},
		{"one", func(ctx context.Context, c *client.Client) error { _, err := c.Mirror(ctx, "a/b"); return err }, "GET /v1/subscriptions/a%2Fb", ""},
		{"list", func(ctx context.Context, c *client.Client) error {
			_, err := c.Mirrors(ctx, client.MirrorsQuery{Namespace: "high", Source: "low", State: sluice.Suspended, Limit: 5, Cursor: "x"})
			return err
		}, "GET /v1/subscriptions?cursor=x&limit=5&mode=mirror&namespace=high&source=low&state=suspended", ""},
		{"update", func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateMirror(ctx, "m", sluice.MirrorEdit{Weight: &weight}, 7)
			return err
		}, "PATCH /v1/subscriptions/m", `{"weight":0.5}`},
		{"delete", func(ctx context.Context, c *client.Client) error { return c.DeleteMirror(ctx, "m") }, "DELETE /v1/subscriptions/m", ""},
		{"sync", func(ctx context.Context, c *client.Client) error { _, _, err := c.SyncMirror(ctx, "m", 0); return err }, "POST /v1/subscriptions/m/sync", ""},
		{"sync and wait", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.SyncMirror(ctx, "m", client.MaxSyncWait)
			return err
		}, "POST /v1/subscriptions/m/sync?wait=1m0s", ""},
		{"status", func(ctx context.Context, c *client.Client) error { _, err := c.MirrorStatus(ctx, "m"); return err }, "GET /v1/subscriptions/m/status", ""},
		{"suspend", func(ctx context.Context, c *client.Client) error { _, err := c.SuspendMirror(ctx, "m"); return err }, "POST /v1/subscriptions/m/suspend", ""},
		{"resume", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResumeMirror(ctx, "m", true)
			return err
		}, "POST /v1/subscriptions/m/resume", `{"accept_origin":true}`},
		{"credential", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutMirrorCredential(ctx, "m", "cap_x")
			return err
		}, "PUT /v1/subscriptions/m/credential", `{"credential":"cap_x"}`},
		{"topics", func(ctx context.Context, c *client.Client) error {
			_, err := c.Topics(ctx, "high", client.TopicsQuery{IncludeMirrored: true, PathPrefix: "/a", Limit: 5, Cursor: "x"})
			return err
		}, "GET /v1/namespaces/high/topics?cursor=x&include_mirrored=true&limit=5&path_prefix=%2Fa", ""},
		{"items", func(ctx context.Context, c *client.Client) error {
			_, err := c.Items(ctx, "high", client.ItemsQuery{Source: client.ItemsAll, Mirror: "m", PathPrefix: "/a", Limit: 5, After: "m.7"})
			return err
		}, "GET /v1/namespaces/high/items?after=m.7&limit=5&path_prefix=%2Fa&source=all&subscription=m", ""},
		{"export", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.ExportBundle(ctx, "low", client.ExportQuery{Since: 7, Depth: sluice.DepthFull, Previous: "d"})
			return err
		}, "GET /v1/namespaces/low/export?previous=d&scope=full&since=7", ""},
		{"import", func(ctx context.Context, c *client.Client) error {
			_, err := c.ImportBundle(ctx, "high", []byte(`{"a":1}`), false)
			return err
		}, "POST /v1/namespaces/high/import", `{"a":1}`},
		{"import behind a gap", func(ctx context.Context, c *client.Client) error {
			_, err := c.ImportBundle(ctx, "high", []byte(`{}`), true)
			return err
		}, "POST /v1/namespaces/high/import?accept_gap=true", `{}`},
		{"bundle keys", func(ctx context.Context, c *client.Client) error { _, err := c.BundleKeys(ctx, "low"); return err }, "GET /v1/namespaces/low/bundle-keys", ""},
		{"trusted keys", func(ctx context.Context, c *client.Client) error { _, err := c.TrustedKeys(ctx, "high"); return err }, "GET /v1/namespaces/high/trusted-keys", ""},
		{"trust", func(ctx context.Context, c *client.Client) error {
			_, err := c.TrustKey(ctx, "high", client.BundleKey{Type: "OKP", Curve: "Ed25519", X: "x", KeyID: "k"}, "https://low")
			return err
		}, "PUT /v1/namespaces/high/trusted-keys/k", `{"jwk":{"kty":"OKP","crv":"Ed25519","x":"x","kid":"k"},"source":"https://low"}`},
		{"distrust", func(ctx context.Context, c *client.Client) error { return c.DistrustKey(ctx, "high", "k") }, "DELETE /v1/namespaces/high/trusted-keys/k", ""},
		{"rotate the key", func(ctx context.Context, c *client.Client) error {
			_, err := c.RotateBundleKey(ctx, time.Hour)
			return err
		}, "POST /v1/keys/rotate", `{"use":"bundle","overlap":"1h0m0s"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{200, `{"mode":"mirror"}`})
			require.NoError(t, tt.call(t.Context(), s.Client))
			got := s.requests()[0]
			require.Equal(t, tt.want, got.line)
			require.Equal(t, tt.body, got.body)
			if tt.name == "update" {
				require.Equal(t, `"7"`, got.header.Get("If-Match"))
			}
		})
	}
}

func TestMirror_ReadsAsWritten(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{200, `{"subscriptions":[{"id":"m","mode":"mirror","source":"low","weight":0.3,"status":{"state":"idle","watermark":4,"explanation":"e"}}],"next_cursor":"m"}`},
		answer{200, `{"items":[{"source":"mirrored","subscription_id":"m","tombstoned":false,"op":"write","seq":3,"id":"a","path":"/p","type":"t","event_source":"/s"}],"next_cursor":"m.3"}`})
	mirrors, err := s.Mirrors(t.Context(), client.MirrorsQuery{})
	require.NoError(t, err)
	require.Equal(t, client.Page[client.MirrorSummary]{Next: "m", Items: []client.MirrorSummary{{
		Mirror: sluice.Mirror{ID: "m", Mode: sluice.Mirroring, Source: "low", Weight: 0.3},
		Status: sluice.MirrorStatus{State: sluice.SyncIdle, Watermark: 4, Sentence: "e"},
	}}}, mirrors)
	items, err := s.Items(t.Context(), "high", client.ItemsQuery{})
	require.NoError(t, err)
	require.Equal(t, client.Page[sluice.MirroredItem]{Next: "m.3", Items: []sluice.MirroredItem{{
		Source: "mirrored", Subscription: "m", Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: 3, ID: "a", Path: "/p", Type: "t", Source: "/s"}},
	}}}, items)
}

// A subscription of another mode has the same address, and is none.
func TestMirror_IsNoOtherSubscription(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{200, `{"id":"s","mode":"push"}`})
	_, err := s.Mirror(t.Context(), "s")
	require.Equal(t, sluice.SubscriptionMissing, sluice.CodeOf(err))
	require.ErrorContains(t, err, "its mode is push")
}

func TestSyncMirror_SaysWhetherItIsDone(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{202, ""}, answer{200, `{"state":"idle","watermark":7}`}, answer{503, ""})
	_, done, err := s.SyncMirror(t.Context(), "m", time.Second)
	require.NoError(t, err)
	require.False(t, done)
	st, done, err := s.SyncMirror(t.Context(), "m", time.Second)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, uint64(7), st.Watermark)
	_, done, err = s.SyncMirror(t.Context(), "m", time.Second)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.False(t, done)
	require.Len(t, s.requests(), 3, "a failure is recorded, so the call is not repeated")
}
