package filter_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Filters that share the parsed event answer as each would alone: in any order, at once, and after the parsed event was released.
func TestParsed_SharingChangesNoAnswer(t *testing.T) {
	t.Parallel()
	filters := []sluice.Filter{
		{CEL: "event.data.n > 3"},
		{CEL: "event.data.list.exists(x, x == 2)"},
		{CEL: "event.data == 7"},
		{CEL: "1 / event.data.zero > 0"},
		{CEL: "event.type == 't'"},
		label("region", "eu"), label("n", "4"), label("none", "x"),
	}
	for _, data := range []string{`{"n":4,"region":"eu","zero":0,"list":[1,2]}`, `{"n":1,"region":"us","list":[]}`, `7`, `[1]`, `no JSON`, ``} {
		e := order()
		e.Data = []byte(data)
		var p filter.Parsed
		var all sync.WaitGroup
		for range 3 {
			for _, f := range filters {
				m, err := filter.Compile(f)
				require.NoError(t, err)
				wanted, failure := m.Match(e)
				all.Go(func() {
					got, err := m.MatchParsed(e, &p)
					require.Equal(t, wanted, got, "%v of %s", f, data)
					require.Equal(t, failure, err)
				})
			}
		}
		all.Wait()
		runtime.GC()
		m, err := filter.Compile(filters[0])
		require.NoError(t, err)
		wanted, _ := m.Match(e)
		got, err := m.MatchParsed(e, &p)
		require.NoError(t, err)
		require.Equal(t, wanted, got)
	}
}

// An event's data is read once by all filters that look at it one after the other, and is not held in memory for that.
func TestParsed_IsSharedBetweenFilters(t *testing.T) { //nolint:paralleltest // it counts allocations
	e := order()
	e.Data = []byte(`{"list":[` + strings.Repeat(`"xxxxxxxxxxxxxxxx",`, 1000) + `1]}`)
	m, err := filter.Compile(sluice.Filter{CEL: "has(event.data.list)"})
	require.NoError(t, err)
	alone := testing.AllocsPerRun(20, func() { _, _ = m.Match(e) })
	require.Greater(t, alone, 1000.0)
	var p filter.Parsed
	shared := testing.AllocsPerRun(200, func() { _, _ = m.MatchParsed(e, &p) })
	require.Less(t, shared, alone/10)
}

// The same expression over the same event, by 25 readers.
func BenchmarkParsed(b *testing.B) {
	e := order()
	e.Data = []byte(`{"rare":false,"pad":"` + strings.Repeat("x", 300) + `"}`)
	m, err := filter.Compile(sluice.Filter{CEL: "event.data.rare"})
	require.NoError(b, err)
	for name, p := range map[string]func() *filter.Parsed{"shared": func() *filter.Parsed { return new(filter.Parsed) }, "each alone": func() *filter.Parsed { return nil }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p := p()
				for range 25 {
					_, _ = m.MatchParsed(e, p)
				}
			}
		})
	}
}
