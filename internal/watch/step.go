package watch

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Rule holds the parameters of a watch's decisions. Condition must not keep the event.
type Rule struct {
	Level     bool          // fire on each reading that meets the condition; false: when the condition begins to hold
	Cooldown  time.Duration // minimum time between firings of a path; 0: none
	For       time.Duration // how long the condition has to hold; 0: no time
	Most      int           // readings per second
	Condition func(*sluice.Event) (bool, error)
}

// errInterrupted is returned by a Rule.Condition that was stopped before it knew the result.
var errInterrupted = errors.New("the condition was not evaluated")

// Kind is the kind of a verdict.
type Kind int

// The kinds of verdicts.
const (
	Fires     Kind = iota // perform the action, because of the reading at Seq
	Missed                // no action, because of Reason, for Count readings, the first of them at Seq
	Throttled             // Count readings were not evaluated, the first of them at Seq
)

// Reason is why a watch did not fire.
type Reason string

// The reasons.
const (
	Cooling   Reason = "cooldown"         // the watch has fired for the path within the cooldown
	Unclear   Reason = "condition_failed" // the expression cannot be evaluated on the reading
	Expired   Reason = "expired"          // readings left the log before they were evaluated, or before it fired
	Unfetched Reason = "not_readable"     // the creator may not read the reading (any more)
	Damaged   Reason = "unreadable"       // readings may be lost because the files of the log are damaged
)

// Verdict is a decision to execute or announce. Reason is set for Missed only, Count for all but
// Fires.
type Verdict struct {
	Kind   Kind
	Seq    uint64
	At     time.Time // when the reading was stored; with Rule.For, when the watch fires
	Reason Reason
	Count  uint64
}

// tally is a count of readings that is reported at most once a second.
type tally struct {
	Count uint64    `json:"n,omitempty"`
	Seq   uint64    `json:"q,omitempty"` // of the first
	At    time.Time `json:"at,omitzero"` // of the first
	Told  time.Time `json:"told,omitzero"`
}

// window counts the evaluated readings of one second.
type window struct {
	Since   time.Time `json:"since,omitzero"`
	Looked  int       `json:"looked,omitempty"`
	Dropped uint64    `json:"dropped,omitempty"`
	Seq     uint64    `json:"seq,omitempty"` // the first reading that was not evaluated
	At      time.Time `json:"at,omitzero"`
}

// Totals counts a watch's work since its creation.
type Totals struct {
	Looked    uint64    `json:"looked,omitempty"`    // evaluated readings
	Missed    uint64    `json:"missed,omitempty"`    // readings for which it might have fired but did not
	Throttled uint64    `json:"throttled,omitempty"` // readings that were not evaluated
	Fired     uint64    `json:"fired,omitempty"`
	FiredAt   time.Time `json:"fired_at,omitzero"` // last
	FiredSeq  uint64    `json:"fired_seq,omitempty"`
	Outcome   string    `json:"outcome,omitempty"`
}

// Kept is the stored part of a state. It is stored as JSON.
type Kept struct {
	Place     uint64           `json:"place"` // everything up to here was evaluated
	Paths     []Standing       `json:"paths,omitempty"`
	Window    window           `json:"window,omitzero"`
	Throttled tally            `json:"throttled,omitzero"`
	Missed    map[Reason]tally `json:"missed,omitempty"`
	Totals    Totals           `json:"totals,omitzero"`
	Gaps      []sluice.Gap     `json:"gaps,omitempty"` // lost ranges of the log that were counted as missed
}

// State is the state of a watch. It is not safe for concurrent use. The same events, rule and times
// give the same verdicts: a state does not read the clock.
type State struct {
	kept   Kept // without its paths
	memory memory
	due    int64 // Unix ms; no armed path fires before this
}

const (
	second = time.Second
	never  = int64(1)<<62 - 1
	always = int64(-1) << 62
)

// NewState returns the state that was stored, with room for this many paths. If more paths are
// stored than there is room for, those last used remain.
func NewState(kept Kept, paths int) (*State, error) {
	m, err := newMemory(paths, kept.Paths)
	if err != nil {
		return nil, err
	}
	kept.Paths = nil
	missed := map[Reason]tally{}
	maps.Copy(missed, kept.Missed)
	kept.Missed = missed
	return &State{kept: kept, memory: m, due: always}, nil
}

// Kept returns the state to store. It shares no memory with s.
func (s *State) Kept() Kept {
	kept := s.kept
	kept.Paths = s.memory.all()
	kept.Missed, kept.Gaps = maps.Clone(s.kept.Missed), slices.Clone(s.kept.Gaps)
	return kept
}

// Place returns the sequence up to which everything was evaluated.
func (s *State) Place() uint64 { return s.kept.Place }

// Reach moves the place forward: there is no further reading up to a sequence.
func (s *State) Reach(seq uint64) { s.kept.Place = max(s.kept.Place, seq) }

// Lost counts the events of a range as missed, because readings among them may have left the log,
// and moves the place behind the range.
func (s *State) Lost(from, to uint64, now time.Time) {
	s.miss(Expired, from, now, to-from+1)
	s.Reach(to)
}

// Gap counts the events of a range as missed, because damage may have lost readings among them. It
// returns false if the range was counted before. A range within a counted one was counted, too; one
// that only overlaps is counted in full.
func (s *State) Gap(g sluice.Gap, now time.Time) bool {
	if slices.ContainsFunc(s.kept.Gaps, func(known sluice.Gap) bool { return known.From <= g.From && g.To <= known.To }) {
		return false
	}
	s.kept.Gaps = append(s.kept.Gaps, g)
	s.miss(Damaged, g.From, now, g.Events)
	return true
}

// Rewind moves the place back to the end of the log: later events are gone, and new ones will get
// their sequences. The states of the paths remain.
func (s *State) Rewind(last uint64) { s.kept.Place = min(s.kept.Place, last) }

// Fired records the outcome of a verdict to fire that was executed.
func (s *State) Fired(seq uint64, outcome string, now time.Time) {
	t := &s.kept.Totals
	t.Fired, t.FiredAt, t.FiredSeq, t.Outcome = t.Fired+1, now.UTC(), seq, outcome
}

// Totals returns the watch's totals.
func (s *State) Totals() Totals { return s.kept.Totals }

// Missed records that a verdict to fire was not executed.
func (s *State) Missed(v Verdict, why Reason) { s.miss(why, v.Seq, v.At, 1) }

// Step evaluates a reading: an event behind the place on a path of the watch, which its creator may
// read. It appends its verdicts to into. If the condition returns an error, the reading counts as
// missed; after errInterrupted, the reading is still to be evaluated. Verdicts of armed paths that
// are due come before that of the event.
func (s *State) Step(r *Rule, ev *sluice.Event, into []Verdict) []Verdict {
	into = s.lapse(r, ev.Stored, into)
	before := s.kept // shallow, because up to the condition no map changes
	s.kept.Place = ev.Seq
	if !s.admit(r, ev) {
		return into
	}
	key := keyOf(ev.Path)
	p := s.memory.get(key)
	met, err := r.Condition(ev)
	switch {
	case errors.Is(err, errInterrupted):
		s.kept = before
		return into
	case err != nil: // the path's state is unchanged
		s.miss(Unclear, ev.Seq, ev.Stored, 1)
		return into
	case !met:
		s.memory.put(r.cool(Standing{Key: key, Fired: p.Fired}, ev.Stored))
		return into
	}
	begins := !p.Met
	if begins {
		p.Met, p.Since, p.Seq, p.Armed = true, ev.Stored.UnixMilli(), ev.Seq, !r.Level && r.For > 0
	}
	if p.Armed {
		s.due = min(s.due, p.Since+r.For.Milliseconds())
	}
	if wants := r.Level && since(p.Since, ev.Stored) >= r.For || !r.Level && begins && !p.Armed; wants {
		into = s.fire(r, &p, Verdict{Seq: ev.Seq, At: ev.Stored}, into)
	}
	p.Met = !r.Level || r.For > 0 // otherwise no decision depends on it
	s.memory.put(r.cool(p, ev.Stored))
	return into
}

// admit reports whether the rate limit permits evaluating the reading, and counts it. Seconds are
// measured by the times at which the events were stored.
func (s *State) admit(r *Rule, ev *sluice.Event) bool {
	w := &s.kept.Window
	if age := ev.Stored.Sub(w.Since); age >= second || age < 0 {
		s.count()
		w.Since, w.Looked = ev.Stored, 0
	}
	if w.Looked < r.Most {
		w.Looked++
		s.kept.Totals.Looked++
		return true
	}
	if w.Dropped == 0 {
		w.Seq, w.At = ev.Seq, ev.Stored
	}
	w.Dropped++
	s.kept.Totals.Throttled++
	return false
}

// count moves the throttled readings of the window to their tally. The window continues, because
// more readings of its second may come late.
func (s *State) count() {
	w := &s.kept.Window
	s.kept.Throttled.add(w.Seq, w.At, w.Dropped)
	w.Dropped, w.Seq, w.At = 0, 0, time.Time{}
}

// fire appends the verdict v, or counts it as missed if the path is cooling down.
func (s *State) fire(r *Rule, p *Standing, v Verdict, into []Verdict) []Verdict {
	if r.cooling(p, v.At) {
		s.miss(Cooling, v.Seq, v.At, 1)
		return into
	}
	p.Fired = v.At.UnixMilli()
	return append(into, v)
}

// lapse fires the armed paths for which the condition has held long enough at a time. They fire in
// the order in which their conditions began to hold. The cost is in proportion to the number of
// paths if one may be due, and constant otherwise.
func (s *State) lapse(r *Rule, at time.Time, into []Verdict) []Verdict {
	now := at.UnixMilli()
	if now < s.due {
		return into
	}
	s.due = never
	var ripe []*Standing
	for _, p := range s.memory.paths.Values() {
		switch due := p.Since + r.For.Milliseconds(); {
		case !p.Armed:
		case due <= now:
			ripe = append(ripe, p)
		default:
			s.due = min(s.due, due)
		}
	}
	slices.SortFunc(ripe, func(a, b *Standing) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Seq, b.Seq)) })
	for _, p := range ripe {
		p.Armed = false
		into = s.fire(r, p, Verdict{Seq: p.Seq, At: time.UnixMilli(p.Since + r.For.Milliseconds())}, into)
	}
	return into
}

// cooling reports whether the path is in its cooldown. A clock that was set back ends the cooldown.
func (r *Rule) cooling(p *Standing, at time.Time) bool {
	age := since(p.Fired, at)
	return p.Fired != 0 && age >= 0 && age < r.Cooldown
}

// cool returns the state of a path without a cooldown that is over.
func (r *Rule) cool(p Standing, at time.Time) Standing {
	if !r.cooling(&p, at) {
		p.Fired = 0
	}
	return p
}

// Tick advances the time to now. If Ripe is true, the caller must first have evaluated all events
// that were stored by then. It appends its verdicts to into.
func (s *State) Tick(r *Rule, now time.Time, into []Verdict) []Verdict {
	if w := s.kept.Window; now.Sub(w.Since) >= second {
		s.count()
	}
	return s.lapse(r, now, into)
}

// Ripe reports whether a path may fire now without another reading.
func (s *State) Ripe(r *Rule, now time.Time) bool {
	return !r.Level && r.For > 0 && now.UnixMilli() >= s.due
}

// Tell appends the reports that are due: of throttled readings, and of missed ones by reason. The
// first of each is due at once, the next ones at most once a second. A report begins a new count.
func (s *State) Tell(now time.Time, into []Verdict) []Verdict {
	if t := s.kept.Throttled; t.ripe(now) {
		into = append(into, Verdict{Kind: Throttled, Seq: t.Seq, At: t.At, Count: t.Count})
		s.kept.Throttled = tally{Told: now}
	}
	for _, reason := range []Reason{Cooling, Unclear, Expired, Unfetched, Damaged} {
		if t := s.kept.Missed[reason]; t.ripe(now) {
			into = append(into, Verdict{Kind: Missed, Seq: t.Seq, At: t.At, Count: t.Count, Reason: reason})
			s.kept.Missed[reason] = tally{Told: now}
		}
	}
	return into
}

// Quiet reports whether nothing becomes due by time alone.
func (s *State) Quiet() bool {
	held := s.kept.Throttled.Count + s.kept.Window.Dropped
	for _, t := range s.kept.Missed {
		held += t.Count
	}
	return held == 0 && s.due == never
}

func (s *State) miss(why Reason, seq uint64, at time.Time, count uint64) {
	t := s.kept.Missed[why]
	t.add(seq, at, count)
	s.kept.Missed[why] = t
	s.kept.Totals.Missed += count
}

func (t *tally) add(seq uint64, at time.Time, count uint64) {
	if t.Count == 0 {
		t.Seq, t.At = seq, at
	}
	t.Count += count
}

// ripe reports whether a report is due. A clock that was set back does not delay it.
func (t *tally) ripe(now time.Time) bool {
	age := now.Sub(t.Told)
	return t.Count > 0 && (age >= second || age < 0)
}

func since(ms int64, at time.Time) time.Duration {
	return time.Duration(at.UnixMilli()-ms) * time.Millisecond
}
