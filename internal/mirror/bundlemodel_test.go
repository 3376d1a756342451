package mirror_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// bundleFault is a mistake that is planted into the imports of bundles. All of its members may be nil.
type bundleFault struct {
	known  func(k *bundle.Known)
	commit func(c *mirror.Commit, more bool)
}

// brought is a bundle that has come to the importer.
type brought struct {
	text   []byte
	header bundle.Header
	forged bool // another key signed it, or it was changed
}

// imports is a mirror that gets bundles of a site, in a model test.
type imports struct {
	*copyist

	site     *site
	fault    bundleFault
	key      ed25519.PrivateKey
	thief    ed25519.PrivateKey // a key of another
	trust    bundle.Trust
	shelf    []brought
	since    uint64 // where the next export begins
	previous string
	now      time.Time
	applied  int
	imported []bundle.Import // that were applied whole
}

// export writes the next bundle. A thief writes one with other content.
func (b *imports) export(key ed25519.PrivateKey) error {
	p := b.site.page(b.since, 1000)
	if p.LastSeq < max(b.since, 1) {
		return nil
	}
	h := bundle.Header{
		SourceID: siteURL + "low", Since: b.since, Through: p.ThroughSeq, First: max(p.FirstSeq, 1), Previous: b.previous, Incarnation: p.Incarnation, Label: p.Label, ExportedAt: b.now,
	}
	w, err := bundle.NewDocumentWriter(sluice.DepthFull.Scope(), b.since)
	for i := 0; i < len(p.Items) && err == nil; i++ {
		if key.Equal(b.thief) {
			p.Items[i].Event.Data = []byte(`"planted"`)
		}
		err = w.Append(bundle.Entry{Change: p.Items[i]})
	}
	if err != nil {
		return err
	}
	text, h, err := w.Seal(h, key)
	if err != nil {
		return err
	}
	b.shelf = append(b.shelf, brought{text, h, key.Equal(b.thief)})
	if !key.Equal(b.thief) && b.site.IntN(6) > 0 { // else another bundle from the same place comes: a fork, once the log has moved
		b.since = h.Through
		if h.Since < h.Through {
			b.previous, err = h.Digest()
		}
	}
	return err
}

// known is what the mirror knows.
func (b *imports) known(accept bool) bundle.Known {
	at := &b.place
	k := bundle.Known{
		Source: siteURL + "low", Depth: sluice.DepthFull, Incarnation: at.Incarnation, Watermark: at.Watermark, Imports: at.Imports, HeardAt: at.HeardAt,
		Trust: b.trust, AcceptGap: accept,
	}
	for _, g := range b.gaps {
		if g.Cause == sluice.GapBundle {
			k.Gaps = append(k.Gaps, bundle.Gap{From: g.From, To: g.To, Cause: bundle.CauseSkipped})
		}
	}
	return k
}

// bring imports a bundle; the process may end at any step.
func (b *imports) bring(is brought, accept bool) error {
	if b.site.IntN(8) == 0 {
		is.text, is.forged = bytes.Clone(is.text), true
		is.text[b.site.IntN(len(is.text))] ^= 1 << b.site.IntN(7)
	}
	doc, err := bundle.ReadDocument(bytes.NewReader(is.text))
	if err != nil {
		if is.forged {
			return nil
		}
		return err
	}
	k := b.known(accept)
	wants := k
	wants.Imports = b.imported
	if b.fault.known != nil {
		b.fault.known(&k)
	}
	d := bundle.Judge(k, &doc.Signed)
	if err := judged(&wants, &is, &d); err != nil {
		return err
	}
	if d.Outcome == bundle.OtherInstance { // it is deleted and created again
		b.place, b.entries, b.gaps = mirror.Place{Revision: b.place.Revision + 1}, map[string]mirror.Entry{}, nil
		b.shelf, b.imported, b.since, b.previous = nil, nil, 0, ""
	}
	if d.Outcome != bundle.Apply && d.Outcome != bundle.Heartbeat {
		return nil
	}
	c, err := doc.Verify(context.Background(), k.Trust)
	if err != nil {
		return err
	}
	return b.apply(c, d.Import)
}

// judged returns an error if a decision about a bundle is not the one that the mirror has to make.
func judged(k *bundle.Known, is *brought, d *bundle.Decision) error {
	h, applies := &is.header, d.Err() == nil
	n := len(k.Imports)
	switch {
	case is.forged:
		if applies {
			return errors.New("a forged bundle is applied")
		}
		return nil
	case k.Incarnation != "" && k.Incarnation != h.Incarnation:
		return nil
	case applies && h.Since > k.Watermark && !k.AcceptGap:
		return errors.New("a bundle is applied ahead of its turn")
	case applies && h.Since < h.Through && h.Through <= k.Watermark:
		return errors.New("a bundle is applied behind the watermark")
	}
	if err := repeated(k, h, d.Outcome); err != nil {
		return err
	}
	follows := h.Since == k.Watermark && h.Since < h.Through && (n == 0 || k.Imports[n-1].Through != k.Watermark || k.Imports[n-1].Digest == h.Previous)
	if clash := n > 0 && h.Previous != "" && k.Imports[n-1].Previous == h.Previous; follows && !clash && !applies {
		return fmt.Errorf("the next bundle is refused: %w", d.Err())
	}
	return nil
}

// repeated is judged for a bundle that was imported, and for one that contradicts an imported one.
func repeated(k *bundle.Known, h *bundle.Header, is bundle.Outcome) error {
	for i := range k.Imports {
		m := &k.Imports[i]
		if m.Since == h.Since && h.Since < h.Through && m.Entries != h.Entries && is != bundle.Fork {
			return fmt.Errorf("a fork from %d is %s", h.Since, is)
		}
		if m.Since == h.Since && m.Through == h.Through && m.Entries == h.Entries && m.Previous == h.Previous && is != bundle.Imported {
			return fmt.Errorf("a bundle that was imported is %s", is)
		}
	}
	return nil
}

// apply stores the content of a bundle, step by step.
func (b *imports) apply(c *bundle.Content, record bundle.Import) error {
	for page, err := range mirror.PagesOf(context.Background(), c, max(b.place.Watermark, c.Header.Since), b.place.SourceSeq) {
		if err != nil {
			return err
		}
		if stored, err := b.step(c, page, record); err != nil || !stored {
			return err
		}
	}
	return nil
}

// step stores a page of a bundle, unless it stops the mirror or the process ends.
func (b *imports) step(c *bundle.Content, page *sluice.ObservePage, record bundle.Import) (stored bool, err error) {
	commit, err := b.rule.NextOfBundle(mirror.Held{Place: b.place, Entries: maps.Clone(b.entries)}, page, c.Header.Since, b.now)
	if _, stops := errors.AsType[*mirror.Stop](err); stops {
		b.stops++
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !page.HasMore {
		commit.Place.Heard(record, c.Header.ExportedAt)
	}
	if b.fault.commit != nil {
		b.fault.commit(&commit, page.HasMore)
	}
	before := b.place.Revision
	if err := b.store(b.site, 0, commit); err != nil || b.place.Revision == before {
		return false, err
	}
	if b.applied += len(commit.Entries); !page.HasMore && record.Digest != "" {
		b.imported = append(b.imported, record)
	}
	return true, nil
}

// consistent returns an error if the place contradicts itself, or the copy its source.
func (b *imports) consistent() error {
	last := uint64(0)
	for _, i := range b.place.Imports {
		if i.Since < last || i.Through <= i.Since || i.Through > b.place.Watermark {
			return fmt.Errorf("the import from %d to %d overlaps another one, or the watermark %d", i.Since, i.Through, b.place.Watermark)
		}
		last = i.Through
	}
	if b.place.HeardAt.After(b.now) {
		return errors.New("it has heard of the future")
	}
	if b.place.Incarnation != b.site.name {
		return nil
	}
	return b.check(b.site)
}

// bundleHistory runs a random history of a source whose changes travel in bundles.
func bundleHistory(seed uint64, trust bundle.Trust, keys [2]ed25519.PrivateKey, f bundleFault) (applied int, err error) {
	random := rand.New(rand.NewPCG(seed, 23))
	b := &imports{
		copyist: &copyist{rule: rule(), entries: map[string]mirror.Entry{}}, fault: f, key: keys[0], thief: keys[1], trust: trust, now: noon,
		site: &site{world: &world{Rand: random, first: 1, erased: map[uint64]bool{}}, name: "log", events: map[uint64]sluice.Change{}, gone: map[uint64]bool{}, tags: map[uint64]string{}},
	}
	b.rule.Mirror.PathPrefix = []string{"", "/a", "/a/1"}[random.IntN(3)]
	for range 60 {
		b.now = b.now.Add(time.Minute)
		b.site.copied = nil // no log is restored: nothing in a bundle tells
		b.site.change()
		switch n := random.IntN(8); {
		case n < 2:
			err = b.export(b.key)
		case n == 2 && random.IntN(3) == 0:
			err = b.export(b.thief)
		case n == 3: // with the receipt
			b.since, b.previous = b.place.Watermark, ""
			if at := len(b.place.Imports); at > 0 {
				b.previous = b.place.Imports[at-1].Digest
			}
		case n > 3 && len(b.shelf) > 0:
			at := len(b.shelf) - 1
			if random.IntN(2) == 0 {
				at = random.IntN(len(b.shelf))
			}
			err = b.bring(b.shelf[at], random.IntN(5) == 0)
		}
		if err == nil {
			err = b.consistent()
		}
		if err != nil {
			return b.applied, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return b.applied, nil
}

// bundleKeys returns the key of the source, that of a thief, and the trust in the first.
func bundleKeys(t *testing.T) (bundle.Trust, [2]ed25519.PrivateKey) {
	t.Helper()
	keys := [2]ed25519.PrivateKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
	trust, err := bundle.Trust(nil).Add(bundle.NewJWK(keys[0].Public().(ed25519.PublicKey)), siteURL+"low", noon)
	require.NoError(t, err)
	return trust, keys
}

// Issue 16: in any history of exports and of imports in any order, twice, forged, forked and interrupted, the mirror is the source,
// filtered, without the gaps that it knows.
func TestBundleModel_MirrorIsTheFilteredLog(t *testing.T) {
	t.Parallel()
	trust, keys := bundleKeys(t)
	all, histories := 0, uint64(60)
	if os.Getenv("SLUICE_LONG") != "" {
		histories = 20_000
	}
	for seed := range histories {
		applied, err := bundleHistory(seed, trust, keys, bundleFault{})
		require.NoError(t, err)
		all += applied
	}
	require.Greater(t, all, 5*int(histories), "entries are applied")
}

// Each mistake that an importer might make is noticed by the model.
func TestBundleModel_NoticesPlantedFaults(t *testing.T) {
	t.Parallel()
	trust, keys := bundleKeys(t)
	both, err := trust.Add(bundle.NewJWK(keys[1].Public().(ed25519.PublicKey)), siteURL+"low", noon)
	require.NoError(t, err)
	for name, f := range map[string]bundleFault{
		"any key is trusted":                  {known: func(k *bundle.Known) { k.Trust = both }},
		"each gap is accepted":                {known: func(k *bundle.Known) { k.AcceptGap = true }},
		"the imports are forgotten":           {known: func(k *bundle.Known) { k.Imports = nil }},
		"the watermark is taken for a higher": {known: func(k *bundle.Known) { k.Watermark += 2 }},
		"a gap is not noted": {commit: func(c *mirror.Commit, _ bool) {
			c.Gaps = nil
		}},
		"a bundle without entries moves the watermark": {commit: func(c *mirror.Commit, _ bool) {
			if len(c.Entries) == 0 {
				c.Place.Watermark++
			}
		}},
		"the last entry of a bundle is lost": {commit: func(c *mirror.Commit, more bool) {
			if n := len(c.Entries); !more && n > 0 {
				c.Entries = c.Entries[:n-1]
			}
		}},
		"the record of a bundle is lost": {commit: func(c *mirror.Commit, _ bool) { c.Place.Imports = nil }},
		"a record names another range": {commit: func(c *mirror.Commit, _ bool) {
			if n := len(c.Place.Imports); n > 0 {
				c.Place.Imports[n-1].Through++
			}
		}},
	} {
		noticed := false
		for seed := uint64(0); seed < 400 && !noticed; seed++ {
			_, err := bundleHistory(seed, trust, keys, f)
			noticed = err != nil
		}
		require.True(t, noticed, name)
	}
}
