package sluice

import (
	"cmp"
	"encoding/json"
	"math"
	"time"
)

// Enrichment configures the enrichment of a namespace: workers embed its own and its mirrored
// entries, and compare neighbours (S3, sections 4 and 5).
type Enrichment struct {
	Namespace   string   `json:"namespace"`
	Model       string   `json:"model"`      // the embedding model; if it changes, all entries are embedded again (S3-82)
	Dimensions  int      `json:"dimensions"` // elements of an embedding
	Pattern     Pattern  `json:"pattern"`    // paths of the own events that are entries
	TopK        int      `json:"top_k"`      // neighbours that an own entry is compared with; 0: none
	ReviewAbove float64  `json:"review_above"`
	Lease       Duration `json:"lease"`        // lease of a claimed job
	MaxAttempts int      `json:"max_attempts"` // number of attempts after which a job has failed

	// Set by the server.
	Revision  uint64    `json:"revision"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

// EnrichmentStatus describes the entries of a namespace that a replica has in memory.
type EnrichmentStatus struct {
	Entries     int    `json:"entries"`                 // in memory
	Embedded    int    `json:"embedded"`                // entries in memory with an embedding of the current model and content
	NotHeld     int    `json:"not_held"`                // entries for which there is no memory
	NotHeldMore bool   `json:"not_held_more,omitempty"` // there may be more of them
	MemoryBytes int64  `json:"memory_bytes"`
	Problem     string `json:"problem,omitempty"` // why results are incomplete, and the remedy
}

// Defaults and limits of an enrichment.
const (
	DefaultTopK        = 5
	DefaultReviewAbove = 0.2
	MaxTopK            = 100
	MaxDimensions      = 8192

	defaultJobLease    = Duration(30 * time.Second)
	minJobLease        = Duration(time.Second)
	maxJobLease        = Duration(10 * time.Minute)
	defaultJobAttempts = 5
	maxJobAttempts     = 100
	maxModel           = 256 // bytes
)

// SetDefaults sets the defaults of zero fields, except of those for which zero has a meaning.
func (e *Enrichment) SetDefaults() {
	e.Pattern = cmp.Or(e.Pattern, "/**")
	e.Lease = cmp.Or(e.Lease, defaultJobLease)
	e.MaxAttempts = cmp.Or(e.MaxAttempts, defaultJobAttempts)
}

// Validate checks the configuration, with its defaults set. Code InvalidRequest.
func (e *Enrichment) Validate() error {
	if _, err := ParsePattern(string(e.Pattern)); err != nil {
		return err
	}
	switch {
	case e.Model == "" || len(e.Model) > maxModel:
		return Errorf(InvalidRequest, "model: name the embedding model in 1 to %d bytes", maxModel).With("field", "model")
	case e.Dimensions < 1 || e.Dimensions > MaxDimensions:
		return Errorf(InvalidRequest, "dimensions %d: use 1 to %d", e.Dimensions, MaxDimensions).With("field", "dimensions")
	case e.TopK < 0 || e.TopK > MaxTopK:
		return Errorf(InvalidRequest, "top_k %d: use 0 to %d", e.TopK, MaxTopK).With("field", "top_k")
	case !(e.ReviewAbove >= 0 && e.ReviewAbove <= 1): // also refuses NaN
		return Errorf(InvalidRequest, "review_above %v: use 0 to 1", e.ReviewAbove).With("field", "review_above")
	case e.Lease < minJobLease || e.Lease > maxJobLease:
		return Errorf(InvalidRequest, "lease %s: use %s to %s", e.Lease, minJobLease, maxJobLease).With("field", "lease")
	case e.MaxAttempts < 1 || e.MaxAttempts > maxJobAttempts:
		return Errorf(InvalidRequest, "max_attempts %d: use 1 to %d", e.MaxAttempts, maxJobAttempts).With("field", "max_attempts")
	}
	return nil
}

// JobType is the kind of an enrichment job.
type JobType string

// The kinds of jobs.
const (
	JobEmbed         JobType = "embed"          // S3: EMBED_CLAIMS
	JobEmbedMirrored JobType = "embed_mirrored" // S3: EMBED_MIRRORED
	JobCompare       JobType = "compare"        // S3: COMPARE_CLAIMS
)

// Priority returns the priority of a kind: a job with a greater one is given to workers first (S3-84).
func (t JobType) Priority() int {
	switch t {
	case JobEmbed:
		return 30
	case JobEmbedMirrored:
		return 25
	case JobCompare:
		return 20
	}
	return 0
}

// ParseJobType returns the kind with a name. Code InvalidRequest if there is none.
func ParseJobType(name string) (JobType, error) {
	if t := JobType(name); t.Priority() > 0 {
		return t, nil
	}
	return "", Errorf(InvalidRequest, "type %q: use embed, embed_mirrored or compare", clip(name)).With("field", "type")
}

// JobState is the state of a job.
type JobState string

// The states of jobs. A job that has succeeded no longer exists; only its result does.
const (
	JobPending JobState = "pending" // waits for a worker, or for its next attempt
	JobClaimed JobState = "claimed" // a worker has claimed it
	JobFailed  JobState = "failed"  // is not tried again unless requested
)

// The sources of entries.
const (
	SourceLocal    = "local"    // an event of the namespace
	SourceMirrored = "mirrored" // an entry of one of its mirrors
)

// EntryRef names an entry of a namespace, its own or a mirrored one (S3-80).
type EntryRef struct {
	Source       string `json:"source"`
	Subscription string `json:"subscription_id,omitempty"` // the mirror
	ID           string `json:"id"`
}

// Job is an enrichment job.
type Job struct {
	ID         string     `json:"id"`
	Namespace  string     `json:"namespace"`
	Type       JobType    `json:"type"`
	Priority   int        `json:"priority"`
	State      JobState   `json:"state"`
	Model      string     `json:"model"`
	Entry      EntryRef   `json:"entry"`
	Attempts   int        `json:"attempts"`
	Error      string     `json:"error,omitempty"` // error of the last attempt
	NotBefore  *time.Time `json:"not_before,omitempty"`
	Worker     string     `json:"worker,omitempty"`
	Generation uint64     `json:"generation,omitempty"` // number of claims
	LeaseUntil *time.Time `json:"lease_until,omitempty"`

	// Against is only for a comparison, as are the next two fields.
	Against        *EntryRef `json:"against,omitempty"`
	CrossBoundary  bool      `json:"cross_boundary,omitempty"`  // against a mirrored entry
	DiscountFactor float64   `json:"discount_factor,omitempty"` // S3-87, S3-89
}

// ClaimedJob is a job that a worker has claimed, with the data that the worker needs.
type ClaimedJob struct {
	Job

	Token    string        `json:"token"`        // proves the claim; the next claim makes it invalid
	LeaseTTL int64         `json:"lease_ttl_ms"` // time left to renew the claim
	Item     *MirroredItem `json:"item"`
	With     *MirroredItem `json:"against_item,omitempty"` // only for a comparison
}

// JobResult is the result of a job: an embedding, or a comparison.
type JobResult struct {
	Embedding  []float32       `json:"embedding,omitempty"`
	Comparison json.RawMessage `json:"comparison,omitempty"` // an object with "friction", 0 to 1
}

// Neighbour is a result of a search: an entry with its similarity (S3-80, S3-115).
type Neighbour struct {
	Similarity float64      `json:"similarity"` // cosine, -1 to 1
	Item       MirroredItem `json:"item"`
}

// Comparison is a stored comparison of an entry (S3-92).
type Comparison struct {
	Against           EntryRef        `json:"against"`
	Comparison        json.RawMessage `json:"comparison"` // as the worker sent it
	EffectiveFriction float64         `json:"effective_friction"`
	DiscountFactor    float64         `json:"discount_factor"`
	Similarity        float64         `json:"similarity"`
	Superseded        bool            `json:"superseded,omitempty"` // compares an earlier content of the entry
	ComparedAt        time.Time       `json:"compared_at"`
}

// Effective returns the effective friction: the friction against a mirrored entry is discounted
// (S3-91).
func Effective(friction, discount float64) float64 { return friction * discount }

// Review summarizes the comparisons of the current content of an entry.
type Review struct {
	Entry               string    `json:"entry"`
	Path                Path      `json:"path"`
	Label               *Label    `json:"label,omitempty"` // label of the namespace: a contradiction is equally secret (S3-139)
	ExpectedComparisons int       `json:"expected_comparisons"`
	Comparisons         int       `json:"completed_comparisons"`
	MaxFriction         *float64  `json:"max_friction"` // nil: nothing was compared
	NeedsReview         bool      `json:"needs_review"` // S3-93
	At                  time.Time `json:"updated_at,omitzero"`
}

// CheckFriction returns the friction of a comparison. Code InvalidRequest unless the comparison is
// an object with a friction of 0 to 1.
func CheckFriction(comparison []byte) (float64, error) {
	var is struct {
		Friction *float64 `json:"friction"`
	}
	if err := json.Unmarshal(comparison, &is); err != nil || is.Friction == nil || !(*is.Friction >= 0 && *is.Friction <= 1) || math.IsNaN(*is.Friction) {
		return 0, Errorf(InvalidRequest, "comparison: send an object with \"friction\", a number from 0 to 1").With("field", "comparison")
	}
	return *is.Friction, nil
}
