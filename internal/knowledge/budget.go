package knowledge

import "sync"

// budget divides the memory of this process for enrichment among the namespaces. It is an estimate
// by memory.go, not a measurement. It is safe for concurrent use.
type budget struct {
	limit int64 // bytes; 0: unlimited

	mu   sync.Mutex
	used int64
}

// grants decides whether a namespace with mine of the used bytes gets more. It does as long as the
// namespace then has no more than stays free. So one namespace gets up to half of the limit, n
// namespaces that grow together get 1/(n+1) each, and none has to give memory back.
func grants(limit, used, mine, more int64) bool {
	return limit == 0 || more <= 0 || mine+more <= limit-used-more
}

// room returns the largest number of further bytes that grants permits to a namespace.
func room(limit, used, mine int64) int64 { return max(0, limit-used-mine) / 2 }

// admits reports whether a namespace without memory would get bytes.
func (b *budget) admits(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return grants(b.limit, b.used, 0, bytes)
}

// account is the share of a namespace in a budget. A space has one for as long as it runs.
type account struct {
	of *budget

	// Guarded by the lock of the budget.
	mine int64
	over bool // closed; requests that still use the space may change the account
}

// take takes bytes from the budget, and reports whether it permits them. It gives back a negative
// number of bytes.
func (a *account) take(bytes int64) bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if !grants(a.of.limit, a.of.used, a.mine, bytes) {
		return false
	}
	a.add(bytes)
	return true
}

// force takes bytes that are already in use, even beyond the limit. It is for bytes whose use
// cannot be refused, such as a note that an entry has no room.
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

// bytes returns how many bytes the account has, and how many more it could take.
func (a *account) bytes() (mine, more int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return a.mine, room(a.of.limit, a.of.used, a.mine)
}

// close gives all bytes back.
func (a *account) close() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.add(-a.mine)
	a.over = true
}
