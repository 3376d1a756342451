package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestClient_AccessCallsMatchTheContract(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		call func(context.Context, *client.Client) error
		want string
		body string
	}{
		{"whoami", func(ctx context.Context, c *client.Client) error { _, err := c.WhoAmI(ctx); return err }, "GET /v1/whoami", ""},
		{"mint", func(ctx context.Context, c *client.Client) error {
			_, err := c.MintGrant(ctx, client.GrantSpec{
				Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbRead}, Object: sluice.Object{Namespace: "acme", Pattern: "/o/**"},
				ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			})
			return err
		}, "POST /v1/grants", `{"principal":"user:ann","verbs":["read"],"object":"path:acme/o/**","expires_at":"2026-01-02T03:04:05Z"}`},
		{"grants", func(ctx context.Context, c *client.Client) error {
			_, err := c.Grants(ctx, client.GrantsQuery{Principal: "user:ann", Namespace: "acme", Active: true, Limit: 5, Cursor: "g1"})
			return err
		}, "GET /v1/grants?cursor=g1&limit=5&namespace=acme&principal=user%3Aann&state=active", ""},
		{"grant", func(ctx context.Context, c *client.Client) error { _, err := c.Grant(ctx, "g"); return err }, "GET /v1/grants/g", ""},
		{"renew", func(ctx context.Context, c *client.Client) error {
			_, err := c.RenewGrant(ctx, "g", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			return err
		}, "POST /v1/grants/g/renew", `{"expires_at":"2026-01-02T03:04:05Z"}`},
		{"renew to the same end", func(ctx context.Context, c *client.Client) error {
			_, err := c.RenewGrant(ctx, "g", time.Time{})
			return err
		}, "POST /v1/grants/g/renew", `{}`},
		{"revoke", func(ctx context.Context, c *client.Client) error { _, err := c.RevokeGrant(ctx, "g"); return err }, "POST /v1/grants/g/revoke", ""},
		{"verify", func(ctx context.Context, c *client.Client) error {
			_, err := c.VerifyToken(ctx, "cap_x", "", sluice.Object{})
			return err
		}, "POST /v1/grants/verify", `{"token":"cap_x"}`},
		{"verify that it allows", func(ctx context.Context, c *client.Client) error {
			_, err := c.VerifyToken(ctx, "cap_x", sluice.VerbAdmin, sluice.Object{})
			return err
		}, "POST /v1/grants/verify", `{"token":"cap_x","verb":"admin","object":"*"}`},
		{"verify a grant", func(ctx context.Context, c *client.Client) error {
			_, err := c.VerifyGrant(ctx, "g", sluice.VerbRead, sluice.Object{Namespace: "acme"})
			return err
		}, "POST /v1/grants/verify", `{"grant":"g","verb":"read","object":"scope:acme"}`},
		{"portal link", func(ctx context.Context, c *client.Client) error {
			_, err := c.PortalLink(ctx, client.PortalLinkSpec{Principal: "user:ann", Object: &sluice.Object{Namespace: "acme"}, TTL: sluice.Duration(time.Hour), Next: "/portal/attempts"})
			return err
		}, "POST /v1/portal/links", `{"principal":"user:ann","object":"scope:acme","ttl":"1h0m0s","next":"/portal/attempts"}`},
		{"portal link for a grant", func(ctx context.Context, c *client.Client) error {
			_, err := c.PortalLink(ctx, client.PortalLinkSpec{Grant: "g", LinkTTL: sluice.Duration(time.Minute)})
			return err
		}, "POST /v1/portal/links", `{"grant":"g","link_ttl":"1m0s"}`},
		{"portal session", func(ctx context.Context, c *client.Client) error { _, err := c.OpenPortal(ctx, "plk_x"); return err }, "POST /v1/portal/sessions", `{"code":"plk_x"}`},
		{"access lists", func(ctx context.Context, c *client.Client) error { _, err := c.ACLs(ctx, "acme"); return err }, "GET /v1/namespaces/acme/acl", ""},
		{"access list of one", func(ctx context.Context, c *client.Client) error {
			_, err := c.ACL(ctx, "acme", "user:a+b@c")
			return err
		}, "GET /v1/namespaces/acme/acl/user:a+b@c", ""},
		{"put access list", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutACL(ctx, "acme", "user:ann", sluice.Access{Tier: sluice.TierRead, Pattern: "/o/**"}, sluice.Access{Tier: sluice.TierWrite, Pattern: "/p/*"})
			return err
		}, "PUT /v1/namespaces/acme/acl/user:ann", `{"entries":[{"tier":"read","pattern":"/o/**"},{"tier":"write","pattern":"/p/*"}]}`},
		{"delete access list", func(ctx context.Context, c *client.Client) error { return c.DeleteACL(ctx, "acme", "user:ann") }, "DELETE /v1/namespaces/acme/acl/user:ann", ""},
		{"principals", func(ctx context.Context, c *client.Client) error { _, err := c.Principals(ctx); return err }, "GET /v1/principals", ""},
		{"principal", func(ctx context.Context, c *client.Client) error { _, err := c.Principal(ctx, "user:ann"); return err }, "GET /v1/principals/user:ann", ""},
		{"put principal", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutPrincipal(ctx, sluice.Profile{Principal: "user:ann", Clearance: sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}})
			return err
		}, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET","compartments":["legal"]},"description":""}`},
		{"delete principal", func(ctx context.Context, c *client.Client) error { return c.DeletePrincipal(ctx, "user:ann") }, "DELETE /v1/principals/user:ann", ""},
		{"label", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutNamespace(ctx, "acme", client.NamespaceSpec{Label: &sluice.Label{Level: sluice.LevelInternal}, Revision: 7})
			return err
		}, "PUT /v1/namespaces/acme", `{"label":{"level":"INTERNAL","compartments":[]}}`},
		{"erase", func(ctx context.Context, c *client.Client) error { _, err := c.Erase(ctx, "acme", "/o/1"); return err }, "POST /v1/namespaces/acme/tombstones", `{"path":"/o/1"}`},
		{"tombstones", func(ctx context.Context, c *client.Client) error { _, err := c.Tombstones(ctx, "acme"); return err }, "GET /v1/namespaces/acme/tombstones", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{200, "{}"})
			require.NoError(t, tt.call(t.Context(), s.Client))
			got := s.requests()[0]
			require.Equal(t, tt.want, got.line)
			require.Equal(t, tt.body, got.body)
			if tt.name == "label" {
				require.Equal(t, `"7"`, got.header.Get("If-Match"))
			}
		})
	}
}

func TestGrant_ReadsAsWritten(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{201, `{"id":"g","principal":"service:erp","verbs":["subscribe"],"object":"path:acme/o/**","issued_by":"user:ann","parent":"p","expires_at":"2026-01-02T03:04:05Z","token":"cap_x"}`})
	got, err := s.MintGrant(t.Context(), client.GrantSpec{})
	require.NoError(t, err)
	require.Equal(t, client.Minted{
		Grant: sluice.Grant{
			ID: "g", Principal: "service:erp", Verbs: []sluice.Verb{sluice.VerbSubscribe}, Object: sluice.Object{Namespace: "acme", Pattern: "/o/**"},
			IssuedBy: "user:ann", Parent: "p", ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Token: "cap_x",
	}, got)
}

// A repeated call would leave a grant of which the caller has no token, or a token that is void.
func TestClient_GrantCallsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"mint": func(ctx context.Context, c *client.Client) error {
			_, err := c.MintGrant(ctx, client.GrantSpec{})
			return err
		},
		"renew": func(ctx context.Context, c *client.Client) error {
			_, err := c.RenewGrant(ctx, "g", time.Time{})
			return err
		},
	} {
		s := serve(t, answer{503, ""}, answer{200, "{}"})
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(call(t.Context(), s.Client)), name)
		require.Len(t, s.requests(), 1, name)
	}
}
