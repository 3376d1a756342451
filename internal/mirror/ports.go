package mirror

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Stored is the record of a mirror.
type Stored struct {
	sluice.Mirror

	// Settled means that the mirror conflicts with no earlier one. Until then the engine does not
	// sync it, and the record does not change.
	Settled bool `json:"settled"`

	Untold []Said `json:"untold,omitempty"` // system events that may not be published yet, oldest first
	Gone   bool   `json:"gone,omitempty"`   // deleted; its entries are being removed
}

// Said is a pending system event.
type Said struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	By   string    `json:"by"`
}

// Definitions stores the records of mirrors by their id. Revision 0 stands for "nothing is stored".
type Definitions interface {
	// Get returns a record and its revision. Code NotFound.
	Get(ctx context.Context, id string) (Stored, uint64, error)
	// Put stores a record and returns its new revision. Code Conflict unless the stored revision is
	// the given one.
	Put(ctx context.Context, id string, m Stored, revision uint64) (uint64, error)
	// Delete removes a record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, id string, revision uint64) error
	// All returns all records with their revisions.
	All(ctx context.Context) ([]Stored, error)
	// Watch reports every record and then all changes, until ctx is done. A nil m means that the
	// record was removed.
	Watch(ctx context.Context, change func(id string, m *Stored)) error
}

// Credentials stores the tokens for sources apart from the mirrors, sealed (S3-52, S3-143).
type Credentials interface {
	// Get returns the token of a mirror; "" if there is none.
	Get(ctx context.Context, id string) (string, error)
	Put(ctx context.Context, id, token string) error
	Delete(ctx context.Context, id string) error
}

// Trusts stores the keys that sign bundles for namespaces.
type Trusts interface {
	// Get returns the keys that a namespace trusts, and their revision; 0 if there are none.
	Get(ctx context.Context, namespace string) (bundle.Trust, uint64, error)
	// Put stores the keys. Code Conflict unless the stored revision is the given one.
	Put(ctx context.Context, namespace string, t bundle.Trust, revision uint64) error
	Delete(ctx context.Context, namespace string) error
}

// Identity provides the names and keys of this server in bundles.
type Identity interface {
	// Notebook returns the name of a namespace in bundles: its URL.
	Notebook(namespace string) string
	// BundleKeys returns the keys for bundles and receipts, newest first; the newest signs. There
	// is at least one.
	BundleKeys(ctx context.Context) ([]ed25519.PrivateKey, error)
}

// Copies stores the entries of mirrors and their places.
type Copies interface {
	// Hold returns a mirror's place and its entries with the keys, without their data. If the place
	// is still the current one, they are all as of one moment; otherwise Commit refuses it.
	Hold(ctx context.Context, id string, keys []string) (Held, error)
	// Commit stores a step whole or not at all, and returns the new revision of the place. Code
	// Conflict unless the stored place has the revision of the given one.
	Commit(ctx context.Context, id string, c Commit) (uint64, error)
	// Incarnation returns an ID that changes when the entries of all mirrors are restored from a
	// backup, so that cursors are assigned again; "" before that.
	Incarnation(ctx context.Context) (string, error)
	// Gaps returns the last gaps of a mirror, ascending.
	Gaps(ctx context.Context, id string) ([]sluice.MirrorGap, error)
	// Skipped returns all gaps with the cause GapBundle of a mirror, ascending.
	Skipped(ctx context.Context, id string) ([]sluice.MirrorGap, error)
	// Page returns entries after a cursor, in the order of their last change.
	Page(ctx context.Context, id string, after uint64, limit int) (Page, error)
	// Topics returns the paths that begin with a prefix of a mirror's entries without tombstones,
	// in any order. Code Unprocessable if there are more than most.
	Topics(ctx context.Context, id, prefix string, most int) ([]sluice.MirroredTopic, error)
	// MaxEntry returns the maximum size of an entry's data and attributes, in bytes.
	MaxEntry() int
	// FollowChanges calls each for the changes of a mirror after a cursor and then for new ones,
	// until each returns an error, ctx ends or the store fails.
	FollowChanges(ctx context.Context, id string, after uint64, each func(Followed) error) error
	// Purge removes the place with a revision and everything that the mirror stored before it.
	// Later messages stay.
	Purge(ctx context.Context, id string, revision uint64) error
}

// Followed is a stored change of a mirror: an entry, a gap or a place.
type Followed struct {
	Cursor uint64
	Entry  *Entry
	Gap    *sluice.MirrorGap
	Place  *Place
}

// Page is a part of a mirror's entries.
type Page struct {
	Entries []Entry
	Next    uint64 // cursor of the next page
	More    bool   // there is one
}

// Sources reads the changes of sources.
type Sources interface {
	// Observe returns a page of the changes of a mirror's source after a sequence. Codes NotFound,
	// Unauthenticated, Forbidden, CapabilityRequired, Unavailable, and any other of the source.
	Observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error)
	// CheckCredential returns an error (Forbidden) if a token permits more than reading (S3-142).
	CheckCredential(ctx context.Context, m *sluice.Mirror, credential string) error
}

// Namespaces looks up the namespaces of this server.
type Namespaces interface {
	// Label returns the label of a namespace.
	Label(namespace string) sluice.Label
	// Incarnation returns the incarnation of a namespace's log. Code NotFound.
	Incarnation(ctx context.Context, namespace string) (string, error)
}

// Gate decides whether the approver of a mirror still has the rights for it.
type Gate interface {
	Holds(m *sluice.Mirror) model.Decision
}

// Teller publishes a system event once for each of its ids.
type Teller interface {
	Tell(ctx context.Context, namespace string, e model.SystemEvent) error
}

// Ownership decides which mirrors this process syncs, by their ids.
type Ownership interface {
	supervise.Ownership
	Owns(id string) bool
}

// Deps are the dependencies of mirrors. All are required. All are called from several goroutines at
// once.
type Deps struct {
	Definitions Definitions
	Credentials Credentials
	Copies      Copies
	Trusts      Trusts
	Identity    Identity
	Sources     Sources
	Namespaces  Namespaces
	Gate        Gate
	Teller      Teller
	Ledger      *ledger.Ledger
	Owns        Ownership
}

// Observer counts the work of mirrors.
type Observer interface {
	// Synced counts a stored step.
	Synced(m *sluice.Mirror, entries, gaps int)
	SyncFailed(m *sluice.Mirror)
	// Forget removes the counters of a mirror that was deleted.
	Forget(id string)
}

// unobserved counts nothing.
type unobserved struct{}

func (unobserved) Synced(*sluice.Mirror, int, int) {}
func (unobserved) SyncFailed(*sluice.Mirror)       {}
func (unobserved) Forget(string)                   {}

// Options are the optional settings. Zero values become the defaults.
type Options struct {
	Workers int              // mirrors that sync at once, at most half of one namespace; default: 10 (S3-36)
	Most    int              // mirrors of a namespace; 0: unlimited
	Groups  int              // steps of a mirror's turn, each of up to 900 entries; default: 8
	Now     func() time.Time // default: time.Now
	Jitter  func() float64   // in [0, 1): default: rand.Float64
	Log     *slog.Logger     // default: slog.DiscardHandler
	Observe Observer         // nil: nothing is counted
}

const (
	observeTimeout = 30 * time.Second // S3-42
	maxBackoff     = time.Hour        // S3-50
	placeEvery     = 10 * time.Minute // minimum interval of storing a success that changed nothing
)

func (o Options) filled(jitter func() float64) Options {
	o.Workers, o.Groups = cmp.Or(o.Workers, 10), cmp.Or(o.Groups, 8)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = jitter
	}
	if o.Observe == nil {
		o.Observe = unobserved{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
