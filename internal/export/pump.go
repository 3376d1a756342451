package export

import (
	"context"
	"time"
)

// Limits of reading ahead of writing, and of one write: 256 parts of 32 KiB, thus 256 elements or 8
// MiB. An element takes as many parts as its data needs.
const (
	parts    = 256
	partSize = 32 << 10
)

// room limits the elements that are read but not written yet. One goroutine takes parts, another
// gives them back.
type room chan struct{}

func partsOf(size int) int { return min(1+size/partSize, parts) }

func (r room) take(ctx context.Context, size int) error {
	for range partsOf(size) {
		select {
		case r <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r room) give(size int) {
	for range partsOf(size) {
		<-r
	}
}

func giveAll[T any](r room, batch []T, size func(T) int) {
	for _, item := range batch {
		r.give(size(item))
	}
}

// timer calls a function at each tick.
type timer struct {
	tick <-chan time.Time // nil: never
	do   func() error
}

// pump passes elements from read to write in batches, and makes the calls of a timer in between,
// until one of them ends. Size returns the size of an element's data.
func pump[T any](ctx context.Context, read func(ctx context.Context, each func(T) error) error, write func([]T) error, size func(T) int, beside timer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	free, items, ended := make(room, parts), make(chan T, parts), make(chan error, 1)
	go func() {
		err := read(ctx, func(item T) error {
			if err := free.take(ctx, size(item)); err != nil {
				return err
			}
			items <- item // there is a place for each part
			return nil
		})
		close(items)
		ended <- err
	}()
	var wrong error
	fail := func(err error) {
		if wrong = err; wrong != nil {
			cancel() // read ends as soon as it notices
		}
	}
	for {
		first, open := await(items, beside.tick, func() {
			if wrong == nil {
				fail(beside.do())
			}
		})
		if !open {
			break
		}
		batch := more([]T{first}, items)
		if wrong != nil {
			continue
		}
		fail(write(batch))
		giveAll(free, batch, size)
	}
	if err := <-ended; wrong == nil {
		return err
	}
	return wrong
}

// await returns the next element, and calls do at each tick until there is one.
func await[T any](items <-chan T, tick <-chan time.Time, do func()) (T, bool) {
	for {
		select {
		case item, open := <-items:
			return item, open
		case <-tick:
			do()
		}
	}
}

// more adds the waiting elements to a batch.
func more[T any](batch []T, items <-chan T) []T {
	for {
		select {
		case item, ok := <-items:
			if !ok {
				return batch
			}
			batch = append(batch, item)
		default:
			return batch
		}
	}
}
