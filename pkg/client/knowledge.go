package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// EnrichmentSpec configures the enrichment of a namespace; zero values mean the server's defaults.
type EnrichmentSpec struct {
	Model       string          `json:"model"`                  // the embedding model
	Dimensions  int             `json:"dimensions"`             // elements of an embedding
	Pattern     sluice.Pattern  `json:"pattern,omitempty"`      // paths of the own events that are entries; default all
	TopK        *int            `json:"top_k,omitempty"`        // neighbours that an own entry is compared with; default 5
	ReviewAbove *float64        `json:"review_above,omitempty"` // effective friction above which an entry needs a review; default 0.2
	Lease       sluice.Duration `json:"lease,omitzero"`         // of a claimed job; default 30s
	MaxAttempts int             `json:"max_attempts,omitempty"` // of a job; default 5
}

// PutEnrichment configures the enrichment of a namespace. Another model embeds all entries again. A
// revision above 0 must be the current one, otherwise the code is RevisionMismatch.
func (c *Client) PutEnrichment(ctx context.Context, namespace string, spec EnrichmentSpec, revision uint64) (sluice.Enrichment, error) {
	req := call{method: http.MethodPut, path: join(namespaces, namespace, "enrichment"), header: ifMatch(revision)}
	return send[sluice.Enrichment](ctx, c, req, spec)
}

// EnrichmentState is an enrichment with the entries that the answering replica has in memory.
type EnrichmentState struct {
	sluice.Enrichment

	Status *sluice.EnrichmentStatus `json:"status"` // nil: they are being read
}

// Enrichment returns the enrichment of a namespace. Code NotFound if it has none.
func (c *Client) Enrichment(ctx context.Context, namespace string) (EnrichmentState, error) {
	return send[EnrichmentState](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "enrichment")}, nil)
}

// DeleteEnrichment ends the enrichment of a namespace, and removes its embeddings and comparisons.
func (c *Client) DeleteEnrichment(ctx context.Context, namespace string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "enrichment")}, nil)
	return err
}

// ClaimQuery asks for jobs.
type ClaimQuery struct {
	Worker string           // name of the worker
	Max    int              // number of jobs; default 1
	Types  []sluice.JobType // default all
	Wait   time.Duration    // for the first job, up to 30s
}

// ClaimJobs claims enrichment jobs, those of the highest priority first; none if there is none. The
// call is not retried: what a lost response gave away comes back when its lease ends.
func (c *Client) ClaimJobs(ctx context.Context, namespace string, q ClaimQuery) ([]sluice.ClaimedJob, error) {
	got, err := send[struct{ Jobs []sluice.ClaimedJob }](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "jobs", "claim"), once: true}, struct {
		Worker string           `json:"worker"`
		Max    int              `json:"max,omitempty"`
		Types  []sluice.JobType `json:"types,omitempty"`
		Wait   sluice.Duration  `json:"wait,omitzero"`
	}{q.Worker, q.Max, q.Types, sluice.Duration(q.Wait)})
	return got.Jobs, err
}

// JobClaim is a claim of a job, as ClaimJobs returned it.
type JobClaim struct{ Namespace, Job, Token string }

// ClaimOf returns the claim of a job.
func ClaimOf(j *sluice.ClaimedJob) JobClaim { return JobClaim{j.Namespace, j.ID, j.Token} }

func (j JobClaim) call(act string) call {
	return call{method: http.MethodPost, path: join(namespaces, j.Namespace, "jobs", j.Job, act)}
}

// RenewJob extends the lease of a claimed job. Codes TokenInvalid; TokenExpired; Fenced if the claim has
// ended.
func (c *Client) RenewJob(ctx context.Context, j JobClaim) (sluice.Job, error) {
	return send[sluice.Job](ctx, c, j.call("renew"), map[string]string{"token": j.Token})
}

// CompleteJob stores the result of a claimed job. Codes as of RenewJob; InvalidRequest.
func (c *Client) CompleteJob(ctx context.Context, j JobClaim, result sluice.JobResult) error {
	_, err := send[struct{}](ctx, c, j.call("complete"), struct {
		sluice.JobResult

		Token string `json:"token"`
	}{result, j.Token})
	return err
}

// FailJob reports that a claimed job could not be done, and whether no other attempt can succeed. Codes
// as of RenewJob.
func (c *Client) FailJob(ctx context.Context, j JobClaim, reason string, final bool) (sluice.Job, error) {
	return send[sluice.Job](ctx, c, j.call("fail"), struct {
		Token string `json:"token"`
		Error string `json:"error"`
		Final bool   `json:"final,omitempty"`
	}{j.Token, reason, final})
}

// RetryJob has a failed job tried again. Codes NotFound; Conflict if it has not failed, or cannot succeed.
func (c *Client) RetryJob(ctx context.Context, namespace, job string) (sluice.Job, error) {
	return send[sluice.Job](ctx, c, JobClaim{Namespace: namespace, Job: job}.call("retry"), nil)
}

// Job returns an enrichment job. Code NotFound if it was done.
func (c *Client) Job(ctx context.Context, namespace, job string) (sluice.Job, error) {
	return send[sluice.Job](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "jobs", job)}, nil)
}

// JobsQuery filters jobs; all fields are optional.
type JobsQuery struct {
	State  sluice.JobState
	Type   sluice.JobType
	Limit  int
	Cursor string // Page.Next of the previous page
}

// Jobs returns a page of the jobs of a namespace that have not succeeded, by priority and id.
func (c *Client) Jobs(ctx context.Context, namespace string, q JobsQuery) (Page[sluice.Job], error) {
	return list[sluice.Job](ctx, c, join(namespaces, namespace, "jobs"), "jobs",
		params("state", string(q.State), "type", string(q.Type), "limit", number(q.Limit), "cursor", q.Cursor))
}

// SearchQuery asks for the neighbours of a vector, or of an entry.
type SearchQuery struct {
	Vector []float32 `json:"vector,omitempty"`
	Entry  string    `json:"entry,omitempty"`
	Mirror string    `json:"subscription_id,omitempty"` // of the entry; "": it is an own one
	TopK   int       `json:"top_k,omitempty"`           // default: that of the enrichment
	Source string    `json:"source,omitempty"`          // ItemsLocal, ItemsMirrored or ItemsAll, the default
}

// SearchResult are neighbours, the most similar first.
type SearchResult struct {
	Model      string             `json:"model"`
	Neighbours []sluice.Neighbour `json:"neighbours"`
	NotHeld    int                `json:"not_held"`          // entries without room in memory, which are not found
	Problem    string             `json:"problem,omitempty"` // why the result may be incomplete; "": it is complete
}

// Search returns the entries with the most similar embeddings.
func (c *Client) Search(ctx context.Context, namespace string, q SearchQuery) (SearchResult, error) {
	return send[SearchResult](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "search")}, q)
}

// EntryComparisons is an own entry with its comparisons.
type EntryComparisons struct {
	sluice.Review

	All []sluice.Comparison `json:"comparisons"`
}

// Comparisons returns the comparisons of an own entry, the greatest effective friction first. Code
// NotFound.
func (c *Client) Comparisons(ctx context.Context, namespace, entry string) (EntryComparisons, error) {
	return send[EntryComparisons](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "comparisons", entry)}, nil)
}

// ReviewsQuery filters entries that were compared; all fields are optional.
type ReviewsQuery struct {
	NeedsReview bool
	Limit       int
	Cursor      string // Page.Next of the previous page
}

// Reviews returns a page of the own entries that were compared, by id.
func (c *Client) Reviews(ctx context.Context, namespace string, q ReviewsQuery) (Page[sluice.Review], error) {
	needs := ""
	if q.NeedsReview {
		needs = "true"
	}
	return list[sluice.Review](ctx, c, join(namespaces, namespace, "comparisons"), "entries",
		params("needs_review", needs, "limit", number(q.Limit), "cursor", q.Cursor))
}
