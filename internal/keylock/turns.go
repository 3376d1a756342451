// Package keylock implements a keyed mutex for concurrent changes of one resource in this process.
// It is only an optimization: of many concurrent compare-and-sets only one succeeds, and each
// failed one costs as much as a success. Correctness rests on the compare-and-set.
package keylock

import (
	"context"
	"sync"
)

// Turns holds the locks, by key. The zero value is ready to use.
type Turns[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*turn
}

type turn struct {
	free    chan struct{} // has an element if the lock is free
	waiting int
}

// Take acquires the lock of a key. The caller must call done to release it. Take returns the error
// of ctx if ctx ends first.
func (t *Turns[K]) Take(ctx context.Context, key K) (done func(), err error) {
	t.mu.Lock()
	if t.byKey == nil {
		t.byKey = map[K]*turn{}
	}
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
		return nil, ctx.Err()
	}
}

func (t *Turns[K]) leave(key K, one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.waiting--; one.waiting == 0 {
		delete(t.byKey, key)
	}
}
