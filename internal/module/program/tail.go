package program

import "sync"

// Tail keeps the last bytes that are written to it. It is safe for concurrent use.
type Tail struct {
	Most int // bytes that are kept

	mu    sync.Mutex
	kept  []byte // up to twice Most bytes
	total int64
}

// Write keeps the last bytes of p, and drops older ones. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	t.kept = append(t.kept, p[max(0, len(p)-t.Most):]...)
	if over := len(t.kept) - t.Most; over > t.Most {
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
	return len(p), nil
}

// Written returns how many bytes were written.
func (t *Tail) Written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Since returns the kept part of the text that was written after the given number of bytes.
func (t *Tail) Since(first int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	take := min(int64(len(t.kept)), int64(t.Most), t.total-first)
	return string(t.kept[int64(len(t.kept))-take:])
}
