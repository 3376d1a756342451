package knowledge

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Stored is the record of a configuration.
type Stored struct {
	sluice.Enrichment

	Incarnation string `json:"incarnation"` // random; tokens of an earlier incarnation are invalid
}

// Definitions stores the configurations, by namespace. Revision 0 stands for "nothing is stored".
type Definitions interface {
	// Get returns a configuration and its revision. Code NotFound.
	Get(ctx context.Context, namespace string) (Stored, uint64, error)
	// Put stores a configuration and returns its new revision. Code Conflict unless the stored
	// revision is the given one.
	Put(ctx context.Context, namespace string, c Stored, revision uint64) (uint64, error)
	// Delete removes a configuration. Code Conflict unless the stored revision is the given one; 0
	// matches any revision.
	Delete(ctx context.Context, namespace string, revision uint64) error
	// Watch reports every configuration and then all changes, until ctx is done. A nil c means that
	// the configuration was removed.
	Watch(ctx context.Context, change func(namespace string, c *Stored)) error
}

// Records stores embeddings and comparisons with the states of their jobs. An ID is unique in its
// namespace. The IDs of the comparisons of an entry begin with streams.Comparisons.
type Records interface {
	// Get returns a record, read from the leader of the stream. Its revision is 0 if there is none.
	Get(ctx context.Context, namespace, id string) (Record, error)
	// Put stores a record and returns its new revision. Code Conflict unless the stored revision is
	// that of the record. The store removes the record after life, if that is not 0.
	Put(ctx context.Context, namespace string, r Record, life time.Duration) (uint64, error)
	// Follow calls each for every record of a namespace, then once caughtUp, then each for every change,
	// until ctx ends or there is trouble.
	Follow(ctx context.Context, namespace string, each func(Record), caughtUp func()) error
	// Comparisons returns the comparisons of an own entry.
	Comparisons(ctx context.Context, namespace, entry string) ([]Record, error)
	// Purge removes the record with an id, and those with ids that begin with it and a dot.
	Purge(ctx context.Context, namespace, id string) error
	// PurgeAll removes all records of a namespace.
	PurgeAll(ctx context.Context, namespace string) error
}

// Log reads the log of a namespace.
type Log interface {
	// Changes returns a page of changes. Codes NotFound; Unavailable.
	Changes(ctx context.Context, namespace string, q model.ChangeQuery) (sluice.ObservePage, error)
	// FollowChanges calls each when it begins, and then when an event was stored, until ctx ends or
	// an error occurs.
	FollowChanges(ctx context.Context, namespace string, each func()) error
	// EventAt returns the event with a sequence. Codes NotFound; WindowExceeded.
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
}

// MirrorEntry is an entry of a mirror.
type MirrorEntry struct {
	Change     sluice.Change
	Tombstone  bool
	MirroredAt time.Time
	Cursor     uint64
}

// Mirrors reads mirrors and their entries.
type Mirrors interface {
	// Watch reports every mirror of the server and then all changes, until ctx is done. A nil m
	// means that the mirror was removed.
	Watch(ctx context.Context, change func(id string, m *sluice.Mirror)) error
	// Follow calls each for every entry of a mirror, then once caughtUp, then each for every change,
	// until ctx ends or there is trouble.
	Follow(ctx context.Context, mirror string, each func(*MirrorEntry), caughtUp func()) error
	// Entries returns entries of a mirror by their ids.
	Entries(ctx context.Context, mirror string, ids []string) (map[string]MirrorEntry, error)
}

// Access decides which events callers may see.
type Access interface {
	// Shows decides whether a caller may see an event.
	Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) model.Decision
	// Label returns the label of a namespace.
	Label(namespace string) sluice.Label
}

// Ownership decides which namespaces this process does the housekeeping for.
type Ownership interface{ Owns(namespace string) bool }

// Deps are the dependencies. All are required. All are called from several goroutines at once.
type Deps struct {
	Definitions Definitions
	Records     Records
	Log         Log
	Mirrors     Mirrors
	Access      Access
	Keys        callbacktoken.Keys
	Ledger      *ledger.Ledger
	Owns        Ownership
}

// Options are the optional settings.
type Options struct {
	Sweep  time.Duration    // interval of the housekeeping, and of looking for events that retention removed; default: 15 s
	Memory int64            // bytes for the entries of all namespaces; default: unlimited
	Scans  int              // concurrent searches and lists; default: four for each processor
	Now    func() time.Time // default: time.Now
	Jitter func() float64   // in [0, 1); default: rand.Float64
	Log    *slog.Logger     // default: slog.DiscardHandler
}

func (o Options) filled() Options {
	o.Sweep = cmp.Or(o.Sweep, 15*time.Second)
	o.Scans = cmp.Or(o.Scans, 4*runtime.GOMAXPROCS(0))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
