package enrichment

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Request is the body of a PUT of an enrichment. Absent fields have defaults: all paths,
// sluice.DefaultTopK, sluice.DefaultReviewAbove.
type Request struct {
	Model       string          `json:"model"`
	Dimensions  int             `json:"dimensions"`
	Pattern     sluice.Pattern  `json:"pattern"`
	TopK        *int            `json:"top_k"`
	ReviewAbove *float64        `json:"review_above"`
	Lease       sluice.Duration `json:"lease"`
	MaxAttempts int             `json:"max_attempts"`
}

// putEnrichment answers PUT of an enrichment, always with 200. All settings are replaced. With
// another model, all entries are embedded again. If-Match fences it: RevisionMismatch. Codes
// NotFound for the namespace; QuotaExceeded.
func (s *Handler) putEnrichment(c echo.Context) error {
	var req Request
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	topK, above := sluice.DefaultTopK, sluice.DefaultReviewAbove
	is := sluice.Enrichment{
		Namespace: c.Param("ns"), Model: req.Model, Dimensions: req.Dimensions, Pattern: req.Pattern, TopK: *cmp.Or(req.TopK, &topK),
		ReviewAbove: *cmp.Or(req.ReviewAbove, &above), Lease: req.Lease, MaxAttempts: req.MaxAttempts, Revision: revision,
	}
	is.SetDefaults()
	if _, err := s.needs.Namespace(c.Request().Context(), is.Namespace); err != nil {
		return err
	}
	stored, err := s.needs.Knowledge.Put(c.Request().Context(), is, httpkit.By(c))
	return showEnrichment(c, stored, err)
}

func showEnrichment(c echo.Context, is sluice.Enrichment, err error) error {
	if err != nil {
		return err
	}
	httpkit.SetETag(c, is.Revision)
	return c.JSON(http.StatusOK, is)
}

// enrichment is a configuration with the status on this replica. A nil Status means that the
// replica is still reading the entries.
type enrichment struct {
	sluice.Enrichment

	Status *sluice.EnrichmentStatus `json:"status"`
}

// getEnrichment answers GET of an enrichment with its revision as the ETag. Code NotFound.
func (s *Handler) getEnrichment(c echo.Context) error {
	is, err := s.needs.Knowledge.Get(c.Request().Context(), c.Param("ns"))
	if err != nil {
		return err
	}
	full := enrichment{Enrichment: is}
	status, err := s.needs.Knowledge.Status(c.Request().Context(), c.Param("ns"))
	switch {
	case err == nil:
		full.Status = &status
	case sluice.CodeOf(err) != sluice.Unavailable:
		return err
	}
	httpkit.SetETag(c, is.Revision)
	return c.JSON(http.StatusOK, full)
}

// deleteEnrichment answers DELETE of an enrichment with 204. Its embeddings and comparisons go with
// it. Code NotFound, also for a repetition.
func (s *Handler) deleteEnrichment(c echo.Context) error {
	if err := s.needs.Knowledge.Delete(c.Request().Context(), c.Param("ns"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// claimRequest is the body of a claim. The engine refuses a max or a wait out of bounds.
type claimRequest struct {
	Worker string           `json:"worker"`
	Max    int              `json:"max"`
	Types  []sluice.JobType `json:"types"`
	Wait   sluice.Duration  `json:"wait"`
}

type claimedJobs struct {
	Jobs []sluice.ClaimedJob `json:"jobs"`
}

// claimJobs answers a claim with jobs, the highest priority first, each with its token; an empty
// list if there is none within wait. The wait ends with the caller's grant. If the response is
// lost, its jobs can be claimed again when their leases end. Codes NotFound; Unavailable.
func (s *Handler) claimJobs(c echo.Context) error {
	var req claimRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	for _, t := range req.Types {
		if _, err := sluice.ParseJobType(string(t)); err != nil {
			return err
		}
	}
	ctx, cancel := s.needs.UntilEnd(c.Request().Context())
	defer cancel()
	jobs, err := s.needs.Knowledge.Claim(ctx, c.Param("ns"), knowledge.ClaimRequest{
		Worker: req.Worker, Max: req.Max, Types: req.Types, Wait: time.Duration(req.Wait),
	}, httpkit.Caller(c))
	err = cmp.Or(authz.Lost(ctx), err)
	if err != nil && s.needs.Stopping() {
		return sluice.Errorf(sluice.Unavailable, "the server is stopping; retry")
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, claimedJobs{jobs})
}

// numbers is an embedding in a request. An array that is too long is refused before its elements
// are decoded.
type numbers []float32

// UnmarshalJSON reads the array. Code InvalidRequest for one that is too long; other errors are
// those of jsonarray.Decode.
func (n *numbers) UnmarshalJSON(data []byte) (err error) {
	*n, err = jsonarray.Decode[float32](data, sluice.MaxDimensions)
	if errors.Is(err, jsonarray.ErrTooMany) {
		return sluice.Errorf(sluice.InvalidRequest, "an embedding has at most %d elements", sluice.MaxDimensions)
	}
	return err
}

// bindReport parses a worker's report, and returns the id of its job.
func bindReport(c echo.Context, target any) (id string, err error) {
	if id, err = httpkit.Param(c, "job"); err != nil {
		return id, err
	}
	return id, httpkit.Bind(c, target)
}

func showJob(c echo.Context, j sluice.Job, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, j)
}

// renewJob extends the lease of a claim. The token in the body proves the claim, here and in
// completeJob and failJob. Codes TokenInvalid; TokenExpired; Fenced if the claim has ended.
func (s *Handler) renewJob(c echo.Context) error {
	var req struct {
		Token string `json:"token"`
	}
	id, err := bindReport(c, &req)
	if err != nil {
		return err
	}
	j, err := s.needs.Knowledge.Renew(c.Request().Context(), knowledge.Claim{Namespace: c.Param("ns"), Job: id, Token: req.Token})
	return showJob(c, j, err)
}

// completeJob stores a result, with 204. Codes as of renewJob; InvalidRequest for a result that
// does not fit the job.
func (s *Handler) completeJob(c echo.Context) error {
	var req struct {
		Token      string          `json:"token"`
		Embedding  numbers         `json:"embedding"`
		Comparison json.RawMessage `json:"comparison"`
	}
	id, err := bindReport(c, &req)
	if err != nil {
		return err
	}
	result := sluice.JobResult{Embedding: req.Embedding, Comparison: req.Comparison}
	if err := s.needs.Knowledge.Complete(c.Request().Context(), knowledge.Claim{Namespace: c.Param("ns"), Job: id, Token: req.Token}, result); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// failJob ends a claim without a result. The job can be claimed again later, unless the failure is
// final or was the last attempt. Codes as of renewJob.
func (s *Handler) failJob(c echo.Context) error {
	var req struct {
		Token string `json:"token"`
		Error string `json:"error"`
		Final bool   `json:"final"`
	}
	id, err := bindReport(c, &req)
	if err != nil {
		return err
	}
	j, err := s.needs.Knowledge.Fail(c.Request().Context(), knowledge.Claim{Namespace: c.Param("ns"), Job: id, Token: req.Token}, knowledge.Failure{Error: req.Error, Final: req.Final})
	return showJob(c, j, err)
}

// retryJob makes a failed job available again. Codes NotFound; Conflict if it has not failed, or if
// one of its entries is gone.
func (s *Handler) retryJob(c echo.Context) error {
	id, err := httpkit.Param(c, "job")
	if err != nil {
		return err
	}
	j, err := s.needs.Knowledge.Retry(c.Request().Context(), c.Param("ns"), id)
	return showJob(c, j, err)
}

// getJob returns a job about entries that the caller may see. Code NotFound, also for a job that
// was done.
func (s *Handler) getJob(c echo.Context) error {
	id, err := httpkit.Param(c, "job")
	if err != nil {
		return err
	}
	j, err := s.needs.Knowledge.Job(c.Request().Context(), c.Param("ns"), id, httpkit.Caller(c))
	return showJob(c, j, err)
}

// jobList is one page of jobs.
type jobList struct {
	Jobs       []sluice.Job `json:"jobs"`
	NextCursor string       `json:"next_cursor"`
}

// listJobs returns a page of the jobs that have not succeeded, by priority and ID; the cursor is
// the ID of the last one.
func (s *Handler) listJobs(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err == nil {
		err = httpkit.OneOf(c, "state", string(sluice.JobPending), string(sluice.JobClaimed), string(sluice.JobFailed))
	}
	if err == nil {
		err = httpkit.OneOf(c, "type", string(sluice.JobEmbed), string(sluice.JobEmbedMirrored), string(sluice.JobCompare))
	}
	if err != nil {
		return err
	}
	q := knowledge.JobsRequest{State: sluice.JobState(c.QueryParam("state")), Type: sluice.JobType(c.QueryParam("type"))}
	all, err := s.needs.Knowledge.Jobs(c.Request().Context(), c.Param("ns"), q, httpkit.Caller(c))
	if err != nil {
		return err
	}
	page, next, err := httpkit.Paginate(p, all, func(j *sluice.Job) string { return j.ID })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, jobList{page, next})
}

// searchRequest is the body of a search.
type searchRequest struct {
	Vector       numbers `json:"vector"`
	Entry        string  `json:"entry"`
	Subscription string  `json:"subscription_id"` // the mirror of the entry
	TopK         int     `json:"top_k"`
	Source       string  `json:"source"`
}

// searchResult is the result of a search. The most similar neighbour is first. NotHeld is the
// number of entries that did not fit into memory and were not searched.
type searchResult struct {
	Model      string             `json:"model"`
	Neighbours []sluice.Neighbour `json:"neighbours"`
	NotHeld    int                `json:"not_held"`
	Problem    string             `json:"problem,omitempty"`
}

// sourceAll selects entries of all sources.
const sourceAll = "all"

// search returns the neighbours of a vector or of an entry (S3-75, S3-115). It is a separate route:
// the lists of entries do not change (S3-79).
func (s *Handler) search(c echo.Context) error {
	var req searchRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	switch {
	case (req.Vector == nil) == (req.Entry == ""):
		return sluice.Errorf(sluice.InvalidRequest, "send either a vector or an entry").With("field", "vector")
	case req.Subscription != "" && req.Entry == "":
		return sluice.Errorf(sluice.InvalidRequest, "subscription_id: it names the mirror of an entry").With("field", "subscription_id")
	case req.TopK < 0 || req.TopK > knowledge.MaxResults:
		return sluice.Errorf(sluice.InvalidRequest, "top_k %d: use 1 to %d", req.TopK, knowledge.MaxResults).With("field", "top_k")
	case req.Source != "" && req.Source != sourceAll && req.Source != sluice.SourceLocal && req.Source != sluice.SourceMirrored:
		return sluice.Errorf(sluice.InvalidRequest, "source %q: use local, mirrored or all", req.Source).With("field", "source")
	}
	q := knowledge.SearchRequest{Vector: req.Vector, Top: req.TopK, Source: req.Source}
	if q.Source == sourceAll {
		q.Source = ""
	}
	if req.Entry != "" {
		q.Entry = &sluice.EntryRef{Source: sluice.SourceLocal, ID: req.Entry}
		if req.Subscription != "" {
			q.Entry.Source, q.Entry.Subscription = sluice.SourceMirrored, req.Subscription
		}
	}
	found, err := s.needs.Knowledge.Search(c.Request().Context(), c.Param("ns"), q, httpkit.Caller(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, searchResult{found.Model, found.Neighbours, found.Status.NotHeld, found.Status.Problem})
}

// entryComparisons is an entry of the namespace itself with its comparisons.
type entryComparisons struct {
	sluice.Review

	All []sluice.Comparison `json:"comparisons"`
}

// getComparisons returns the comparisons of an own entry, the greatest effective friction first.
// Code NotFound, also for a hidden entry.
func (s *Handler) getComparisons(c echo.Context) error {
	entry, err := httpkit.Param(c, "entry")
	if err != nil {
		return err
	}
	review, all, err := s.needs.Knowledge.Comparisons(c.Request().Context(), c.Param("ns"), entry, httpkit.Caller(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, entryComparisons{review, all})
}

// reviewList is one page of entries that were compared.
type reviewList struct {
	Entries    []sluice.Review `json:"entries"`
	NextCursor string          `json:"next_cursor"`
}

// listReviews returns a page of the entries that were compared, by ID.
func (s *Handler) listReviews(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err == nil {
		err = httpkit.OneOf(c, "needs_review", "true", "false")
	}
	if err != nil {
		return err
	}
	all, err := s.needs.Knowledge.Reviews(c.Request().Context(), c.Param("ns"), c.QueryParam("needs_review") == "true", httpkit.Caller(c))
	if err != nil {
		return err
	}
	page, next, err := httpkit.Paginate(p, all, func(r *sluice.Review) string { return r.Entry })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, reviewList{page, next})
}
