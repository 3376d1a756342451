package knowledge

import "sync"

// budget divides the memory of this process for enrichment among the namespaces.
type budget struct {
	limit int64 // bytes; 0: unlimited

	mu   sync.Mutex
	used int64
}

// grants decides whether a namespace with mine of the used bytes gets more. It does while it has no more
// than what stays free: alone it gets half of the limit, n that grow together get a part of n+1 each,
// and nothing that a namespace has is taken from it.
func grants(limit, used, mine, more int64) bool {
	return limit == 0 || more <= 0 || mine+more <= limit-used-more
}

// room returns the most that grants gives to a namespace.
func room(limit, used, mine int64) int64 { return max(0, limit-used-mine) / 2 }

// admits reports whether a namespace that has nothing would get bytes.
func (b *budget) admits(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return grants(b.limit, b.used, 0, bytes)
}

// account is what a namespace has of a budget.
type account struct {
	of *budget

	// Guarded by the lock of the budget.
	mine int64
	over bool // closed: requests that have the space still change it
}

// take takes bytes, or returns them if they are negative, and reports whether the account has them.
func (a *account) take(bytes int64) bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if !grants(a.of.limit, a.of.used, a.mine, bytes) {
		return false
	}
	a.add(bytes)
	return true
}

// force takes bytes that are in use anyway.
func (a *account) force(bytes int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.add(bytes)
}

func (a *account) add(bytes int64) {
	if a.over {
		return
	}
	a.mine += bytes
	a.of.used += bytes
}

// bytes returns how much the account has, and how much it could take.
func (a *account) bytes() (mine, more int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return a.mine, room(a.of.limit, a.of.used, a.mine)
}

// close returns everything.
func (a *account) close() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.add(-a.mine)
	a.over = true
}
