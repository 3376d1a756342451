package host

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Marks stores the marks of unsafe producers, whose events were part of a loop.
type Marks interface {
	// Mark returns the mark of a producer. Code NotFound if it has none.
	Mark(ctx context.Context, producer string) (sluice.Unsafe, uint64, error)
	// ClearProducer removes the mark of a producer. Code NotFound if it has none.
	ClearProducer(ctx context.Context, producer, by string) error
}

// Unsafe says why a module is unsafe.
type Unsafe struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// marked holds the modules that have been marked and must be stopped. Create it with newMarked.
type marked struct {
	mu    sync.Mutex
	names map[string]struct{}
	news  chan struct{}
}

func newMarked() *marked {
	return &marked{names: map[string]struct{}{}, news: make(chan struct{}, 1)}
}

func (m *marked) add(name string) {
	m.mu.Lock()
	m.names[name] = struct{}{}
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// take removes and returns the modules.
func (m *marked) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.names {
		names = append(names, name)
	}
	clear(m.names)
	return names
}

// Marked notes that a producer is marked as unsafe. It returns at once; Run stops the producer's
// module. Marks of one module before Run takes them count once.
func (s *Service) Marked(producer string) {
	if name, ok := sluice.ModuleOf(producer); ok {
		s.marked.add(name)
	}
}

// Run stops the modules that are marked, until the context is done. It returns nil. If a module
// cannot be stopped, Run tries again until ctx ends, with pauses of up to 15 s. Other modules wait
// meanwhile.
func (s *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.marked.news:
		}
		for _, name := range s.marked.take() {
			again := backoff.NewExponentialBackOff(backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
			err := backoff.Retry(func() error { return s.stopUnsafe(ctx, name) }, backoff.WithContext(again, ctx))
			if err != nil && ctx.Err() == nil {
				s.Host.opts.Log.WarnContext(ctx, "unsafe module not stopped", slog.String("module", name), slog.Any("error", err))
			}
		}
	}
}

// stopUnsafe stores that a marked module is unsafe, publishes a system event and suspends the
// subscriptions of the module. It does so once for each approval, and completes what a crash
// interrupted. Code Conflict if the approval was changed concurrently: repeat it.
func (s *Service) stopUnsafe(ctx context.Context, name string) error {
	mark, _, err := s.Marks.Mark(ctx, string(sluice.ModuleProducer(name)))
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil // it was approved again
	}
	if err != nil {
		return err
	}
	a, err := s.stored(ctx, name)
	if err != nil || a == nil {
		return err
	}
	told := a.Unsafe != nil
	if !told {
		after := *a
		after.Unsafe = &Unsafe{At: s.Now().UTC(), Reason: unsafeReason(name, &mark)}
		// The record comes first: if another replica approves the module meanwhile, one of the two
		// writes fails, and this replica tries again.
		if err := s.store(ctx, act{name, sluice.ActionModuleUnsafe, sluice.ActorSystem}, a, &after); err != nil {
			return err
		}
		a = &after
		defer s.Host.Set(ctx, name, a) // after its subscriptions are suspended, and also after an error
	}
	if active, err := s.anyActive(ctx, name, a.Subscriptions); err != nil || told && !active {
		return err
	}
	err = s.tell(ctx, name, onceFor(a), sluice.TypeModuleUnsafe, map[string]any{
		"reason": a.Unsafe.Reason, "namespace": mark.Namespace, "event": mark.Event, "chain": mark.Chain, "hops": mark.Hops,
	})
	if err != nil {
		return err
	}
	return s.suspend(ctx, name, a, a.Unsafe.Reason)
}

// anyActive reports whether any of a module's subscriptions is active. It ignores those that are not
// the module's.
func (s *Service) anyActive(ctx context.Context, name string, ids []string) (bool, error) {
	for _, id := range ids {
		sub, err := s.Subscriptions.Get(ctx, id)
		switch {
		case sluice.CodeOf(err) == sluice.SubscriptionMissing:
		case err != nil:
			return false, fmt.Errorf("subscription %s: %w", id, err)
		case sub.State == sluice.Active && sub.Module == name:
			return true, nil
		}
	}
	return false, nil
}

// unsafeReason describes why a marked module does not run, with the chain of causes.
func unsafeReason(name string, mark *sluice.Unsafe) string {
	const most = 8
	chain := []string{linkOf(mark.Event)}
	for i, l := range mark.Chain {
		if i == most {
			chain = append(chain, "…")
			break
		}
		chain = append(chain, linkOf(l))
	}
	return "an event of it would have caused itself in namespace " + mark.Namespace + " (" + strings.Join(chain, " ← ") +
		"): end the circle, then sluice module approve " + name
}

func linkOf(l sluice.Link) string { return l.Type + " on " + string(l.Path) }

// enterApproval removes the module's mark and then stores an approval. In that order, a mark that
// is found later is about a later event.
func (s *Service) enterApproval(ctx context.Context, a act, before, after *Approval) error {
	err := s.Marks.ClearProducer(ctx, string(sluice.ModuleProducer(a.module)), a.by)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	return s.store(ctx, a, before, after)
}
