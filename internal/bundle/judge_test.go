package bundle_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// bundleOf returns a bundle with an entry for its last sequence, unless its range is empty.
func bundleOf(tb testing.TB, change func(h *bundle.Header), since, through uint64, key byte) *bundle.Signed {
	tb.Helper()
	h := header(since, through)
	if change != nil {
		change(&h)
	}
	var entries []bundle.Entry
	if since < through {
		entries = []bundle.Entry{{Change: sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: through, ID: "e"}}}}
	}
	text, _ := write(tb, h, sluice.DepthCatalog, entries, keyOf(key))
	return &read(tb, text).Signed
}

func after(previous string) func(*bundle.Header) {
	return func(h *bundle.Header) { h.Previous = previous }
}

// importOf returns the record of a bundle.
func importOf(s *bundle.Signed, at time.Time) bundle.Import {
	h := &s.Header
	return bundle.Import{Digest: s.Digest(), Previous: h.Previous, Entries: h.Entries, Since: h.Since, Through: h.Through, At: at}
}

// S3-70, S3-71, S3-73: what becomes of each bundle.
func TestJudge_EveryBundleHasItsOutcome(t *testing.T) {
	t.Parallel()
	first := bundleOf(t, nil, 0, 100, 1)
	second := bundleOf(t, after(first.Digest()), 100, 200, 1)
	at := exported.Add(time.Hour)
	fresh := bundle.Known{Source: source, Depth: sluice.DepthCatalog, Trust: trusting(t, 1)}
	known := fresh
	known.Incarnation, known.Watermark, known.HeardAt = "log-1", 100, exported
	known.Imports = []bundle.Import{importOf(first, at)}
	online := known // has pulled pages since
	online.Watermark = 150
	skipped := known // has accepted that the second bundle is missing
	third := bundleOf(t, after(second.Digest()), 200, 300, 1)
	skipped.Watermark, skipped.Imports = 300, append(slices.Clone(known.Imports), importOf(third, at))
	skipped.Gaps = []bundle.Gap{{From: 101, To: 200, Cause: bundle.CauseSkipped}}
	with := func(k bundle.Known, change func(*bundle.Known)) bundle.Known {
		change(&k)
		return k
	}
	revoked, err := trusting(t, 1).Revoke(bundle.KeyID(publicOf(1)), at)
	require.NoError(t, err)
	apply := func(s *bundle.Signed, after uint64, gaps ...bundle.Gap) bundle.Decision {
		return bundle.Decision{Outcome: bundle.Apply, After: after, Gaps: gaps, Import: importOf(s, time.Time{})}
	}
	later := func(h *bundle.Header) { h.ExportedAt = at; h.Previous = first.Digest() }
	anew := bundleOf(t, func(h *bundle.Header) { h.ExportedAt = at }, 0, 100, 1)
	other := bundleOf(t, func(h *bundle.Header) { h.Previous = strings.Repeat("b", 64) }, 100, 200, 1)
	chainless := bundleOf(t, nil, 100, 200, 1)
	overlap := bundleOf(t, nil, 120, 180, 1)
	lossy := bundleOf(t, func(h *bundle.Header) {
		h.Previous, h.First, h.Lost = first.Digest(), 121, []sluice.Gap{{From: 110, To: 125}, {From: 130, To: 130}}
	}, 100, 200, 1)
	text, _ := write(t, header(0, 100), sluice.DepthCatalog, nil, keyOf(1))
	rewritten := &read(t, text).Signed
	moved := func(previous string, since, through uint64) *bundle.Signed { // with the entry of the first bundle
		e := []bundle.Entry{{Change: sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: 100, ID: "e"}}}}
		h := header(since, through)
		h.Previous = previous
		text, _ := write(t, h, sluice.DepthCatalog, e, keyOf(1))
		return &read(t, text).Signed
	}
	gapped := with(fresh, func(k *bundle.Known) {
		k.Watermark, k.Gaps = 300, []bundle.Gap{{From: 20, To: 30, Cause: bundle.CauseDamage}, {From: 101, To: 200, Cause: bundle.CauseSkipped}}
	})
	inGap := bundle.Decision{Outcome: bundle.Passed, Gaps: gapped.Gaps[1:]}
	decided := func(o bundle.Outcome) bundle.Decision { return bundle.Decision{Outcome: o} }
	for name, tt := range map[string]struct {
		known  bundle.Known
		bundle *bundle.Signed
		want   bundle.Decision
		code   sluice.Code
	}{
		"the first bundle":                       {fresh, first, apply(first, 0), ""},
		"the next bundle":                        {known, second, apply(second, 100), ""},
		"the next one after pages":               {online, overlap, apply(overlap, 150), ""},
		"one that begins at a page's end":        {with(online, func(k *bundle.Known) { k.Watermark = 120 }), overlap, apply(overlap, 120), ""},
		"one whose source has lost changes":      {known, lossy, apply(lossy, 100, bundle.Gap{From: 101, To: 120, Cause: bundle.CauseRetention}, bundle.Gap{From: 121, To: 125, Cause: bundle.CauseDamage}, bundle.Gap{From: 130, To: 130, Cause: bundle.CauseDamage}), ""},
		"a key that takes over":                  {with(known, func(k *bundle.Known) { k.Trust = trusting(t, 1, 2) }), bundleOf(t, after(first.Digest()), 100, 200, 2), apply(bundleOf(t, after(first.Digest()), 100, 200, 2), 100), ""},
		"the last bundle again":                  {known, first, bundle.Decision{Outcome: bundle.Imported, At: at}, sluice.BundleImported},
		"the same export signed again":           {known, anew, bundle.Decision{Outcome: bundle.Imported, At: at}, sluice.BundleImported},
		"an old bundle again":                    {skipped, first, bundle.Decision{Outcome: bundle.Imported, At: at}, sluice.BundleImported},
		"a range that pages had":                 {with(online, func(k *bundle.Known) { k.Watermark = 200 }), chainless, decided(bundle.Imported), sluice.BundleImported},
		"a bundle too many":                      {known, third, bundle.Decision{Outcome: bundle.Ahead, Gaps: []bundle.Gap{{From: 101, To: 200, Cause: bundle.CauseSkipped}}}, sluice.BundleGap},
		"the first one is missing":               {fresh, second, bundle.Decision{Outcome: bundle.Ahead, Gaps: []bundle.Gap{{From: 1, To: 100, Cause: bundle.CauseSkipped}}}, sluice.BundleGap},
		"a gap that is accepted":                 {with(known, func(k *bundle.Known) { k.AcceptGap = true }), third, apply(third, 100, bundle.Gap{From: 101, To: 200, Cause: bundle.CauseSkipped}), ""},
		"a bundle for an accepted gap":           {skipped, second, bundle.Decision{Outcome: bundle.Passed, Gaps: skipped.Gaps}, sluice.BundleGap},
		"the same range with another header":     {known, bundleOf(t, func(h *bundle.Header) { h.SourceName = "x"; h.Lost = []sluice.Gap{{From: 3, To: 4}} }, 0, 100, 1), bundle.Decision{Outcome: bundle.Imported, At: at}, sluice.BundleImported},
		"the same range with other entries":      {known, rewritten, bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"a longer export from the same start":    {known, bundleOf(t, nil, 0, 101, 1), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"the same predecessor elsewhere":         {skipped, bundleOf(t, after(second.Digest()), 300, 400, 1), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"another predecessor":                    {known, other, bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"a second beginning":                     {known, chainless, bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"a part of an imported range":            {known, bundleOf(t, nil, 50, 60, 1), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"another chain with an accepted gap":     {with(known, func(k *bundle.Known) { k.AcceptGap = true }), other, bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"the same entries after another":         {known, moved(strings.Repeat("d", 64), 0, 100), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"the same entries from later on":         {known, moved("", 50, 100), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"the same entries and more":              {known, moved("", 0, 150), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"the same predecessor after pages":       {with(skipped, func(k *bundle.Known) { k.Watermark = 310 }), bundleOf(t, after(second.Digest()), 310, 400, 1), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"a range before an accepted gap":         {gapped, bundleOf(t, nil, 50, 100, 1), decided(bundle.Imported), sluice.BundleImported},
		"a range into an accepted gap":           {gapped, bundleOf(t, nil, 50, 101, 1), inGap, sluice.BundleGap},
		"a range out of an accepted gap":         {gapped, bundleOf(t, nil, 199, 250, 1), inGap, sluice.BundleGap},
		"a range behind an accepted gap":         {gapped, bundleOf(t, nil, 200, 250, 1), decided(bundle.Imported), sluice.BundleImported},
		"a range with damage":                    {gapped, bundleOf(t, nil, 10, 40, 1), decided(bundle.Imported), sluice.BundleImported},
		"a heartbeat":                            {known, bundleOf(t, later, 100, 100, 1), bundle.Decision{Outcome: bundle.Heartbeat, After: 100}, ""},
		"a heartbeat after pages":                {online, bundleOf(t, later, 150, 150, 1), bundle.Decision{Outcome: bundle.Heartbeat, After: 150}, ""},
		"a heartbeat again":                      {with(known, func(k *bundle.Known) { k.HeardAt = at }), bundleOf(t, later, 100, 100, 1), bundle.Decision{Outcome: bundle.Imported, At: at}, sluice.BundleImported},
		"a heartbeat of before":                  {known, bundleOf(t, func(h *bundle.Header) { h.ExportedAt = at }, 50, 50, 1), bundle.Decision{Outcome: bundle.Imported, At: exported}, sluice.BundleImported},
		"a heartbeat of later changes":           {with(known, func(k *bundle.Known) { k.AcceptGap = true }), bundleOf(t, later, 101, 101, 1), bundle.Decision{Outcome: bundle.Ahead, Gaps: []bundle.Gap{{From: 101, To: 101, Cause: bundle.CauseSkipped}}}, sluice.BundleGap},
		"a heartbeat of another chain":           {known, bundleOf(t, func(h *bundle.Header) { h.ExportedAt = at }, 100, 100, 1), bundle.Decision{Outcome: bundle.Fork, At: at}, sluice.BundleFork},
		"no trusted key":                         {with(known, func(k *bundle.Known) { k.Trust = nil }), second, decided(bundle.UntrustedKey), sluice.UnknownKey},
		"a revoked key":                          {with(known, func(k *bundle.Known) { k.Trust = revoked }), second, decided(bundle.UntrustedKey), sluice.UnknownKey},
		"a revoked key, imported before":         {with(known, func(k *bundle.Known) { k.Trust = revoked }), first, decided(bundle.UntrustedKey), sluice.UnknownKey},
		"no mirror":                              {with(fresh, func(k *bundle.Known) { k.Source = "" }), first, decided(bundle.OtherSource), sluice.NoMatchingSubscription},
		"a mirror of another source":             {with(fresh, func(k *bundle.Known) { k.Source = "x" }), first, decided(bundle.OtherSource), sluice.NoMatchingSubscription},
		"a mirror at another depth":              {with(fresh, func(k *bundle.Known) { k.Depth = sluice.DepthFull }), first, decided(bundle.OtherSource), sluice.NoMatchingSubscription},
		"a source whose log was replaced":        {with(known, func(k *bundle.Known) { k.Incarnation = "log-0" }), second, decided(bundle.OtherInstance), sluice.OriginReplaced},
		"an imported one whose log was before":   {with(known, func(k *bundle.Known) { k.Incarnation = "log-0" }), first, decided(bundle.OtherInstance), sluice.OriginReplaced},
		"a heartbeat whose log was replaced":     {with(known, func(k *bundle.Known) { k.Incarnation = "log-0" }), bundleOf(t, later, 100, 100, 1), decided(bundle.OtherInstance), sluice.OriginReplaced},
		"a gap of retention before the mirror's": {online, bundleOf(t, func(h *bundle.Header) { h.First = 130 }, 100, 200, 1), apply(bundleOf(t, func(h *bundle.Header) { h.First = 130 }, 100, 200, 1), 150), ""},
		"everything is lost to retention":        {known, bundleOf(t, func(h *bundle.Header) { h.Previous, h.First = first.Digest(), 500 }, 100, 200, 1), apply(bundleOf(t, func(h *bundle.Header) { h.Previous, h.First = first.Digest(), 500 }, 100, 200, 1), 100, bundle.Gap{From: 101, To: 200, Cause: bundle.CauseRetention}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := bundle.Judge(tt.known, tt.bundle)
			require.Equal(t, tt.code, sluice.CodeOf(got.Err()), "%v", got.Err())
			require.Equal(t, tt.want.Outcome, got.Outcome)
			require.Equal(t, tt.want.After, got.After)
			require.Equal(t, tt.want.Gaps, got.Gaps)
			require.Equal(t, tt.want.At, got.At)
			if got.Outcome == bundle.Fork {
				require.Contains(t, tt.known.Imports, got.Import, "it contradicts an import")
				return
			}
			require.Equal(t, tt.want.Import, got.Import)
		})
	}
}

func TestJudge_ForgedSignatureIsRefusedFirst(t *testing.T) {
	t.Parallel()
	text, _ := write(t, header(0, 0), sluice.DepthCatalog, nil, keyOf(1))
	forged := read(t, signed(t, text, keyOf(2)))
	d := bundle.Judge(bundle.Known{Trust: trusting(t, 1)}, &forged.Signed)
	require.Equal(t, bundle.Forged, d.Outcome)
	require.Equal(t, sluice.BundleSignatureInvalid, sluice.CodeOf(d.Err()))
}

// The answers have what an importer acts on.
func TestJudge_AnswersSayWhenAndWhich(t *testing.T) {
	t.Parallel()
	first := bundleOf(t, nil, 0, 100, 1)
	known := bundle.Known{
		Source: source, Depth: sluice.DepthCatalog, Trust: trusting(t, 1), Watermark: 100, Imports: []bundle.Import{importOf(first, exported)},
	}
	for _, tt := range []struct {
		bundle *bundle.Signed
		want   map[string]any
	}{
		{first, map[string]any{"imported_at": "2026-02-19T12:00:00Z"}},
		{bundleOf(t, nil, 200, 300, 1), map[string]any{"from": uint64(101), "to": uint64(200)}},
		{bundleOf(t, nil, 0, 99, 1), map[string]any{"imported_at": "2026-02-19T12:00:00Z", "imported_digest": first.Digest()}},
	} {
		d := bundle.Judge(known, tt.bundle)
		var e *sluice.Error
		require.ErrorAs(t, d.Err(), &e)
		require.Equal(t, tt.want, e.Details)
	}
}

// mirror is a model of an importer: what it knows, and which sequences it has.
type mirror struct {
	known bundle.Known
	has   map[uint64]int
}

func (m *mirror) deliver(rt *rapid.T, s *bundle.Signed) bundle.Outcome {
	d := bundle.Judge(m.known, s)
	switch d.Outcome {
	case bundle.Apply:
		for seq := max(d.After, s.Header.Since) + 1; seq <= s.Header.Through; seq++ {
			m.has[seq]++
			require.Equal(rt, 1, m.has[seq], "sequence %d is applied twice", seq)
		}
		require.Greater(rt, s.Header.Through, m.known.Watermark, "the watermark never falls")
		m.known.Imports = append(m.known.Imports, d.Import)
		m.known.Gaps = append(m.known.Gaps, d.Gaps...)
		m.known.Watermark, m.known.HeardAt, m.known.Incarnation = s.Header.Through, s.Header.ExportedAt, s.Header.Incarnation
		require.NoError(rt, d.Err())
	case bundle.Heartbeat:
		require.True(rt, s.Header.ExportedAt.After(m.known.HeardAt))
		require.Equal(rt, s.Header.Through, m.known.Watermark)
		m.known.HeardAt = s.Header.ExportedAt
		require.NoError(rt, d.Err())
	default:
		require.Error(rt, d.Err())
	}
	return d.Outcome
}

// However a chain is delivered, permuted, repeated, with bundles lost and gaps accepted: nothing is
// applied twice, and nothing is missing but gaps.
func TestJudge_AppliesEachBundleOnce(t *testing.T) {
	t.Parallel()
	var chain []*bundle.Signed
	previous, since := "", uint64(0)
	for i := range 8 {
		through := since + uint64(1+i%3)
		s := bundleOf(t, after(previous), since, through, 1)
		beat := bundleOf(t, func(h *bundle.Header) {
			h.Previous, h.ExportedAt = s.Digest(), exported.Add(time.Duration(i+1)*time.Minute)
		}, through, through, 1)
		chain = append(chain, s, beat)
		previous, since = s.Digest(), through
	}
	other := bundleOf(t, after(strings.Repeat("c", 64)), 2, 5, 1) // a chain of another export
	deliveries := append(slices.Clone(chain), other)
	rapid.Check(t, func(rt *rapid.T) {
		m := &mirror{known: bundle.Known{Source: source, Depth: sluice.DepthCatalog, Trust: trusting(t, 1)}, has: map[uint64]int{}}
		foreign := false
		for range rapid.IntRange(0, 40).Draw(rt, "deliveries") {
			m.page(rt, since)
			s := rapid.SampledFrom(deliveries).Draw(rt, "bundle")
			m.known.AcceptGap = rapid.Bool().Draw(rt, "accept")
			foreign = m.deliver(rt, s) == bundle.Apply && s == other || foreign
		}
		m.known.AcceptGap = false
		for range 2 { // in the end all bundles come
			for _, s := range chain {
				m.deliver(rt, s)
			}
		}
		require.True(rt, foreign || m.known.Watermark == since)
		m.check(rt)
	})
}

// page has the mirror pull the next change from its source now and then, up to the last one.
func (m *mirror) page(rt *rapid.T, last uint64) {
	if m.known.Watermark == last || rapid.IntRange(0, 9).Draw(rt, "page") > 0 {
		return
	}
	m.known.Watermark++
	m.has[m.known.Watermark]++
	require.Equal(rt, 1, m.has[m.known.Watermark])
}

// check compares the sequences that the mirror has with its watermark and its gaps.
func (m *mirror) check(rt *rapid.T) {
	for seq := uint64(1); seq <= m.known.Watermark; seq++ {
		gap := slices.ContainsFunc(m.known.Gaps, func(g bundle.Gap) bool { return g.From <= seq && seq <= g.To })
		require.Equal(rt, gap, m.has[seq] == 0, "sequence %d", seq)
	}
}

func TestReceipt_NamesTheLastImport(t *testing.T) {
	t.Parallel()
	trust, err := bundle.Trust{}.Add(bundle.NewJWK(publicOf(3)), "high side", exported)
	require.NoError(t, err)
	r := bundle.Receipt{Importer: "high side", SourceID: source, Incarnation: "log-1", Scope: "entries", Bundle: strings.Repeat("a", 64), Through: 100, At: exported}
	text, err := bundle.SignReceipt(r, keyOf(3))
	require.NoError(t, err)
	got, err := bundle.ReadReceipt(append(text, '\n'), trust)
	require.NoError(t, err)
	_, err = bundle.SignReceipt(r, nil)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "there is no key")
	r.KeyID, r.Alg, r.Signature = bundle.KeyID(publicOf(3)), "Ed25519", got.Signature
	require.Equal(t, r, got)

	for name, change := range map[string]func(*bundle.Receipt){
		"no importer":    func(r *bundle.Receipt) { r.Importer = "" },
		"no source":      func(r *bundle.Receipt) { r.SourceID = "" },
		"no incarnation": func(r *bundle.Receipt) { r.Incarnation = "" },
		"no bundle":      func(r *bundle.Receipt) { r.Bundle = "" },
		"no scope":       func(r *bundle.Receipt) { r.Scope = "" },
		"no time":        func(r *bundle.Receipt) { r.At = time.Time{} },
		"far ahead":      func(r *bundle.Receipt) { r.Through = 1 << 53 },
	} {
		bad := r
		change(&bad)
		_, err := bundle.SignReceipt(bad, keyOf(3))
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), name)
	}
}

func TestRedTeam_TamperedReceiptIsRefused(t *testing.T) {
	t.Parallel()
	trust, err := bundle.Trust{}.Add(bundle.NewJWK(publicOf(3)), "high side", exported)
	require.NoError(t, err)
	r := bundle.Receipt{Importer: "high side", SourceID: source, Incarnation: "log-1", Scope: "entries", Bundle: strings.Repeat("a", 64), Through: 100, At: exported}
	text, err := bundle.SignReceipt(r, keyOf(3))
	require.NoError(t, err)
	for bit := range 8 * len(text) {
		forged := bytes.Clone(text)
		forged[bit/8] ^= 1 << (bit % 8)
		_, err := bundle.ReadReceipt(forged, trust)
		require.Error(t, err, "bit %d", bit)
	}
	for _, forged := range []string{
		"", "null", "{}", string(text[:len(text)-1]), string(text) + "{}", strings.Replace(string(text), `"alg":"Ed25519"`, `"alg":"none"`, 1),
		strings.Replace(string(text), `"at":`, `"at":"2026-02-19T12:00:00Z","at":`, 1), strings.Replace(string(text), `"through_sequence":100`, `"through_sequence":1e2`, 1),
		strings.Repeat(" ", 16<<10) + string(text),
	} {
		_, err := bundle.ReadReceipt([]byte(forged), trust)
		require.Error(t, err, forged)
	}
	_, err = bundle.ReadReceipt(text, trusting(t, 3))
	require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err), "the key of a source is not that of an importer")
	revoked, err := trust.Revoke(bundle.KeyID(publicOf(3)), exported)
	require.NoError(t, err)
	_, err = bundle.ReadReceipt(text, revoked)
	require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err))
	other, err := bundle.Trust{}.Add(bundle.NewJWK(publicOf(4)), "high side", exported)
	require.NoError(t, err)
	other[0].KeyID = bundle.KeyID(publicOf(3))
	_, err = bundle.ReadReceipt(text, other)
	require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err))
}
