package durable

import (
	"context"
	"fmt"
	"sync"
)

// turns has those who want to change the same record in this process do so one after the other: of many who
// try at once one comes through, and each try of the others costs as much as a success. That they take turns
// is a courtesy: what counts is that a record is stored only if it is the next one.
type turns struct {
	mu    sync.Mutex
	byKey map[Key]*turn
}

type turn struct {
	free    chan struct{} // has something if it is nobody's turn
	waiting int
}

func newTurns() *turns { return &turns{byKey: map[Key]*turn{}} }

// take waits for one's turn; done ends it.
func (t *turns) take(ctx context.Context, key Key) (done func(), err error) {
	t.mu.Lock()
	one := t.byKey[key]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.byKey[key] = one
	}
	one.waiting++
	t.mu.Unlock()
	select {
	case <-one.free:
		return func() {
			one.free <- struct{}{}
			t.leave(key, one)
		}, nil
	case <-ctx.Done():
		t.leave(key, one)
		return nil, fmt.Errorf("stream: %w", ctx.Err())
	}
}

func (t *turns) leave(key Key, one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.waiting--; one.waiting == 0 {
		delete(t.byKey, key)
	}
}
