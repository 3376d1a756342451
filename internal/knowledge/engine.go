package knowledge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Engine enriches the namespaces that have a configuration. It is safe for concurrent use. mu
// guards told. A space has a lock of its own. Neither lock is held during a request.
type Engine struct {
	deps Deps
	opts Options

	memory *budget
	scans  chan struct{} // limits concurrent searches
	spaces supervise.Set[*space]

	mu   sync.Mutex
	told chan struct{} // closed and replaced when a configuration arrives
}

// New returns an engine, which does nothing until Run.
func New(deps Deps, opts Options) *Engine {
	opts = opts.filled()
	return &Engine{deps: deps, opts: opts, memory: &budget{limit: opts.Memory}, scans: make(chan struct{}, opts.Scans), told: make(chan struct{})}
}

// Run follows the namespaces with a configuration until ctx is done. Call it once. It returns nil
// when ctx is done, after all spaces have ended.
func (e *Engine) Run(ctx context.Context) error {
	defer e.spaces.Wait()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	err := e.deps.Definitions.Watch(ctx, func(namespace string, c *Stored) {
		defer e.tell()
		if c == nil {
			e.spaces.Stop(namespace)
			return
		}
		s := newSpace(*c, e.deps, e.opts, e.memory)
		e.spaces.Start(inner, namespace, func(ctx context.Context) (*space, func()) {
			return s, func() {
				defer s.ended()
				s.run(ctx)
			}
		})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ended wakes waiting claims, so that they find the space's successor.
func (s *space) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
}

func (e *Engine) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.told)
	e.told = make(chan struct{})
}

func (e *Engine) news() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.told
}

// readyWithin limits waiting for a namespace whose entries are being read.
const readyWithin = 10 * time.Second

// space returns the space of a namespace once it has read all of its sources. Codes NotFound if the
// namespace has no enrichment; Unavailable. It waits at most readyWithin, and less if ctx ends. It
// does not wait for a namespace that is being read again.
func (e *Engine) space(ctx context.Context, namespace string) (*space, error) {
	return e.spaceAt(ctx, namespace, 0)
}

// spaceAt is space for a configuration with at least a revision.
func (e *Engine) spaceAt(ctx context.Context, namespace string, revision uint64) (*space, error) {
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	for known := false; ; {
		news := e.news()
		s, ok := e.spaces.Get(namespace)
		var changed <-chan struct{}
		var err error = sluice.Errorf(sluice.Unavailable, "the enrichment of %s is being read; retry", namespace)
		if ok {
			changed = s.news()
			if err = s.ready(); err == nil && s.config.Revision >= revision {
				return s, nil
			}
		} else if !known {
			if _, _, err := e.deps.Definitions.Get(ctx, namespace); err != nil {
				return nil, missing(err)
			}
			known = true
			continue // it may have arrived meanwhile
		}
		select {
		case <-news:
		case <-changed:
		case <-limit.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func missing(err error) error {
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Errorf(sluice.NotFound, "the namespace has no enrichment; an admin configures it with PUT /v1/namespaces/<namespace>/enrichment")
	}
	return err
}

// news returns a channel that is closed when a task may be ready, or a source was read.
func (s *space) news() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Get returns the configuration of a namespace. Code NotFound.
func (e *Engine) Get(ctx context.Context, namespace string) (sluice.Enrichment, error) {
	c, revision, err := e.deps.Definitions.Get(ctx, namespace)
	c.Revision = revision
	return c.Enrichment, missing(err)
}

// Status returns how far this replica has read and enriched the entries of a namespace. Codes
// NotFound; Unavailable.
func (e *Engine) Status(ctx context.Context, namespace string) (sluice.EnrichmentStatus, error) {
	s, err := e.space(ctx, namespace)
	if err != nil {
		return sluice.EnrichmentStatus{}, err
	}
	return s.state(), nil
}

// Gauges returns the status of each namespace on this replica. A namespace that is still being read
// counts with its present entries.
func (e *Engine) Gauges() []model.KnowledgeGauges {
	spaces := e.spaces.All()
	all := make([]model.KnowledgeGauges, 0, len(spaces))
	for namespace, s := range spaces {
		all = append(all, model.KnowledgeGauges{Namespace: namespace, Status: s.state()})
	}
	return all
}

// Put configures the enrichment of a namespace and sets its defaults. A revision other than 0 must
// be the current one. With a new model, all entries are embedded again (S3-82). Codes
// InvalidRequest; RevisionMismatch; QuotaExceeded if there is no room for a further enrichment. Put
// replaces the whole configuration. It returns when this replica uses it, or after readyWithin.
func (e *Engine) Put(ctx context.Context, c sluice.Enrichment, by string) (sluice.Enrichment, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	var intent *ledger.Intent
	for {
		is, change, err := e.change(ctx, c, by)
		if err == nil {
			intent, err = e.deps.Ledger.Intend(ctx, intent, change)
		}
		if err != nil {
			intent.Fail(ctx, err)
			return c, err
		}
		is.Revision, err = e.deps.Definitions.Put(ctx, c.Namespace, is, is.Revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return c, fmt.Errorf("store enrichment: %w", err)
		}
		_, err = e.spaceAt(ctx, c.Namespace, is.Revision) // the caller's next request is for this configuration
		if sluice.CodeOf(err) == sluice.Unavailable {
			err = nil
		}
		return is.Enrichment, err
	}
}

const retryFull = 60 // seconds

// change returns a configuration to store in place of the current one, with the revision of that.
func (e *Engine) change(ctx context.Context, c sluice.Enrichment, by string) (Stored, ledger.Change, error) {
	was, revision, err := e.deps.Definitions.Get(ctx, c.Namespace)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return was, ledger.Change{}, err
	}
	if revision == 0 && !e.memory.admits(spaceBytes(c.Dimensions)) {
		return was, ledger.Change{}, sluice.Errorf(sluice.QuotaExceeded,
			"limits.knowledge_memory is used up by other namespaces; raise it, or delete an enrichment").With("retry_after", retryFull)
	}
	if c.Revision != 0 && c.Revision != revision {
		return was, ledger.Change{}, sluice.Errorf(sluice.RevisionMismatch, "the enrichment of %s is at revision %d", c.Namespace, revision)
	}
	is := Stored{Enrichment: c, Incarnation: cmp.Or(was.Incarnation, rand.Text())}
	is.UpdatedAt, is.UpdatedBy, is.Revision = e.opts.Now().UTC(), by, revision
	change := ledger.Change{Actor: by, Namespace: c.Namespace, Resource: c.Namespace, Action: sluice.ActionEnrichmentPut, New: &is.Enrichment}
	if revision != 0 {
		change.Old = &was.Enrichment
	}
	return is, change, nil
}

// Delete ends the enrichment of a namespace, and removes all its embeddings and comparisons. Code
// NotFound. It deletes the definition first, so that replicas give out no more jobs while the
// records are purged. A repeated call removes the records that an interrupted one left, and then
// returns NotFound.
func (e *Engine) Delete(ctx context.Context, namespace, by string) error {
	was, _, err := e.deps.Definitions.Get(ctx, namespace)
	if sluice.CodeOf(err) == sluice.NotFound {
		return cmp.Or(e.deps.Records.PurgeAll(ctx, namespace), missing(err))
	}
	if err != nil {
		return err
	}
	intent, err := e.deps.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Namespace: namespace, Resource: namespace, Action: sluice.ActionEnrichmentDelete, Old: &was.Enrichment,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(e.deps.Definitions.Delete(ctx, namespace, 0), e.deps.Records.PurgeAll(ctx, namespace)); err != nil {
		intent.Fail(ctx, err)
		return fmt.Errorf("delete enrichment: %w", err)
	}
	return nil
}

// DeleteAll is Delete for a namespace that is being deleted; it may have no enrichment.
func (e *Engine) DeleteAll(ctx context.Context, namespace, by string) error {
	if err := e.Delete(ctx, namespace, by); sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	return nil
}
