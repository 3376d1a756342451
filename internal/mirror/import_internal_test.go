package mirror

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// contentOf returns the content of documentOf.
func contentOf(t *testing.T, entries, lost int) *bundle.Content {
	t.Helper()
	doc, trust := documentOf(t, entries, lost)
	c, err := doc.Verify(t.Context(), trust)
	require.NoError(t, err)
	return c
}

// documentOf returns a bundle behind sequence 100 with a number of entries, two sequences apart, every other one
// with a label, and with ranges that are lost behind them; and who is trusted.
func documentOf(t *testing.T, entries, lost int) (*bundle.Document, bundle.Trust) {
	t.Helper()
	w, err := bundle.NewDocumentWriter("entries", 100)
	require.NoError(t, err)
	seq := uint64(100)
	for i := range entries {
		seq += 2
		ev := sluice.Event{Seq: seq, ID: fmt.Sprint("id-", seq), Path: "/a", Data: []byte(`1`)}
		if i%2 == 0 {
			ev.Extensions = map[string]string{sluice.AttributeClassification: "SECRET"}
		}
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.ChangeOf(ev)}))
	}
	h := bundle.Header{SourceID: "s", Incarnation: "origin", Since: 100, First: 1, ExportedAt: time.Now()}
	for range lost {
		h.Lost = append(h.Lost, sluice.Gap{From: seq + 2, To: seq + 3})
		seq += 4
	}
	h.Through = seq + 1
	seed := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	text, h, err := w.Seal(h, seed)
	require.NoError(t, err)
	trust, err := bundle.Trust{}.Add(bundle.NewJWK(seed.Public().(ed25519.PublicKey)), h.SourceID, time.Now())
	require.NoError(t, err)
	doc, err := bundle.ReadDocument(bytes.NewReader(text))
	require.NoError(t, err)
	return doc, trust
}

// steps applies a bundle to a mirror at a watermark, page by page, and returns how many entries were taken, and how many
// sequences are in gaps. Each page has to fit into an atomic step, and the last one to end with the bundle.
func steps(t *testing.T, c *bundle.Content, watermark uint64) (taken int, missing uint64) {
	t.Helper()
	held, ended := Held{Place: Place{Watermark: watermark}, Entries: map[string]Entry{}}, false
	r := Rule{Mirror: &sluice.Mirror{Source: "s", Namespace: "high", Depth: sluice.DepthFull}, Own: "own", Label: sluice.Label{Level: sluice.LevelInternal}}
	for page, err := range pagesOf(t.Context(), c, max(watermark, c.Header.Since), 0) {
		require.NoError(t, err)
		require.False(t, ended)
		commit, err := r.nextOfBundle(held, page, c.Header.Since, time.Now())
		require.NoError(t, err)
		require.Less(t, len(commit.Entries)+len(commit.Gaps), 1000, "JetStream's limit")
		for _, gap := range commit.Gaps {
			if gap.Cause != sluice.GapLabel {
				missing += gap.To - gap.From + 1
			}
		}
		held.Place, taken, ended = commit.Place, taken+len(page.Items), !page.HasMore
	}
	require.True(t, ended)
	require.Equal(t, c.Header.Through, held.Place.Watermark)
	return taken, missing
}

// S3-72, S3-73: the pages of a bundle follow one another, each fits into an atomic step, and together they
// have all entries and all ranges that are lost, even if the mirror begins before the bundle or within it.
func TestPagesOf_AreTheBundleInSteps(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{0, 0}, {1, 0}, {3000, 0}, {0, 230}, {1000, 120}, {450, 50}, {0, maxLost + 100}} {
		c := contentOf(t, size[0], size[1])
		for _, watermark := range []uint64{0, 100, 101, c.Header.Through - 1} {
			after := max(watermark, c.Header.Since)
			wanted, lost := 0, after-watermark
			for e, err := range c.Entries(t.Context(), after) {
				require.NoError(t, err)
				require.Greater(t, e.Event.Seq, after)
				wanted++
			}
			for _, gap := range c.Header.Lost {
				if gap.To > after {
					lost += gap.To - max(gap.From, after+1) + 1
				}
			}
			taken, missing := steps(t, c, watermark)
			require.Equal(t, []any{wanted, lost}, []any{taken, missing}, "%v from %d", size, watermark)
		}
	}
}

// The last imports are remembered, oldest first, and no later time is forgotten for an earlier one.
// A page of a bundle with large entries ends behind 16 MiB of data.
func TestPagesOf_AreBoundedInBytes(t *testing.T) {
	t.Parallel()
	p := pager{header: &bundle.Header{Through: 100}}
	var pages []int
	yield := func(page *sluice.ObservePage, _ error) bool {
		pages = append(pages, len(page.Items))
		return true
	}
	for seq := range uint64(40) {
		require.True(t, p.before(seq+1, yield))
		p.add(&sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: seq + 1, Data: make([]byte, 1<<20)}})
	}
	require.Equal(t, []int{16, 16}, pages)
	require.Len(t, p.items, 8)
}

func TestAhead_YieldsAllInOrder(t *testing.T) {
	t.Parallel()
	failure := errors.New("e")
	upTo := func(n int, ended chan struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer close(ended)
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			yield(n, failure)
		}
	}
	ended, stops, got := make(chan struct{}), 0, []int{}
	for i, err := range ahead(upTo(5, ended), func() { stops++ }) {
		require.Equal(t, i == 5, errors.Is(err, failure))
		got = append(got, i)
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, got)
	ended = make(chan struct{})
	for i, err := range ahead(upTo(1<<20, ended), func() { stops++ }) {
		if require.NoError(t, err); i == 3 {
			break
		}
	}
	select {
	case <-ended:
	default:
		require.Fail(t, "the reader goes on after the end")
	}
	require.Equal(t, 2, stops)
}

func TestPlace_RemembersTheLastImports(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var p Place
	for i := range maxImports + 5 {
		before := p
		p.heard(bundle.Import{Digest: strconv.Itoa(i)}, noon.Add(-time.Duration(i)*time.Hour))
		require.Len(t, before.Imports, min(i, maxImports), "a copy of a place is its own")
	}
	require.Len(t, p.Imports, maxImports)
	require.True(t, slices.IsSortedFunc(p.Imports, func(a, b bundle.Import) int { return len(a.Digest) - len(b.Digest) }))
	require.Equal(t, []any{"5", noon}, []any{p.Imports[0].Digest, p.HeardAt})
	p.heard(bundle.Import{}, noon.Add(time.Hour))
	require.Len(t, p.Imports, maxImports, "a heartbeat is no import")
	require.Equal(t, noon.Add(time.Hour), p.HeardAt)
}

// copies holds a place in memory, and fails from a number of steps on.
type copies struct {
	Copies

	place   Place
	entries int
	steps   int
}

func (c *copies) Hold(context.Context, string, []string) (Held, error) {
	return Held{Place: c.place, Entries: map[string]Entry{}}, nil
}

func (c *copies) Commit(_ context.Context, _ string, is Commit) (uint64, error) {
	if c.steps--; c.steps < 0 {
		return 0, sluice.Errorf(sluice.Unavailable, "NATS is away")
	}
	c.place, c.entries = is.Place, c.entries+len(is.Entries)
	c.place.Revision++
	return c.place.Revision, nil
}

func (*copies) MaxEntry() int { return 0 }

// permitted has a label for every namespace, and permits everything.
type permitted struct{ labels }

func (permitted) Holds(*sluice.Mirror) model.Decision { return model.Pass }

func (permitted) Incarnation(context.Context, string) (string, error) { return "own", nil }

// S3-73: an import that was interrupted goes on with the same bundle; the next bundle finds a gap until then.
func TestTake_GoesOnAfterAnInterruption(t *testing.T) {
	t.Parallel()
	doc, trust := documentOf(t, 3000, 0)
	h := &doc.Header
	at := &copies{place: Place{Incarnation: h.Incarnation, Watermark: h.Since}, steps: 2}
	may := permitted{labels{label: sluice.Label{Level: sluice.LevelSecret}}}
	e := New(Deps{Copies: at, Gate: may, Namespaces: may}, Options{})
	r := Rule{Mirror: &sluice.Mirror{ID: "m", Source: h.SourceID, Namespace: "high", Depth: sluice.DepthFull}, Own: "own", Label: sluice.Label{Level: sluice.LevelSecret}}
	judge := func() bundle.Decision {
		return bundle.Judge(bundle.Known{
			Source: h.SourceID, Depth: sluice.DepthFull, Incarnation: h.Incarnation, Trust: trust,
			Watermark: at.place.Watermark, Imports: at.place.Imports, HeardAt: at.place.HeardAt,
		}, &doc.Signed)
	}
	c, err := doc.Verify(t.Context(), trust)
	require.NoError(t, err)
	d := judge()
	_, _, err = e.take(t.Context(), r, at.place, c, d.Import)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.Empty(t, at.place.Imports)
	require.Less(t, at.place.Watermark, h.Through)
	require.Equal(t, uint64(at.entries), (at.place.Watermark-h.Since)/2)

	at.steps = 100
	d = judge()
	require.Equal(t, bundle.Apply, d.Outcome)
	_, applied, err := e.take(t.Context(), r, at.place, c, d.Import)
	require.NoError(t, err)
	require.Equal(t, []any{3000, h.Through, 1}, []any{at.entries, at.place.Watermark, len(at.place.Imports)})
	require.Less(t, applied, 3000)
	d = judge()
	require.Equal(t, bundle.Imported, d.Outcome)
}
