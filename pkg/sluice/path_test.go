package sluice_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPath_AcceptsValidOnes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"/a", "//", "/a/", "/a//b", "/v1.2/a b", "/é/=/>", "/" + strings.Repeat("a", 511), strings.Repeat("/a", 32), "/.a/b./...", "/%2e%2e%2e/%2F"} {
		p, err := sluice.ParsePath(s)
		require.NoError(t, err, s)
		require.Equal(t, s, "/"+strings.Join(p.Segments(), "/"))
	}
}

func TestPath_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "/", "a", "a/b", "/a\x00", "/a\nb", "/\x7f", "/\xff", "/*", "/a/b*", "/.", "/..", "/a/../b", "/a/./b", "/a/..", "/%2e", "/a/%2E.", "/.%2e/a", "/" + strings.Repeat("a", 512), strings.Repeat("/a", 33)} {
		_, err := sluice.ParsePath(s)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), s)
		require.Less(t, len(err.Error()), 2000)
	}
	_, err := sluice.ParsePath(strings.Repeat("a", 1<<20))
	require.Less(t, len(err.Error()), 100) // what is too long is not repeated
}

// What an earlier release took as a path stays one for those who read it.
func TestStoredPath_TakesDots(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"/a/../b", "/.", "/a"} {
		p, err := sluice.StoredPath(s)
		require.NoError(t, err)
		require.Equal(t, s != "/a", p.Dotted())
	}
	for _, s := range []string{"/a*", "a", "/"} {
		_, err := sluice.StoredPath(s)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), s)
	}
	var o sluice.Object
	require.NoError(t, o.UnmarshalText([]byte("path:acme/a/../b")), "a grant that there is can be read")
}

func TestPath_ReservedOnesAreTheServers(t *testing.T) {
	t.Parallel()
	for path, want := range map[sluice.Path]bool{"/_sys": true, "/_system/x": true, "/$KV/a": true, "/a/_sys": false, "/_x": false} {
		require.Equal(t, want, path.Reserved(), path)
	}
}

// S1-25, S1-26.
func TestPattern_HasOneForm(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]sluice.Pattern{
		"/a/*": "/a/*", "/a/**": "/a/**", "/**/**": "/**", "/a/**/**/**/b/**/**": "/a/**/b/**", "/%2A/%2a%2A": "/*/**", "/**/*/**": "/**/*/**", "/a//": "/a//",
	} {
		got, err := sluice.ParsePattern(give)
		require.NoError(t, err, give)
		require.Equal(t, want, got)
	}
	for _, give := range []string{"", "/", "a/*", "/a*", "/***", "/**a", "/a/%2Ab", "/\n*", "/a/../*", "/./**"} {
		_, err := sluice.ParsePattern(give)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), give)
	}
}

// means is what a pattern means: matches, and decision 0007.
func means(glob, segs []string) bool {
	wild, reserved := strings.HasPrefix(glob[0], "*"), strings.HasPrefix(segs[0], "_sys") || strings.HasPrefix(segs[0], "$")
	return (!wild || !reserved) && matches(glob, segs)
}

// matches is what the segments of a pattern mean, as S1-21 and S1-22 say it.
func matches(glob, segs []string) bool {
	switch {
	case len(glob) == 0:
		return len(segs) == 0
	case glob[0] == "**":
		return matches(glob[1:], segs) || len(segs) > 0 && matches(glob, segs[1:])
	case len(segs) == 0:
		return false
	}
	return (glob[0] == "*" || glob[0] == segs[0]) && matches(glob[1:], segs[1:])
}

func TestPattern_MatchesByItsMeaning(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "b", "", "_sys", "$x"})
	glob := rapid.SampledFrom([]string{"a", "b", "", "_sys", "$x", "*", "**"})
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SliceOfN(glob, 1, 6).Draw(t, "pattern")
		s := rapid.SliceOfN(segment, 1, 7).Draw(t, "path")
		pattern, path := sluice.Pattern("/"+strings.Join(g, "/")), sluice.Path("/"+strings.Join(s, "/"))
		require.Equal(t, means(g, s), pattern.Match(path), "%s %s", pattern, path)
		if canonical, err := sluice.ParsePattern(string(pattern)); err == nil {
			require.Equal(t, means(g, s), canonical.Match(path), "%s %s", canonical, path)
		}
	})
}

// S2-06, decision 0007: what the server says of itself goes only to who asked for that.
func TestPattern_LeadingWildcardMatchesNoServerPath(t *testing.T) {
	t.Parallel()
	own := []sluice.Path{"/_sys", "/_sys/subscriptions/a", "/_system/x", "/$x/y"}
	for _, pattern := range []sluice.Pattern{"/**", "/*", "/*/**", "/*/subscriptions/*", "/**/a", "/**/_sys/**"} {
		for _, path := range own {
			require.False(t, pattern.Match(path), "%s %s", pattern, path)
		}
	}
	for pattern, path := range map[sluice.Pattern]sluice.Path{
		"/_sys": own[0], "/_sys/**": own[1], "/_sys/*/a": own[1], "/_system/*": own[2], "/$x/*": own[3],
		"/a/**": "/a/_sys/x", "/a/*/x": "/a/_sys/x", "/**": "/_other",
	} {
		require.True(t, pattern.Match(path), "%s %s", pattern, path)
	}
	require.False(t, sluice.Pattern("/_sys/**").Match("/_system/x"), "a literal is the whole segment")
}

func TestNamespace_NamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "0", "a-b_c", strings.Repeat("a", 63)} {
		require.NoError(t, sluice.CheckNamespaceName(name), name)
	}
	for _, name := range []string{"", "A", "a.b", "-a", "_sys", "a b", "é", "a*", strings.Repeat("a", 64)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(sluice.CheckNamespaceName(name)), name)
	}
}

func TestPattern_ErrorsNameThePattern(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"orders/*", "/", "/\x00", "/\xff", "/" + strings.Repeat("a/", 32), "/" + strings.Repeat("a", 512)} {
		_, err := sluice.ParsePattern(wrong)
		require.ErrorContains(t, err, "pattern ")
		require.NotContains(t, err.Error(), "path ")
	}
}
