package deliverystore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// pasts reads the attempts of many subscriptions at once, at the first need of them.
type pasts struct {
	store  *Store
	floors map[string]uint64 // by subscription

	once       sync.Once
	err        error
	from       time.Time          // the attempts since then were read; zero: there are none
	attempts   map[string][]tried // behind the floors, by subscription
	unrecorded map[string]bool    // by subject: some attempts were not stored yet

	mu    sync.Mutex
	first map[string]uint64 // by namespace: the first message that was stored since from
}

func (s *Store) pasts(floors map[string]uint64) *pasts {
	return &pasts{store: s, floors: floors, first: map[string]uint64{}}
}

// of returns the past of a subscription; nil if the subscription has to read its attempts itself:
// the read failed, some of them were not stored yet, or the event behind its floor is older than
// what was read.
func (p *pasts) of(ctx context.Context, sub *sluice.Subscription) fanout.Past {
	p.once.Do(func() { p.err = p.read(ctx) })
	if p.err != nil || p.unrecorded[p.store.core.Names().AttemptsSubject(sub.Namespace, sub.ID)] {
		return nil
	}
	if !p.from.IsZero() {
		first, err := p.firstIn(ctx, sub.Namespace)
		if err != nil || p.floors[sub.ID]+1 < first {
			return nil
		}
	}
	return progressIn(p.attempts[sub.ID], sub, "")
}

// read reads the attempts of the recoverAll before the last one.
func (p *pasts) read(ctx context.Context) error {
	s := p.store
	p.unrecorded = s.unrecorded.subjects() // before the read: what is stored meanwhile may be missing in it
	handle, err := s.core.JetStream().Stream(ctx, s.core.Names().Attempts())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.core.Names().Attempts(), err)
	}
	last := handle.CachedInfo().State.LastTime
	if last.IsZero() {
		return nil
	}
	p.from = last.Add(-recoverAll)
	p.attempts, err = s.triedSince(ctx, "", p.from, func(line []byte, msg *nats.Msg, _ *nats.MsgMetadata) bool {
		return isUpTo(line, p.floors[msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]])
	})
	return err
}

// firstIn returns the sequence of the first message of a namespace whose attempts were all read.
func (p *pasts) firstIn(ctx context.Context, ns string) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.first[ns]; ok {
		return first, nil
	}
	first, err := p.store.seqAt(ctx, ns, p.from.Add(clockSkew))
	if err == nil {
		p.first[ns] = first
	}
	return first, err
}
