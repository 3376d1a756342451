package mirror_test

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// site of URLs in bundles.
const siteURL = "https://low.example.com/v1/namespaces/"

// fleet is two replicas with mirrors on one NATS.
type fleet struct {
	rooms   [2]storetest.Rooms
	copies  *mirrorstore.Store
	js      jetstream.JetStream
	labels  *labels
	key     ed25519.PrivateKey
	owners  *owners
	engines [2]*mirror.Engine
	stops   [2]func()
	outside mirror.Sources // of other servers; nil: there are none
}

// newFleet returns replicas that run until the test ends.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	server := natstest.New(t)
	f := &fleet{
		js: natstest.JetStream(t, server), labels: &labels{all: map[string]sluice.Label{}}, owners: &owners{told: make(chan struct{})},
		key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
	}
	for i := range f.rooms {
		f.rooms[i] = storetest.Connect(t, natsstore.Options{Conn: server})
		require.NoError(t, f.rooms[i].Provision(t.Context()))
	}
	f.copies = mirrorstore.New(f.rooms[0].Store, 0)
	for i := range f.engines {
		f.start(t, i)
	}
	t.Cleanup(func() { f.stops[0](); f.stops[1]() })
	return f
}

// start runs a replica, which knows nothing yet.
func (f *fleet) start(t *testing.T, i int) {
	t.Helper()
	rooms := f.rooms[i]
	sources := &logs{labels: f.labels, outside: f.outside, EventLog: records.EventLog{Log: rooms.Log}}
	e := mirror.New(mirror.Deps{
		Definitions: records.NewMirrors(rooms.Store), Credentials: records.NewCredentials(rooms.Store), Trusts: records.NewTrusts(rooms.Store),
		Identity: f, Copies: overtaken{mirrorstore.New(rooms.Store, 0)}, Sources: sources, Namespaces: namespaces{f.labels, rooms}, Gate: admitted{},
		Teller: records.Teller{Log: rooms.Log}, Ledger: ledger.New(unwritten{}, nil), Owns: part{f.owners, i},
	}, mirror.Options{})
	sources.passed = e.Keeper().Passed
	f.engines[i] = e
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx) // it is told to end
	}()
	f.stops[i] = func() {
		cancel()
		<-done
	}
}

// Notebook returns the name of a namespace in bundles.
func (*fleet) Notebook(ns string) string { return siteURL + ns }

// BundleKeys returns the only key.
func (f *fleet) BundleKeys(context.Context) ([]ed25519.PrivateKey, error) {
	return []ed25519.PrivateKey{f.key}, nil
}

// labels has the labels of namespaces.
type labels struct {
	mu  sync.Mutex
	all map[string]sluice.Label
}

func (l *labels) Label(ns string) sluice.Label {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[ns]
}

func (l *labels) set(ns string, is sluice.Label) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[ns] = is
}

// namespaces knows the labels of a test and the logs of a store.
type namespaces struct {
	*labels

	rooms storetest.Rooms
}

func (n namespaces) Incarnation(ctx context.Context, ns string) (string, error) {
	if f, ok := ctx.Value(checked{}).(func()); ok {
		f()
	}
	return n.rooms.Log.Incarnation(ctx, ns)
}

// logs reads the changes of namespaces, a few at a time.
type logs struct {
	records.EventLog

	labels  *labels
	outside mirror.Sources
	passed  func(ctx context.Context, ns string) ([]sluice.Hop, error)
}

func (l *logs) Observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error) {
	if m.Remote() {
		return l.outside.Observe(ctx, m, credential, since)
	}
	page, err := l.Changes(ctx, m.Source, model.ChangeQuery{Since: since, Limit: 3, Brief: true})
	if err != nil {
		return nil, err
	}
	page.Label = l.labels.Label(m.Source)
	page.Passed, err = l.passed(ctx, m.Source)
	return &page, err
}

func (*logs) CheckCredential(context.Context, *sluice.Mirror, string) error { return nil }

// overtaken is the copies of a replica. Before a step is stored, the function under meanwhile in its context is called; before
// a place is removed, that under removed.
type overtaken struct{ *mirrorstore.Store }

type (
	meanwhile struct{}
	removed   struct{}
	checked   struct{} // is called when a caller of the keeper has read the record of a mirror
)

func (o overtaken) Purge(ctx context.Context, id string, revision uint64) error {
	if f, ok := ctx.Value(removed{}).(func()); ok {
		f()
	}
	return o.Store.Purge(ctx, id, revision)
}

func (o overtaken) Commit(ctx context.Context, id string, c mirror.Commit) (uint64, error) {
	if f, ok := ctx.Value(meanwhile{}).(func()); ok {
		f()
	}
	return o.Store.Commit(ctx, id, c)
}

// admitted lets everybody have mirrors.
type admitted struct{}

func (admitted) Holds(*sluice.Mirror) model.Decision { return model.Pass }

// unwritten is a ledger that keeps nothing.
type unwritten struct{}

func (unwritten) Append(context.Context, *sluice.LedgerEntry) error { return nil }

// owners says which replicas own all mirrors. Both do for a while if a lease ends during a long step.
type owners struct {
	mu   sync.Mutex
	is   [2]bool
	told chan struct{}
}

func (o *owners) set(is [2]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.is = is
	close(o.told)
	o.told = make(chan struct{})
}

// part is what a replica knows of the owners.
type part struct {
	*owners

	replica int
}

func (p part) Owns(string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.is[p.replica]
}

func (p part) Run(ctx context.Context, changed func() <-chan struct{}) error {
	for {
		p.mu.Lock()
		told := p.told
		p.mu.Unlock()
		<-changed()
		select {
		case <-ctx.Done():
			return nil
		case <-told:
		}
	}
}

// skipped returns the number of gaps that were accepted.
func skipped(gaps []sluice.MirrorGap) (n int) {
	for _, gap := range gaps {
		if gap.Cause == sluice.GapBundle {
			n++
		}
	}
	return n
}
