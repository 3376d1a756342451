package httpkit

import "sync"

// Places is a semaphore for requests: at most Most at once, and at most Each of them for one key (a
// namespace or a principal), so that its slow clients do not take every place.
type Places struct {
	Most, Each int

	mu    sync.Mutex
	used  int
	of    map[string]int // by namespace, or by principal
	freed chan struct{}  // closed and replaced when a place is freed
}

// NewPlaces returns a semaphore whose places are all free.
func NewPlaces(most, each int) *Places {
	return &Places{Most: most, Each: each, of: map[string]int{}, freed: make(chan struct{})}
}

// Take takes a place and returns nil. If there is none, it returns a channel that is closed when a
// place is freed. Each caller with nil must call Leave once. The channel closes for all that wait;
// they call again.
func (p *Places) Take(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == p.Most || p.of[key] == p.Each {
		return p.freed
	}
	p.used++
	p.of[key]++
	return nil
}

// Leave frees a place.
func (p *Places) Leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if p.of[key]--; p.of[key] == 0 {
		delete(p.of, key)
	}
	close(p.freed)
	p.freed = make(chan struct{})
}
