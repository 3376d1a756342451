package sluice

import "slices"

// Covers reports whether every path that q matches is matched by p. It may say no wrongly.
func (p Pattern) Covers(q Pattern) bool {
	return p == q || p == "/**" && !Path(q).Reserved()
}

// Overlaps reports whether some path is matched by both. It may say yes wrongly.
func (p Pattern) Overlaps(q Pattern) bool {
	a, b := p.Segments(), q.Segments()
	return p.WildFirst() || q.WildFirst() || slices.Equal(a[:1], b[:1])
}
