package streams_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// matched returns how many of the filters let the path through, as the server decides it.
func matched(filters []streams.Filter, path sluice.Path) int {
	n := 0
	for _, f := range filters {
		if server.SubjectMatchesFilter(streams.Names{}.Subject("ns", path), f.Subject) {
			n++
		}
	}
	return n
}

func exact(filters []streams.Filter) bool {
	for _, f := range filters {
		if !f.Exact {
			return false
		}
	}
	return true
}

func checkFilters(t require.TestingT, pattern sluice.Pattern, path sluice.Path) {
	filters := streams.Names{}.Filters("ns", pattern)
	n, want := matched(filters, path), pattern.Match(path)
	require.LessOrEqual(t, n, 1, "%s reaches two consumers of %s", path, pattern)
	if exact(filters) {
		require.Equal(t, want, n == 1, "%s and %s: %v", pattern, path, filters)
	}
	superset := streams.Names{}.Superset("ns", pattern)
	covered := matched([]streams.Filter{superset}, path) == 1
	if want {
		require.Equal(t, 1, n, "%s loses %s: %v", pattern, path, filters)
		require.True(t, covered, "%s of %s loses %s", superset.Subject, pattern, path)
	}
	if superset.Exact {
		require.Equal(t, want, covered)
	}
}

func TestFilterSubjects_AgreeWithPatterns(t *testing.T) {
	t.Parallel()
	literal := rapid.SampledFrom([]string{"a", "b", "", "a.b", ">", "_root", "_sys", "$x"})
	segment := rapid.OneOf(literal, rapid.SampledFrom([]string{"*", "**"}))
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := "/" + strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(t, "pattern"), "/")
		path := sluice.Path("/" + strings.Join(rapid.SliceOfN(literal, 1, 5).Draw(t, "path"), "/"))
		pattern, err := sluice.ParsePattern(raw)
		if err != nil || path == "/" {
			t.Skip("/ is neither")
		}
		checkFilters(t, pattern, path)
		checkFilters(t, sluice.Pattern(raw), path) // not canonical: the same
		if pattern.Match(path) {
			hits++
		}
	})
	require.NotZero(t, hits)
}

func TestFilterSubjects_KnownPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern  sluice.Pattern
		want     []streams.Filter
		superset streams.Filter
	}{
		{"/a/b", []streams.Filter{{"events.ns.a.b", true}}, streams.Filter{Subject: "events.ns.a.b", Exact: true}},
		{"/a/*/inbox", []streams.Filter{{"events.ns.a.*.inbox", true}}, streams.Filter{Subject: "events.ns.a.*.inbox", Exact: true}},
		{"/**", []streams.Filter{{"events.ns.>", false}}, streams.Filter{Subject: "events.ns.>"}},
		{"/*", []streams.Filter{{"events.ns.*", false}}, streams.Filter{Subject: "events.ns.*"}},
		{"/_sys/**", []streams.Filter{{"events.ns._sys.>", true}, {"events.ns._sys", true}}, streams.Filter{Subject: "events.ns.>"}},
		{"/a/**", []streams.Filter{{"events.ns.a.>", true}, {"events.ns.a", true}}, streams.Filter{Subject: "events.ns.>"}},
		{"/a/b/**", []streams.Filter{{"events.ns.a.b.>", true}, {"events.ns.a.b", true}}, streams.Filter{Subject: "events.ns.a.>"}},
		{"/*/a/**", []streams.Filter{{"events.ns.*.a.>", false}, {"events.ns.*.a", false}}, streams.Filter{Subject: "events.ns.*.>"}},
		{"/a/*/**", []streams.Filter{{"events.ns.a.>", true}}, streams.Filter{Subject: "events.ns.a.>", Exact: true}},
		{"/a/**/*/*", []streams.Filter{{"events.ns.a.*.>", true}}, streams.Filter{Subject: "events.ns.a.*.>", Exact: true}},
		{"/a/**/b", []streams.Filter{{"events.ns.a.>", false}}, streams.Filter{Subject: "events.ns.a.>"}},
		{"/**/b", []streams.Filter{{"events.ns.>", false}}, streams.Filter{Subject: "events.ns.>"}},
		{"/v1.2/**", []streams.Filter{{"events.ns.v1=2E2.>", true}, {"events.ns.v1=2E2", true}}, streams.Filter{Subject: "events.ns.>"}},
	} {
		require.Equal(t, c.want, streams.Names{}.Filters("ns", c.pattern), c.pattern)
		require.Equal(t, c.superset, streams.Names{}.Superset("ns", c.pattern), c.pattern)
	}
}

// check asserts what pattern and filters say about the paths.
func check(t *testing.T, raw string, yes, no []sluice.Path) {
	t.Helper()
	pattern, err := sluice.ParsePattern(raw)
	require.NoError(t, err)
	for _, path := range yes {
		require.True(t, pattern.Match(path), "%s should match %s", raw, path)
		checkFilters(t, pattern, path)
	}
	for _, path := range no {
		require.False(t, pattern.Match(path), "%s should not match %s", raw, path)
		checkFilters(t, pattern, path)
	}
}

// S1-21.
func TestStar_IsExactlyOneSegment(t *testing.T) {
	t.Parallel()
	check(t, "/agents/*", []sluice.Path{"/agents/foo", "/agents/"}, []sluice.Path{"/agents", "/agents/foo/bar", "/agent/foo"})
}

// S1-22.
func TestTwoStars_AreZeroOrMoreSegments(t *testing.T) {
	t.Parallel()
	check(t, "/agents/**", []sluice.Path{"/agents", "/agents/a", "/agents/a/b/c"}, []sluice.Path{"/agentsx", "/x/agents"})
	check(t, "/a/**/b", []sluice.Path{"/a/b", "/a/x/b", "/a/x/y/b", "/a/b/b"}, []sluice.Path{"/a", "/a/x", "/b", "/a/b/c"})
	check(t, "/**", []sluice.Path{"/a", "/a/b"}, nil)
}

// S1-22.
func TestTwoStars_RepeatedAreOne(t *testing.T) {
	t.Parallel()
	check(t, "/a/**/**", []sluice.Path{"/a", "/a/b"}, []sluice.Path{"/b"})
	require.Len(t, streams.Names{}.Filters("ns", "/a/**/**"), 2)
}

// S1-23.
func TestStar_MatchesInTheMiddle(t *testing.T) {
	t.Parallel()
	check(t, "/agents/*/inbox", []sluice.Path{"/agents/a/inbox"}, []sluice.Path{"/agents/inbox", "/agents/a/b/inbox", "/agents/a/outbox"})
}

// S1-24.
func TestLiteral_MatchesExactly(t *testing.T) {
	t.Parallel()
	check(t, "/v1.2/a b", []sluice.Path{"/v1.2/a b"}, []sluice.Path{"/v1/2/a b", "/v1=2E2/a=20b", "/V1.2/a b"})
	check(t, "/>", []sluice.Path{"/>"}, []sluice.Path{"/a"})
}

// S1-25.
func TestStar_EscapedOneIsAStarInPatterns(t *testing.T) {
	t.Parallel()
	check(t, "/agents/%2A", []sluice.Path{"/agents/a"}, []sluice.Path{"/agents"})
	check(t, "/agents/%2a%2A", []sluice.Path{"/agents", "/agents/a/b"}, nil)
}

// S1-26.
func TestPath_HoldsNoStar(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"/*", "/a/*", "/a*b", "/**"} {
		_, err := sluice.ParsePath(s)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), s)
	}
	_, err := sluice.ParsePattern("/a*b")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"/a", "/a/*", "/a/**", "/a/**/**/b", "/%2A", "/a*", "//", "/é/ /.>="} {
		f.Add(s, "/a/b")
	}
	f.Fuzz(func(t *testing.T, raw, rawPath string) {
		pattern, err := sluice.ParsePattern(raw)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			return
		}
		again, err := sluice.ParsePattern(string(pattern))
		require.NoError(t, err)
		require.Equal(t, pattern, again)
		path, err := sluice.ParsePath(rawPath)
		if err == nil {
			checkFilters(t, pattern, path)
		}
	})
}
