package records

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Mirrors stores the records of mirrors.
type Mirrors struct {
	natsstore.Bucket[mirror.Stored]
}

var _ mirror.Definitions = Mirrors{}

// NewMirrors returns the records of mirrors.
func NewMirrors(store *natsstore.Store) Mirrors {
	return Mirrors{natsstore.OpenBucket[mirror.Stored](store, streams.Mirrors)}
}

// Put stores a record and returns its new revision, like Bucket.Put. Code SubscriptionDiffers if a
// subscription has the ID of a new mirror.
func (m Mirrors) Put(ctx context.Context, id string, record mirror.Stored, revision uint64) (uint64, error) {
	put := func() (uint64, error) { return m.Bucket.Put(ctx, id, record, revision) }
	if revision > 0 {
		return put()
	}
	return m.PutExclusive(ctx, streams.Subscriptions, id, put)
}

// All returns all records with their revisions. Those that are being deleted are among them.
func (m Mirrors) All(ctx context.Context) ([]mirror.Stored, error) {
	entries, err := m.List(ctx, ">")
	all := make([]mirror.Stored, len(entries))
	for i, e := range entries {
		all[i] = e.Value
		all[i].Revision = e.Revision
	}
	return all, err
}

// Watch calls change for every record, and then for every change.
func (m Mirrors) Watch(ctx context.Context, change func(id string, m *mirror.Stored)) error {
	return m.Bucket.Watch(ctx, ">", changes[mirror.Stored]{
		set: func(e natsstore.Entry[mirror.Stored]) {
			e.Value.Revision = e.Revision
			change(e.Key, &e.Value)
		},
		removed: func(key string, _ uint64) { change(key, nil) },
	}.handle)
}

// credential is the stored form of a token: sealed.
type credential struct {
	Token string `json:"token"`
}

// Transformed returns a copy with f applied to the token.
func (c credential) Transformed(key string, f natsstore.Transform) (_ credential, err error) {
	c.Token, err = f(c.Token, seal.Place(streams.Credentials, key, "token"))
	return c, err
}

// Credentials stores the tokens for the sources of mirrors.
type Credentials struct{ bucket natsstore.Sealed[credential] }

var _ mirror.Credentials = Credentials{}

// NewCredentials returns the tokens for the sources of mirrors.
func NewCredentials(store *natsstore.Store) Credentials {
	return Credentials{natsstore.OpenSealed[credential](store, streams.Credentials)}
}

// Get returns the token of a mirror; "" if there is none.
func (c Credentials) Get(ctx context.Context, id string) (string, error) {
	is, _, err := c.bucket.Get(ctx, id)
	if sluice.CodeOf(err) == sluice.NotFound {
		return "", nil
	}
	return is.Token, err
}

// Put stores the token of a mirror, and replaces any other.
func (c Credentials) Put(ctx context.Context, id, token string) error {
	for {
		_, revision, err := c.bucket.Get(ctx, id)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		_, err = c.bucket.Put(ctx, id, credential{token}, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// Delete removes the token of a mirror.
func (c Credentials) Delete(ctx context.Context, id string) error { return c.bucket.Delete(ctx, id, 0) }

// Trusts stores the keys that sign bundles for namespaces.
type Trusts struct {
	bucket natsstore.Bucket[bundle.Trust]
}

var _ mirror.Trusts = Trusts{}

// NewTrusts returns the keys that sign bundles for namespaces.
func NewTrusts(store *natsstore.Store) Trusts {
	return Trusts{natsstore.OpenBucket[bundle.Trust](store, streams.TrustedKeys)}
}

// Get returns the keys that a namespace trusts, and their revision; 0 if there are none.
func (t Trusts) Get(ctx context.Context, namespace string) (bundle.Trust, uint64, error) {
	keys, revision, err := t.bucket.Get(ctx, namespace)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, 0, nil
	}
	return keys, revision, err
}

// Put stores the keys that a namespace trusts. Code Conflict unless the stored revision is the given one.
func (t Trusts) Put(ctx context.Context, namespace string, keys bundle.Trust, revision uint64) error {
	_, err := t.bucket.Put(ctx, namespace, keys, revision)
	return err
}

// Delete removes the keys that a namespace trusts.
func (t Trusts) Delete(ctx context.Context, namespace string) error {
	return t.bucket.Delete(ctx, namespace, 0)
}

// RemoteSource reads the changes of namespaces of other servers.
type RemoteSource interface {
	Observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error)
	CheckCredential(ctx context.Context, m *sluice.Mirror, credential string) error
}

// MirrorSources reads the changes of sources: the logs of this server, and those of others.
type MirrorSources struct {
	RemoteSource

	Log     EventLog
	Index   *authz.Index
	Summary func(*sluice.Event) []byte
	Passed  func(ctx context.Context, namespace string) ([]sluice.Hop, error)
}

var _ mirror.Sources = MirrorSources{}

// Observe returns a page of the changes of the source of a mirror after a sequence. For a namespace
// of this server, it returns only changes that the approver of the mirror may read.
func (s MirrorSources) Observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error) {
	if m.Remote() {
		return s.RemoteSource.Observe(ctx, m, credential, since)
	}
	undecided := false
	shows := func(ev *sluice.Event) bool {
		d := s.Index.Shows(approverOf(m), sluice.VerbRead, ev, time.Now())
		undecided = undecided || d == model.Undecided
		return d == model.Pass
	}
	page, err := s.Log.Changes(ctx, m.Source, model.ChangeQuery{
		Since: since, Limit: localPage, Brief: true, Visible: shows,
		Erased: func(label string) ([]sluice.Path, bool) {
			ev := sluice.Event{Namespace: m.Source, Path: "/any"}
			if label != "" {
				ev.Extensions = map[string]string{sluice.AttributeClassification: label}
			}
			return nil, shows(&ev)
		},
	})
	if err != nil {
		return nil, err
	}
	if undecided {
		return nil, sluice.Errorf(sluice.Unavailable, "the access of %s is not known at the moment", m.ApprovedBy)
	}
	page.Label = s.Index.Label(m.Source)
	if page.Passed, err = s.Passed(ctx, m.Source); err != nil {
		return nil, err
	}
	for i := range page.Items {
		s.reduce(&page.Items[i].Event, m.Depth)
	}
	return &page, nil
}

const localPage = 100 // S3-43

// reduce reduces the data of an event to the depth of a mirror (C10).
func (s MirrorSources) reduce(ev *sluice.Event, depth sluice.Depth) {
	switch depth {
	case sluice.DepthCatalog:
		ev.Data = nil
	case sluice.DepthSummary:
		ev.Data, ev.ContentType = s.Summary(ev), "application/json"
	case sluice.DepthFull:
	}
}

// approverOf returns the caller that created a mirror or resumed it last.
func approverOf(m *sluice.Mirror) sluice.Caller {
	return sluice.Caller{Principal: sluice.Principal(m.ApprovedBy), Grant: m.Grant}
}

// MirrorGate decides whether the approver of a mirror may have it: an admin of its namespace that may read
// the whole source, if that is of this server.
type MirrorGate struct{ Index *authz.Index }

var _ mirror.Gate = MirrorGate{}

// Require returns an error unless a caller may have a mirror.
func (g MirrorGate) Require(caller sluice.Caller, m *sluice.Mirror) error {
	if err := g.Index.Require(caller, sluice.VerbAdmin, authz.Target{Namespace: m.Namespace}, time.Now()); err != nil {
		return err
	}
	if m.Remote() {
		return nil
	}
	return g.Index.Require(caller, sluice.VerbRead, authz.Target{Namespace: m.Source}, time.Now())
}

// Holds decides whether the approver of a mirror may still have it.
func (g MirrorGate) Holds(m *sluice.Mirror) model.Decision {
	switch err := g.Require(approverOf(m), m); sluice.CodeOf(err) { //nolint:exhaustive // all other codes deny
	case "":
		return model.Pass
	case sluice.Unavailable:
		return model.Undecided
	}
	return model.Lost
}

// GatedMirrors is the keeper of mirrors with the check of the permissions that they need.
type GatedMirrors struct {
	*mirror.Keeper
	MirrorGate
}

// MirrorNamespaces knows the namespaces of this server.
type MirrorNamespaces struct {
	*authz.Index

	Log *eventlog.Log
}

var _ mirror.Namespaces = MirrorNamespaces{}

// Incarnation returns the incarnation of a namespace's log.
func (n MirrorNamespaces) Incarnation(ctx context.Context, namespace string) (string, error) {
	return n.Log.Incarnation(ctx, namespace)
}
