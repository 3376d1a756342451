package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestKnowledge_CallsMatchTheContract(t *testing.T) {
	t.Parallel()
	topK, above := 0, 0.5
	claim := client.JobClaim{Namespace: "high", Job: "entry.a=2Eb", Token: "t"}
	for _, tt := range []struct {
		name string
		call func(context.Context, *client.Client) error
		want string
		body string
	}{
		{"put", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutEnrichment(ctx, "high", client.EnrichmentSpec{Model: "m", Dimensions: 2}, 0)
			return err
		}, "PUT /v1/namespaces/high/enrichment", `{"model":"m","dimensions":2}`},
		{"put everything", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutEnrichment(ctx, "high", client.EnrichmentSpec{
				Model: "m", Dimensions: 2, Pattern: "/a/**", TopK: &topK, ReviewAbove: &above, Lease: sluice.Duration(time.Minute), MaxAttempts: 3,
			}, 7)
			return err
		}, "PUT /v1/namespaces/high/enrichment", `{"model":"m","dimensions":2,"pattern":"/a/**","top_k":0,"review_above":0.5,"lease":"1m0s","max_attempts":3}`},
		{"get", func(ctx context.Context, c *client.Client) error { _, err := c.Enrichment(ctx, "high"); return err }, "GET /v1/namespaces/high/enrichment", ""},
		{"delete", func(ctx context.Context, c *client.Client) error { return c.DeleteEnrichment(ctx, "high") }, "DELETE /v1/namespaces/high/enrichment", ""},
		{"claim", func(ctx context.Context, c *client.Client) error {
			_, err := c.ClaimJobs(ctx, "high", client.ClaimQuery{Worker: "w", Max: 5, Types: []sluice.JobType{sluice.JobCompare}, Wait: time.Second})
			return err
		}, "POST /v1/namespaces/high/jobs/claim", `{"worker":"w","max":5,"types":["compare"],"wait":"1s"}`},
		{"renew", func(ctx context.Context, c *client.Client) error { _, err := c.RenewJob(ctx, claim); return err }, "POST /v1/namespaces/high/jobs/entry.a=2Eb/renew", `{"token":"t"}`},
		{"complete an embedding", func(ctx context.Context, c *client.Client) error {
			return c.CompleteJob(ctx, claim, sluice.JobResult{Embedding: []float32{1, 0.5}})
		}, "POST /v1/namespaces/high/jobs/entry.a=2Eb/complete", `{"embedding":[1,0.5],"token":"t"}`},
		{"complete a comparison", func(ctx context.Context, c *client.Client) error {
			return c.CompleteJob(ctx, claim, sluice.JobResult{Comparison: []byte(`{"friction":0.5}`)})
		}, "POST /v1/namespaces/high/jobs/entry.a=2Eb/complete", `{"comparison":{"friction":0.5},"token":"t"}`},
		{
			"fail", func(ctx context.Context, c *client.Client) error {
				_, err := c.FailJob(ctx, claim, "e", true)
				return err
			},
			"POST /v1/namespaces/high/jobs/entry.a=2Eb/fail", `{"token":"t","error":"e","final":true}`,
		},
		{"retry", func(ctx context.Context, c *client.Client) error {
			_, err := c.RetryJob(ctx, "high", "entry.a")
			return err
		}, "POST /v1/namespaces/high/jobs/entry.a/retry", ""},
		{"job", func(ctx context.Context, c *client.Client) error { _, err := c.Job(ctx, "high", "entry.a"); return err }, "GET /v1/namespaces/high/jobs/entry.a", ""},
		{"jobs", func(ctx context.Context, c *client.Client) error {
			_, err := c.Jobs(ctx, "high", client.JobsQuery{State: sluice.JobFailed, Type: sluice.JobEmbed, Limit: 5, Cursor: "x"})
			return err
		}, "GET /v1/namespaces/high/jobs?cursor=x&limit=5&state=failed&type=embed", ""},
		{"search", func(ctx context.Context, c *client.Client) error {
			_, err := c.Search(ctx, "high", client.SearchQuery{Entry: "e", Mirror: "m", TopK: 3, Source: client.ItemsLocal})
			return err
		}, "POST /v1/namespaces/high/search", `{"entry":"e","subscription_id":"m","top_k":3,"source":"local"}`},
		{"comparisons", func(ctx context.Context, c *client.Client) error {
			_, err := c.Comparisons(ctx, "high", "a/b")
			return err
		}, "GET /v1/namespaces/high/comparisons/a%2Fb", ""},
		{"reviews", func(ctx context.Context, c *client.Client) error {
			_, err := c.Reviews(ctx, "high", client.ReviewsQuery{NeedsReview: true, Limit: 5, Cursor: "x"})
			return err
		}, "GET /v1/namespaces/high/comparisons?cursor=x&limit=5&needs_review=true", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{200, `{}`})
			require.NoError(t, tt.call(t.Context(), s.Client))
			got := s.requests()[0]
			require.Equal(t, tt.want, got.line)
			require.Equal(t, tt.body, got.body)
			if tt.name == "put everything" {
				require.Equal(t, `"7"`, got.header.Get("If-Match"))
			}
		})
	}
}

func TestKnowledge_ReadsAsWritten(t *testing.T) {
	t.Parallel()
	item := sluice.MirroredItem{Source: "mirrored", Subscription: "m", Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: 3, ID: "a", Path: "/p", Type: "t", Source: "/s"}}}
	text, err := item.MarshalJSON()
	require.NoError(t, err)
	s := serve(t, answer{200, `{"jobs":[{"id":"mirrored.m.a","namespace":"high","type":"embed_mirrored","priority":25,"state":"claimed","generation":2,"token":"t","lease_ttl_ms":30000,"item":` + string(text) + `}]}`},
		answer{200, `{"model":"m","neighbours":[{"similarity":0.5,"item":` + string(text) + `}],"not_held":2,"problem":"no room"}`},
		answer{200, `{"entry":"e","max_friction":0.27,"needs_review":true,"comparisons":[{"against":{"source":"mirrored","subscription_id":"m","id":"a"},"comparison":{"friction":0.9},"effective_friction":0.27,"discount_factor":0.3}]}`})
	jobs, err := s.ClaimJobs(t.Context(), "high", client.ClaimQuery{Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, client.JobClaim{Namespace: "high", Job: "mirrored.m.a", Token: "t"}, client.ClaimOf(&jobs[0]))
	require.Equal(t, []any{25, uint64(2), item}, []any{jobs[0].Priority, jobs[0].Generation, *jobs[0].Item})
	found, err := s.Search(t.Context(), "high", client.SearchQuery{Vector: []float32{1}})
	require.NoError(t, err)
	require.Equal(t, client.SearchResult{Model: "m", Neighbours: []sluice.Neighbour{{Similarity: 0.5, Item: item}}, NotHeld: 2, Problem: "no room"}, found)
	is, err := s.Comparisons(t.Context(), "high", "e")
	require.NoError(t, err)
	require.InDelta(t, 0.27, *is.MaxFriction, 0)
	require.JSONEq(t, `{"friction":0.9}`, string(is.All[0].Comparison))
}
