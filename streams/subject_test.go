package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// paths draws valid paths: UTF-8, empty segments, dots, ">", "=", spaces.
func paths() *rapid.Generator[sluice.Path] {
	odd := rapid.SampledFrom([]string{"", ".", ">", "=", " ", "=2E", "=2e", "==", "a.b", "$KV", "_root", "é", "日本", "\u2028", "%2A", "Aa0_-"})
	segment := rapid.OneOf(odd, rapid.StringOfN(rapid.Rune(), 0, 12, -1), rapid.StringMatching(`[a-z0-9-]{1,8}`))
	return rapid.Custom(func(t *rapid.T) sluice.Path {
		return sluice.Path("/" + strings.Join(rapid.SliceOfN(segment, 1, 12).Draw(t, "segments"), "/"))
	}).Filter(func(p sluice.Path) bool {
		_, err := sluice.ParsePath(string(p))
		return err == nil
	})
}

func TestSubject_RoundTripsEveryPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		path := paths().Draw(t, "path")
		ns := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,62}`).Draw(t, "namespace")
		subject := streams.Names{}.Subject(ns, path)
		require.NotContains(t, subject, "*")
		require.NotContains(t, subject, ">")
		require.False(t, strings.ContainsAny(subject, " \t\r\n\f"))
		gotNS, got, err := streams.Names{}.ParseSubject(subject)
		require.NoError(t, err)
		require.Equal(t, ns, gotNS)
		require.Equal(t, path, got)
	})
}

func TestSubject_ParsedOneIsItsPathsOnly(t *testing.T) {
	t.Parallel()
	token := rapid.OneOf(rapid.SampledFrom([]string{"", "=", "=2E", "=2e", "=41", "=3D", "==", "=2", "=2E=", "=00", "=C3=A9", "é", "\xff", " ", "*", ">", "a b"}),
		rapid.StringMatching(`[a-z0-9=A-F]{1,6}`), rapid.String())
	parsed := 0
	rapid.Check(t, func(t *rapid.T) {
		subject := "events.ns." + strings.Join(rapid.SliceOfN(token, 1, 4).Draw(t, "tokens"), ".")
		if ns, path, err := (streams.Names{}).ParseSubject(subject); err == nil {
			require.Equal(t, subject, streams.Names{}.Subject(ns, path))
			parsed++
		}
	})
	require.NotZero(t, parsed)
}

func TestSubject_KnownOnesAreReadable(t *testing.T) {
	t.Parallel()
	for path, want := range map[sluice.Path]string{
		"/agents/task-1": "events.acme.agents.task-1",
		"/v1.2/a b":      "events.acme.v1=2E2.a=20b",
		"/a//b":          "events.acme.a.=.b",
		"/a/":            "events.acme.a.=",
		"/>":             "events.acme.=3E",
		"/x=y":           "events.acme.x=3Dy",
		"/straße":        "events.acme.straße",
	} {
		require.Equal(t, want, streams.Names{}.Subject("acme", path), path)
	}
}

func TestSubject_RefusesThoseWithoutEvents(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{
		"", "events", "events.", "events.ns", "events.ns.", "events..a", "events.NS.a", "events.ns.a..b", "events.ns.=2e", "events.ns.=61",
		"events.ns.=2", "events.ns.a=", "events.ns.==", "events.ns.a b", "events.ns.*", "events.ns.>", "events.ns.\xff", "events.ns.=2A", "events.ns.=0A",
		"events.ns.a=2F", "orders.ns.a", "events.ns." + strings.Repeat("a.", 32) + "a", "events.ns." + strings.Repeat("a", 512),
	} {
		_, _, err := streams.Names{}.ParseSubject(subject)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%q", subject)
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{"events.default.a", "events.default.a=2Eb.=.c", "events.default.=2e", "events.d.é", "attempts.d.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		ns, path, err := streams.Names{}.ParseSubject(subject)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			return
		}
		require.Equal(t, subject, streams.Names{}.Subject(ns, path))
		_, err = sluice.ParsePath(string(path))
		require.NoError(t, err)
	})
}

// Every path has a subject and a lane of its own, and comes back from the subject.
func FuzzParsePath(f *testing.F) {
	for _, s := range [][2]string{{"/a/b", "/a.b"}, {"//", "/a/"}, {"/=2E", "/."}, {"/é/ />", "/_sys/x"}, {"/a=", "/a%2A"}, {"/$KV.a", "/"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, raw, rawOther string) {
		path, err := sluice.ParsePath(raw)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			require.Empty(t, path)
			return
		}
		require.Equal(t, raw, string(path))
		require.Equal(t, raw, "/"+strings.Join(path.Segments(), "/"))
		subject := streams.Names{}.Subject("ns", path)
		require.False(t, strings.ContainsAny(subject, "*> \t\r\n\f"), "%q", subject)
		ns, back, err := streams.Names{}.ParseSubject(subject)
		require.NoError(t, err)
		require.Equal(t, "ns", ns)
		require.Equal(t, path, back)
		lane := streams.LaneKey("sub", sluice.OrderByPath, path, 1)
		require.False(t, streams.IsEventLane("sub", lane), lane)
		if other, err := sluice.ParsePath(rawOther); err == nil && other != path {
			require.NotEqual(t, subject, streams.Names{}.Subject("ns", other))
			require.NotEqual(t, lane, streams.LaneKey("sub", sluice.OrderByPath, other, 1))
		}
	})
}

func BenchmarkParseSubject(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (streams.Names{}).ParseSubject("events.default.orders.eu.order-17"); err != nil {
			b.Fatal(err)
		}
	}
}
