package export

import "context"

// Limits of reading ahead of writing, and of one write: 256 elements or 8 MiB. An element takes as
// many parts of that as its data needs.
const (
	parts    = 256
	partSize = 32 << 10
)

// room limits the elements that are read and not written yet. One goroutine takes, one gives back.
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

// pump passes elements from read to write in batches, until one of them ends. size is that of an
// element's data.
func pump[T any](ctx context.Context, read func(ctx context.Context, each func(T) error) error, write func([]T) error, size func(T) int) error {
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
	for first := range items {
		batch := more([]T{first}, items)
		if wrong != nil {
			continue // read ends as soon as it notices
		}
		if wrong = write(batch); wrong != nil {
			cancel()
		}
		for _, item := range batch {
			free.give(size(item))
		}
	}
	if err := <-ended; wrong == nil {
		return err
	}
	return wrong
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
