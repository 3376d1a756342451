package sluice_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// splitMatch is how patterns were matched before Match allocated nothing.
func splitMatch(p sluice.Pattern, path sluice.Path) bool {
	if p.WildFirst() && path.Reserved() {
		return false
	}
	glob, segs := p.Segments(), path.Segments()
	i, j, star, mark := 0, 0, -1, 0
	for j < len(segs) {
		switch {
		case i < len(glob) && glob[i] == "**":
			star, mark = i, j
			i++
		case i < len(glob) && (glob[i] == "*" || glob[i] == segs[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return !slices.ContainsFunc(glob[i:], func(s string) bool { return s != "**" })
}

func joined(segs []string) string { return "/" + strings.Join(segs, "/") }

func TestMatch_AgreesWithTheSplittingReference(t *testing.T) {
	t.Parallel()
	segment := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "aa", "", "_sys", "$x"}), rapid.StringN(0, 3, -1).Filter(func(s string) bool {
		return !strings.Contains(s, "/")
	}))
	glob := rapid.OneOf(segment, rapid.SampledFrom([]string{"*", "**"}))
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := sluice.Pattern(joined(rapid.SliceOfN(glob, 1, 8).Draw(t, "pattern")))
		path := sluice.Path(joined(rapid.SliceOfN(segment, 1, 8).Draw(t, "path")))
		require.Equal(t, splitMatch(pattern, path), pattern.Match(path), "%s %s", pattern, path)
		if pattern.Match(path) {
			hits++
		}
	})
	require.NotZero(t, hits)
}

func TestMatch_InvalidInputMatchesNothing(t *testing.T) {
	t.Parallel()
	require.False(t, sluice.Pattern("").Match("/a"))
	require.False(t, sluice.Pattern("").Match(""))
	require.False(t, sluice.Pattern("/**").Match(""))
	require.False(t, sluice.Pattern("").Covers("/a"))
	require.False(t, sluice.Pattern("/**").Covers(""))
	require.False(t, sluice.Pattern("").Overlaps(""))
	require.False(t, sluice.Pattern("").Overlaps("/**"))
	require.False(t, sluice.Path("").Dotted())
	require.False(t, sluice.Pattern("/**").Overlaps(""))
	require.False(t, sluice.Pattern(strings.Repeat("/**", 33)).Covers("/a"), "too long to be looked at")
}

func TestCovers_KnownPairs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p, q                     sluice.Pattern
		covers, covered, overlap bool
	}{
		{"/a", "/a", true, true, true},
		{"/a", "/b", false, false, false},
		{"/*", "/a", true, false, true},
		{"/*", "/_sys", false, false, false},
		{"/**", "/a/b", true, false, true},
		{"/**", "/_sys/**", false, false, false},
		{"/**", "/$x", false, false, false},
		{"/**", "/a/_sys/**", true, false, true},
		{"/**/_sys", "/_sys", false, false, false},
		{"/**/_sys", "/a/_sys", true, false, true},
		{"/_sys/**", "/_sys/subscriptions/*", true, false, true},
		{"/_sys/**", "/_system/**", false, false, false},
		{"/a/**", "/a", true, false, true},
		{"/a/**", "/a/*/b", true, false, true},
		{"/a/**", "/**", false, true, true},
		{"/a/**", "/ab", false, false, false},
		{"/a/*/**", "/a/**/*", true, true, true},
		{"/a/*/**", "/a", false, false, false},
		{"/a/**/b", "/a/b", true, false, true},
		{"/a/**/b", "/a/**/c/b", true, false, true},
		{"/a/**/b", "/a/b/**", false, false, true},
		{"/a/**", "/**/b", false, false, true},
		{"/a/*", "/*/b", false, false, true},
		{"/a/*/c", "/a/b/*", false, false, true},
		{"/**/a/**", "/*/a/*", true, false, true},
		{"/**/a/**/b/**", "/**/a/b/**", true, false, true},
		{"/**/a/**/b/**", "/**/b/**/a/**", false, false, true},
		{"/**/a/*/*", "/**/a/a/*", true, false, true},
		{"/**/a/*/*", "/**/a/*", false, false, true},
		{"/**/a/*", "/**/a/*/a/*", true, false, true},
		{"/**/*", "/**", true, true, true},
		{"/**/**", "/**", true, true, true},
		{"/a/", "/a/*", false, true, true},
		{"/**/", "/*/**/", true, true, true}, // "/" alone is no path
		{"/**/", "/*", false, false, false},
		{"//a", "/a", false, false, false},
	} {
		require.Equal(t, c.covers, c.p.Covers(c.q), "%s covers %s", c.p, c.q)
		require.Equal(t, c.covered, c.q.Covers(c.p), "%s covers %s", c.q, c.p)
		require.Equal(t, c.overlap, c.p.Overlaps(c.q), "%s overlaps %s", c.p, c.q)
		require.Equal(t, c.overlap, c.q.Overlaps(c.p), "%s overlaps %s", c.q, c.p)
	}
}

// every returns the sequences of one to most of the words, joined as paths are.
func every(words []string, most int) []string {
	var all []string
	last := []string{""}
	for range most {
		var longer []string
		for _, head := range last {
			for _, word := range words {
				longer = append(longer, head+"/"+word)
			}
		}
		all = append(all, longer...)
		last = longer
	}
	return all
}

// pathSet says for each of the paths whether the pattern matches it, a bit each.
func pathSet(p sluice.Pattern, paths []string) []uint64 {
	set := make([]uint64, len(paths)/64+1)
	for i, path := range paths {
		if path != "/" && p.Match(sluice.Path(path)) {
			set[i/64] |= 1 << (i % 64)
		}
	}
	return set
}

// compare returns whether all of b is in a, and whether something is in both.
func compare(a, b []uint64) (bool, bool) {
	within, common := true, false
	for i := range a {
		within = within && b[i]&^a[i] == 0
		common = common || b[i]&a[i] != 0
	}
	return within, common
}

// Every pattern of up to three segments against every other, with every path of up to five: "z"
// stands in no pattern. Shorter patterns than the paths are told apart by them.
func TestCovers_AgreesWithEveryShortPath(t *testing.T) {
	t.Parallel()
	paths := every([]string{"a", "b", "", "_sys", "$", "z"}, 5)
	globs := every([]string{"a", "b", "", "_sys", "*", "**"}, 3)
	globs = slices.DeleteFunc(globs, func(g string) bool { return g == "/" })
	sets := make([][]uint64, len(globs))
	for i, glob := range globs {
		sets[i] = pathSet(sluice.Pattern(glob), paths)
	}
	for i, p := range globs {
		for j, q := range globs {
			within, common := compare(sets[i], sets[j])
			if p, q := sluice.Pattern(p), sluice.Pattern(q); within != p.Covers(q) || common != p.Overlaps(q) {
				t.Fatalf("%s covers %s: want %t; overlaps: want %t", p, q, within, common)
			}
		}
	}
}

func TestCovers_AgreesWithPathsForLongerPatterns(t *testing.T) {
	t.Parallel()
	paths := every([]string{"a", "b", "_sys", "z"}, 7)
	glob := rapid.SampledFrom([]string{"a", "a", "b", "_sys", "*", "*", "**", "**"})
	covers, overlaps := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := sluice.Pattern(joined(rapid.SliceOfN(glob, 1, 4).Draw(t, "p")))
		q := sluice.Pattern(joined(rapid.SliceOfN(glob, 1, 4).Draw(t, "q")))
		within, common := compare(pathSet(p, paths), pathSet(q, paths))
		require.Equal(t, within, p.Covers(q), "%s covers %s", p, q)
		require.Equal(t, common, p.Overlaps(q), "%s overlaps %s", p, q)
		if within {
			covers++
		}
		if common {
			overlaps++
		}
	})
	require.NotZero(t, covers)
	require.NotZero(t, overlaps)
}

// instance replaces wildcards of the pattern by segments of the path, as many as they stand for.
func instance(p sluice.Pattern, fill []string) string {
	var segs []string
	next := func() string {
		if len(fill) == 0 {
			return "z"
		}
		s := fill[0]
		fill = fill[1:]
		return s
	}
	for _, seg := range p.Segments() {
		switch seg {
		case "*":
			segs = append(segs, next())
		case "**":
			for n := len(next()) % 4; n > 0; n-- {
				segs = append(segs, next())
			}
		default:
			segs = append(segs, seg)
		}
	}
	return joined(segs)
}

func FuzzCovers(f *testing.F) {
	for _, s := range [][3]string{
		{"/a/**", "/a/*/b", "/a/x/b"},
		{"/**", "/_sys/**", "/_sys/x"},
		{"/**/a/*/*/*/*", "/**/a/*/a/*/*/*/*", "/a/b/a/a/b/a/b/a"},
		{"/**/", "/*/**/", "//"},
		{"/%2A/b", "/a/%2a%2A", "/a/b"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, rawP, rawQ, rawPath string) {
		p, errP := sluice.ParsePattern(rawP)
		q, errQ := sluice.ParsePattern(rawQ)
		path, err := sluice.ParsePath(rawPath)
		if errP != nil || errQ != nil || err != nil {
			return
		}
		covers, overlaps := p.Covers(q), p.Overlaps(q)
		require.True(t, p.Covers(p))
		require.True(t, p.Overlaps(p))
		require.Equal(t, overlaps, q.Overlaps(p))
		require.Equal(t, !sluice.Path(p).Reserved(), sluice.Pattern("/**").Covers(p), "%s", p)
		for _, try := range []sluice.Path{path, sluice.Path(instance(q, path.Segments())), sluice.Path(instance(p, path.Segments()))} {
			require.Equal(t, splitMatch(p, try), p.Match(try), "%s %s", p, try)
			if try == "/" {
				continue
			}
			inP, inQ := p.Match(try), q.Match(try)
			require.False(t, covers && inQ && !inP, "%s covers %s, but not %s", p, q, try)
			require.False(t, inP && inQ && !overlaps, "%s is matched by %s and by %s", try, p, q)
			require.Equal(t, inP, p.Covers(sluice.Pattern(try)), "a path is a pattern without wildcards")
			require.Equal(t, inP, p.Overlaps(sluice.Pattern(try)))
		}
	})
}

// The worst that 32 segments can be made to need: what comes after "**" may be anywhere.
func hard() [][2]sluice.Pattern {
	var all [][2]sluice.Pattern
	for _, s := range [][2]string{
		{"/**/a" + strings.Repeat("/*", 30), "/**/a" + strings.Repeat("/*", 30)},
		{"/**/a" + strings.Repeat("/*", 30), "/**/a/**/a" + strings.Repeat("/*", 28)},
		{"/**/a" + strings.Repeat("/*", 15) + "/a" + strings.Repeat("/*", 14), strings.Repeat("/a/**", 15)},
		{strings.Repeat("/**/a", 16), strings.Repeat("/**/a", 16)},
		{strings.Repeat("/**/a/*", 10), strings.Repeat("/**/a", 16)},
		{strings.Repeat("/**/*/a/*", 8), strings.Repeat("/a/**/a/*", 8)},
		{"/**/a" + strings.Repeat("/*/a/*/*", 7) + "/**", strings.Repeat("/**/a/a/*", 7) + "/**"},
		{"/**/a" + strings.Repeat("/*", 29) + "/**", "/a/b/*/**/a/a/**/a/**/a/a/**/a/**/*/a/**/a/**/a/a/**/a/a/b/a/*/*/*/*"},
		{"/**/a/*/*/*/*/*/*/*/*/a/**", strings.Repeat("/**/a", 14) + "/*/*/*"},
	} {
		all = append(all, [2]sluice.Pattern{sluice.Pattern(s[0]), sluice.Pattern(s[1])})
	}
	return all
}

func TestCovers_IsReflexiveForHardPatterns(t *testing.T) {
	t.Parallel()
	for _, pair := range hard() {
		for _, p := range pair {
			require.True(t, p.Covers(p), "%s", p)
			require.True(t, p.Overlaps(p), "%s", p)
		}
	}
}

func TestMatch_AllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	for _, p := range []sluice.Pattern{"/orders/eu/17", "/orders/*/17", "/**", "/**/17", "/a/**/b"} {
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Match("/orders/eu/17") }), "%s", p)
	}
}

func BenchmarkPatternMatch(b *testing.B) {
	for _, c := range []struct {
		pattern sluice.Pattern
		path    sluice.Path
	}{
		{"/orders/eu/17", "/orders/eu/17"},
		{"/orders/*/17", "/orders/eu/17"},
		{"/orders/**", "/orders/eu/17"},
		{"/**/a/**/b/**/c/**/d", sluice.Path(strings.Repeat("/a/b/c", 10))},
	} {
		b.Run(string(c.pattern[1:]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.pattern.Match(c.path)
			}
		})
	}
}

func BenchmarkPatternCovers(b *testing.B) {
	b.Run("usual", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sluice.Pattern("/orders/**").Covers("/orders/*/items/**")
		}
	})
	for i, pair := range hard() {
		b.Run("hard "+strconv.Itoa(i), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pair[0].Covers(pair[1])
			}
		})
	}
}
