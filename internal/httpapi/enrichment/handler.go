package enrichment

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Knowledge enriches the entries of namespaces.
type Knowledge interface {
	// Get returns the configuration of a namespace. Code NotFound.
	Get(ctx context.Context, namespace string) (sluice.Enrichment, error)
	// Status returns how far this replica has read and enriched the entries of a namespace. Codes
	// NotFound; Unavailable.
	Status(ctx context.Context, namespace string) (sluice.EnrichmentStatus, error)
	// Put configures a namespace. Codes InvalidRequest; RevisionMismatch; QuotaExceeded.
	Put(ctx context.Context, c sluice.Enrichment, by string) (sluice.Enrichment, error)
	// Delete ends the enrichment of a namespace. Code NotFound.
	Delete(ctx context.Context, namespace, by string) error
	// Claim gives jobs to a worker. Codes InvalidRequest; NotFound; Unavailable.
	Claim(ctx context.Context, namespace string, q knowledge.ClaimRequest, by sluice.Caller) ([]sluice.ClaimedJob, error)
	// Renew, Complete and Fail handle the report of a worker. Codes TokenInvalid; TokenExpired;
	// Fenced; InvalidRequest; NotFound; Unavailable.
	Renew(ctx context.Context, c knowledge.Claim) (sluice.Job, error)
	Complete(ctx context.Context, c knowledge.Claim, result sluice.JobResult) error
	Fail(ctx context.Context, c knowledge.Claim, f knowledge.Failure) (sluice.Job, error)
	// Job returns a job about entries that the caller may see. Code NotFound.
	Job(ctx context.Context, namespace, id string, by sluice.Caller) (sluice.Job, error)
	// Jobs returns jobs about entries that the caller may see.
	Jobs(ctx context.Context, namespace string, q knowledge.JobsRequest, by sluice.Caller) ([]sluice.Job, error)
	// Retry makes a failed job available to workers again. Codes NotFound; Conflict.
	Retry(ctx context.Context, namespace, id string) (sluice.Job, error)
	// Search returns the nearest entries. Codes InvalidRequest; NotFound; Unavailable.
	Search(ctx context.Context, namespace string, q knowledge.SearchRequest, by sluice.Caller) (knowledge.Found, error)
	// Comparisons returns the comparisons of an entry of the namespace itself. Code NotFound.
	Comparisons(ctx context.Context, namespace, entry string, by sluice.Caller) (sluice.Review, []sluice.Comparison, error)
	// Reviews returns the entries of the namespace itself that were compared; if needed is true,
	// only those that need a review.
	Reviews(ctx context.Context, namespace string, needed bool, by sluice.Caller) ([]sluice.Review, error)
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Knowledge Knowledge // nil: 503
	Rights    httpkit.Rights
	Namespace func(ctx context.Context, name string) (sluice.Namespace, error)
	// UntilEnd returns a context that ends with ctx, with the server or with the caller's grant.
	UntilEnd func(ctx context.Context) (context.Context, context.CancelFunc)
	Stopping func() bool // the server is shutting down
}

// Handler handles the requests for enrichment.
type Handler struct{ needs Deps }

// New returns a handler.
func New(needs Deps) *Handler { return &Handler{needs} }

// Routes returns the routes of enrichment.
func (s *Handler) Routes() []httpkit.Route {
	const ns = "/v1/namespaces/:ns"
	return httpkit.IfSupported(s.needs.Knowledge != nil, "this server has no enrichment", []httpkit.Route{
		httpkit.On(http.MethodGet, ns+"/enrichment", s.needs.Rights.SeesNamespace, s.getEnrichment),
		httpkit.On(http.MethodPut, ns+"/enrichment", s.needs.Rights.NamespaceAdmin, s.putEnrichment),
		httpkit.On(http.MethodDelete, ns+"/enrichment", s.needs.Rights.NamespaceAdmin, s.deleteEnrichment),
		httpkit.On(http.MethodPost, ns+"/jobs/claim", s.worker, s.claimJobs),
		httpkit.OnPages(ns+"/jobs", s.wholeReader, s.listJobs, "state", "type"),
		httpkit.On(http.MethodGet, ns+"/jobs/:job", s.wholeReader, s.getJob),
		httpkit.On(http.MethodPost, ns+"/jobs/:job/renew", s.worker, s.renewJob),
		httpkit.On(http.MethodPost, ns+"/jobs/:job/complete", s.worker, s.completeJob),
		httpkit.On(http.MethodPost, ns+"/jobs/:job/fail", s.worker, s.failJob),
		httpkit.On(http.MethodPost, ns+"/jobs/:job/retry", s.needs.Rights.NamespaceAdmin, s.retryJob),
		httpkit.On(http.MethodPost, ns+"/search", s.wholeReader, s.search),
		httpkit.OnPages(ns+"/comparisons", s.wholeReader, s.listReviews, "needs_review"),
		httpkit.On(http.MethodGet, ns+"/comparisons/:entry", s.wholeReader, s.getComparisons),
	})
}

// worker requires that the caller may read the whole namespace, with its label, and subscribe to
// it, as workers of stream subscriptions must (S3-95).
func (s *Handler) worker(c echo.Context) error {
	t := authz.Target{Namespace: c.Param("ns")}
	if err := s.needs.Rights.Require(c, sluice.VerbRead, t); err != nil {
		return err
	}
	return s.needs.Rights.Require(c, sluice.VerbSubscribe, t)
}

// wholeReader requires that the caller may read the whole namespace, with its label.
func (s *Handler) wholeReader(c echo.Context) error {
	return s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: c.Param("ns")})
}
