package durable

import (
	"cmp"
	"context"
	"sync"
)

// Standing is a stream's state for a follower.
type Standing struct {
	Last  uint64 // sequence of its last message, which may be inherited; 0: none
	Start uint64 // its own messages are after this sequence, those of an earlier, deleted stream up to it
	Gone  bool   // deleted or expired, and nothing has been stored on its path since
}

// Standing returns a stream's present state. It does not count as use of the stream. A path without
// a stream is not an error.
func (e *Engine) Standing(ctx context.Context, key Key) (Standing, error) {
	var last uint64
	var failed error
	var asking sync.WaitGroup
	asking.Go(func() { last, failed = e.store.Tail(ctx, key.Namespace, key.Path) })
	s, err := e.current(ctx, key)
	asking.Wait()
	if err := cmp.Or(err, failed); err != nil {
		return Standing{}, err
	}
	return s.standing(last), nil
}

// standing returns a stream's state, given the sequence of the last event on its path.
func (s *stream) standing(last uint64) Standing {
	st := Standing{Last: last, Start: s.Start}
	st.Gone = s.State == Soft || s.State == Gone && s.Start > 0 && last <= s.Start
	if last <= s.Start {
		st.Last = s.inheritedEnd()
	}
	return st
}
