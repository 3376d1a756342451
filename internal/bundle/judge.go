package bundle

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Outcome is the decision about a bundle. The mirror takes only Apply and Heartbeat; it also
// records a Fork.
type Outcome string

// The outcomes.
const (
	Apply         Outcome = "apply"          // apply its entries, and record it
	Heartbeat     Outcome = "heartbeat"      // no changes: record when the source said so
	Imported      Outcome = "imported"       // the bundle, or its range, was applied before
	Ahead         Outcome = "gap"            // changes between the watermark and its range are missing
	Passed        Outcome = "passed"         // its range is in a gap that the mirror has accepted
	Fork          Outcome = "fork"           // it contradicts a bundle that was applied
	UntrustedKey  Outcome = "unknown_key"    // its key is not trusted for its source, or was revoked
	Forged        Outcome = "forged"         // its signature is not that of its key, or it contradicts itself
	OtherSource   Outcome = "other_source"   // the mirror follows another source, or at another depth
	OtherInstance Outcome = "other_instance" // the log of the source was replaced
)

// Import is the record of a bundle that a mirror applied.
type Import struct {
	Digest   string    `json:"digest"`
	Previous string    `json:"previous"`
	Entries  string    `json:"entries_sha256"`
	Since    uint64    `json:"since"`
	Through  uint64    `json:"through"`
	At       time.Time `json:"at"`
}

// Gap is a range of the source's log that a mirror lacks.
type Gap struct {
	From  uint64 `json:"from"` // first sequence
	To    uint64 `json:"to"`   // last sequence
	Cause Cause  `json:"cause"`
}

// Cause is the reason for a gap.
type Cause string

// The causes of gaps.
const (
	CauseSkipped   Cause = "skipped"   // bundles were left out, and the importer accepted it
	CauseRetention Cause = "retention" // the source had removed the changes when it exported
	CauseDamage    Cause = "damage"    // the source has lost the changes
)

// Known is the state of a mirror that decides about a bundle. The caller commits with a comparison
// of the mirror's revision, because a decision from an older state may no longer hold. Imports has
// a bounded number of the latest; an older bundle is refused by its range instead. AcceptGap does
// not apply to a heartbeat, which has no changes to continue from.
type Known struct {
	Source      string       // Header.SourceID of its source; "": there is no mirror
	Depth       sluice.Depth // of its subscription
	Incarnation string       // of the source's log; "": not known yet
	Watermark   uint64       // the mirror has every change up to here, except for Gaps
	Imports     []Import     // of this incarnation, in the order in which they were applied
	Gaps        []Gap        // as recorded
	HeardAt     time.Time    // the latest ExportedAt of applied bundles and heartbeats
	Trust       Trust
	AcceptGap   bool // apply a bundle that is ahead, and record the gap
}

// Decision is what a mirror does with a bundle.
type Decision struct {
	Outcome Outcome
	// Apply: the mirror already has the entries up to this sequence; apply those above it.
	After uint64
	// Apply: ranges to record as gaps, ascending. Ahead and Passed: the missing range.
	Gaps []Gap
	// Imported: when the bundle was applied, if known. Fork: when the bundle that it contradicts
	// was applied.
	At time.Time
	// Apply: the record of the bundle, without At. Fork: the record of the contradicted bundle.
	Import Import
	err    *sluice.Error
}

// Err returns the error for the importer; nil for Apply and Heartbeat.
func (d *Decision) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// Judge verifies the signature of a bundle in either form and decides about it (S3-70, S3-71,
// S3-73). On Apply, the caller verifies the content and applies its entries. It stores the
// following atomically with the last entries: the import, the gaps, the watermark Header.Through,
// HeardAt and, if it was unknown, the incarnation. The order of the checks matters: first the
// signature, so that a stranger learns nothing about the mirror; then source and incarnation,
// without which sequences cannot be compared; then the chain. Judge does no I/O and changes neither
// argument.
func Judge(k Known, s *Signed) Decision {
	h := &s.Header
	if err := s.verify(k.Trust); err != nil {
		return refusal(err)
	}
	if h.SourceID != k.Source || h.Depth() != k.Depth {
		return refuse(OtherSource, sluice.NoMatchingSubscription, "no mirror here follows %.200q at depth %s", h.SourceID, h.Depth())
	}
	if k.Incarnation != "" && h.Incarnation != k.Incarnation {
		return refuse(OtherInstance, sluice.OriginReplaced, "the source has another log than before: %.100q, not %.100q; make a new mirror", h.Incarnation, k.Incarnation)
	}
	if h.Since == h.Through {
		return k.judgeHeartbeat(h)
	}
	return k.judgeRange(h, s.digest)
}

// judgeHeartbeat decides about a bundle without a range. It is not a link of the chain.
func (k *Known) judgeHeartbeat(h *Header) Decision {
	switch {
	case h.Through > k.Watermark:
		return k.ahead(h)
	case h.Through < k.Watermark || !h.ExportedAt.After(k.HeardAt):
		return imported(k.HeardAt, "the mirror has heard of its source since, through %d", k.Watermark)
	}
	if last := k.last(); !last.precedes(h) {
		return fork(h, last)
	}
	return Decision{Outcome: Heartbeat, After: k.Watermark}
}

// judgeRange decides about a bundle with a range. The comparison is by range, entries and
// predecessor instead of by digest, because a bundle that is exported again has another ExportedAt,
// and so another digest, and yet is the same.
func (k *Known) judgeRange(h *Header, digest string) Decision {
	for i := range k.Imports {
		m := &k.Imports[i]
		if m.Since == h.Since && m.Through == h.Through && m.Entries == h.Entries && m.Previous == h.Previous {
			return imported(m.At, "the bundle was imported at %s", text(m.At))
		}
	}
	for i := range k.Imports {
		m := &k.Imports[i]
		if h.Previous != "" && m.Previous == h.Previous || m.Since < h.Through && h.Since < m.Through {
			return fork(h, m)
		}
	}
	switch last := k.last(); {
	case h.Through <= k.Watermark:
		return k.behind(h)
	case h.Since > k.Watermark && !k.AcceptGap:
		return k.ahead(h)
	case h.Since == k.Watermark && !last.precedes(h):
		return fork(h, last)
	}
	return Decision{
		Outcome: Apply, After: k.Watermark, Gaps: k.gapsOf(h),
		Import: Import{Digest: digest, Previous: h.Previous, Entries: h.Entries, Since: h.Since, Through: h.Through},
	}
}

// last returns the import that ends at the watermark; nil if the mirror did not reach it by an
// import.
func (k *Known) last() *Import {
	if n := len(k.Imports); n > 0 && k.Imports[n-1].Through == k.Watermark {
		return &k.Imports[n-1]
	}
	return nil
}

// precedes reports whether a bundle may follow an import. Any bundle may follow a nil import.
func (m *Import) precedes(h *Header) bool {
	return m == nil || h.Previous == m.Digest // not a secret: of a bundle
}

// behind decides about a range below the watermark of which the mirror has imported no part.
func (k *Known) behind(h *Header) Decision {
	i := slices.IndexFunc(k.Gaps, func(g Gap) bool { return g.Cause == CauseSkipped && g.From <= h.Through && h.Since < g.To })
	if i < 0 {
		return imported(time.Time{}, "the mirror is at %d already", k.Watermark)
	}
	g := k.Gaps[i]
	d := refuse(Passed, sluice.BundleGap, "the gap from %d to %d was accepted; a new mirror can import this bundle", g.From, g.To)
	return d.missing(g)
}

// ahead refuses a range before which changes are missing.
func (k *Known) ahead(h *Header) Decision {
	g := Gap{k.Watermark + 1, h.Since, CauseSkipped}
	d := refuse(Ahead, sluice.BundleGap, "changes %d to %d are missing: import their bundles first, or accept the gap", g.From, g.To)
	return d.missing(g)
}

func (d Decision) missing(g Gap) Decision {
	d.Gaps = []Gap{g}
	d.err = d.err.With("from", g.From).With("to", g.To)
	return d
}

// gapsOf returns the ranges above the watermark that the mirror will lack after applying a bundle.
// A range that retention has removed is at the beginning of the bundle, where First shows it;
// damage may be anywhere, and Lost lists it. The result is ascending and without overlap.
func (k *Known) gapsOf(h *Header) (gaps []Gap) {
	after := max(k.Watermark, h.Since)
	if h.Since > k.Watermark {
		gaps = append(gaps, Gap{k.Watermark + 1, h.Since, CauseSkipped})
	}
	if to := min(h.Through, max(h.First, 1)-1); to > after {
		gaps = append(gaps, Gap{after + 1, to, CauseRetention})
		after = to
	}
	for _, lost := range h.Lost {
		if from := max(lost.From, after+1); from <= lost.To {
			gaps = append(gaps, Gap{from, lost.To, CauseDamage})
		}
	}
	return gaps
}

func refuse(o Outcome, code sluice.Code, format string, args ...any) Decision {
	return Decision{Outcome: o, err: sluice.Errorf(code, format, args...)}
}

// refusal returns the decision about a bundle whose verification failed.
func refusal(err error) Decision {
	outcome := Forged
	if sluice.CodeOf(err) == sluice.UnknownKey {
		outcome = UntrustedKey
	}
	if said, ok := errors.AsType[*sluice.Error](err); ok {
		return Decision{Outcome: outcome, err: said}
	}
	return refuse(outcome, sluice.CodeOf(err), "%v", err)
}

func imported(at time.Time, format string, args ...any) Decision {
	d := refuse(Imported, sluice.BundleImported, format, args...)
	if d.At = at; !at.IsZero() {
		d.err = d.err.With("imported_at", text(at))
	}
	return d
}

func fork(h *Header, m *Import) Decision {
	d := refuse(Fork, sluice.BundleFork, "the bundle from %d to %d is not of the chain of bundle %s from %d to %d, which was imported at %s; nothing of it was applied: keep both and ask the source",
		h.Since, h.Through, m.Digest, m.Since, m.Through, text(m.At))
	d.At, d.Import = m.At, *m
	d.err = d.err.With("imported_digest", m.Digest).With("imported_at", text(m.At))
	return d
}

func text(at time.Time) string { return at.UTC().Format(time.RFC3339) }
