package watch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Rule is what a watch decides by.
type Rule struct {
	Level     bool          // fires on each reading that meets the condition; else when the condition begins to hold
	Cooldown  time.Duration // in which a path fires once; 0: none
	For       time.Duration // for which the condition has to hold; 0: none
	Most      int           // readings that are looked at in a second
	Condition func(*sluice.Event) (bool, error)
}

// Kind is what a verdict is about.
type Kind int

// The kinds of verdicts.
const (
	Fires     Kind = iota // the action is to be done, because of the reading at Seq
	Missed                // it was not to be done, because of Reason, for Count readings, the first of them at Seq
	Throttled             // Count readings were not looked at, the first of them at Seq
)

// Reason is why a watch did not fire.
type Reason string

// The reasons.
const (
	Cooling   Reason = "cooldown"         // it fired for the path a short time ago
	Unclear   Reason = "condition_failed" // the expression cannot be evaluated for the reading
	Expired   Reason = "expired"          // readings left the log before they were looked at, or before it fired
	Unfetched Reason = "not_readable"     // the creator may not read (any more) what it would have fired for
)

// Verdict is what is to be done.
type Verdict struct {
	Kind   Kind
	Seq    uint64
	At     time.Time // of the reading; when it fires later because of For, when it does
	Reason Reason
	Count  uint64
}

// tally is what is told of at most once a second.
type tally struct {
	Count uint64    `json:"n,omitempty"`
	Seq   uint64    `json:"q,omitempty"` // of the first
	At    time.Time `json:"at,omitzero"` // of the first
	Told  time.Time `json:"told,omitzero"`
}

// window is a second in which so many readings were looked at.
type window struct {
	Since   time.Time `json:"since,omitzero"`
	Looked  int       `json:"looked,omitempty"`
	Dropped uint64    `json:"dropped,omitempty"`
	Seq     uint64    `json:"seq,omitempty"` // of the first that was not
	At      time.Time `json:"at,omitzero"`
}

// Totals is what a watch has done since it was made.
type Totals struct {
	Looked    uint64    `json:"looked,omitempty"`    // readings
	Missed    uint64    `json:"missed,omitempty"`    // readings for which it did not fire though it might have
	Throttled uint64    `json:"throttled,omitempty"` // readings that it did not look at
	Fired     uint64    `json:"fired,omitempty"`
	FiredAt   time.Time `json:"fired_at,omitzero"` // last
	FiredSeq  uint64    `json:"fired_seq,omitempty"`
	Outcome   string    `json:"outcome,omitempty"`
}

// Kept is what of a state is stored.
type Kept struct {
	Place     uint64           `json:"place"` // up to here everything was looked at
	Paths     []Standing       `json:"paths,omitempty"`
	Window    window           `json:"window,omitzero"`
	Throttled tally            `json:"throttled,omitzero"`
	Missed    map[Reason]tally `json:"missed,omitempty"`
	Totals    Totals           `json:"totals,omitzero"`
}

// State is what a watch remembers.
type State struct {
	kept   Kept // without its paths
	memory memory
	due    int64 // ms; before which nothing fires that is armed
}

const (
	second = time.Second
	never  = int64(1)<<62 - 1
	always = int64(-1) << 62
)

// NewState returns the state that was stored; it remembers so many paths.
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

// Kept returns what is to be stored. It shares nothing with the state.
func (s *State) Kept() Kept {
	kept := s.kept
	kept.Paths = s.memory.all()
	kept.Missed = maps.Clone(s.kept.Missed)
	return kept
}

// Place returns up to where everything was looked at.
func (s *State) Place() uint64 { return s.kept.Place }

// Reach says that there is no reading up to a place.
func (s *State) Reach(seq uint64) { s.kept.Place = max(s.kept.Place, seq) }

// Lost says that readings from one place to another left the log, or might have.
func (s *State) Lost(from, to uint64, now time.Time) {
	s.miss(Expired, from, now, to-from+1)
	s.Reach(to)
}

// Rewind says that the log ends at a place: what was behind it is gone, and others will come.
func (s *State) Rewind(last uint64) { s.kept.Place = min(s.kept.Place, last) }

// Fired says that a verdict to fire was carried out, and what came of it.
func (s *State) Fired(seq uint64, outcome string, now time.Time) {
	t := &s.kept.Totals
	t.Fired, t.FiredAt, t.FiredSeq, t.Outcome = t.Fired+1, now.UTC(), seq, outcome
}

// Totals returns what the watch has done.
func (s *State) Totals() Totals { return s.kept.Totals }

// Missed says that a verdict to fire was not carried out.
func (s *State) Missed(v Verdict, why Reason) { s.miss(why, v.Seq, v.At, 1) }

// Step looks at a reading: an event behind the place on a path of the watch, which its creator may read. It appends
// what is to be done.
func (s *State) Step(r *Rule, ev *sluice.Event, into []Verdict) []Verdict {
	into = s.lapse(r, ev.Stored, into)
	s.kept.Place = ev.Seq
	if !s.admit(r, ev) {
		return into
	}
	key := keyOf(ev.Path)
	p := s.memory.get(key)
	met, err := r.Condition(ev)
	switch {
	case err != nil: // it says nothing about the path
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
	p.Met = !r.Level || r.For > 0 // else it does not matter
	s.memory.put(r.cool(p, ev.Stored))
	return into
}

// admit reports whether the reading is one that can be afforded.
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

// count has it told how many readings were not looked at. The window goes on: more of its second may come, late.
func (s *State) count() {
	w := &s.kept.Window
	s.kept.Throttled.add(w.Seq, w.At, w.Dropped)
	w.Dropped, w.Seq, w.At = 0, 0, time.Time{}
}

// fire fires, unless the path is cooling down.
func (s *State) fire(r *Rule, p *Standing, v Verdict, into []Verdict) []Verdict {
	if r.cooling(p, v.At) {
		s.miss(Cooling, v.Seq, v.At, 1)
		return into
	}
	p.Fired = v.At.UnixMilli()
	return append(into, v)
}

// lapse fires for what has held for long enough by the time at which the next reading came.
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

// cooling reports whether the path fired a short time ago. A clock that was put back ends that.
func (r *Rule) cooling(p *Standing, at time.Time) bool {
	age := since(p.Fired, at)
	return p.Fired != 0 && age >= 0 && age < r.Cooldown
}

// cool returns what is still to be remembered of a path.
func (r *Rule) cool(p Standing, at time.Time) Standing {
	if !r.cooling(&p, at) {
		p.Fired = 0
	}
	return p
}

// Tick says that it is so late. Where Ripe says so, everything has to have been looked at that was stored by then. It appends what is to be
// done.
func (s *State) Tick(r *Rule, now time.Time, into []Verdict) []Verdict {
	if w := s.kept.Window; now.Sub(w.Since) >= second {
		s.count()
	}
	return s.lapse(r, now, into)
}

// Ripe reports whether a path may fire because it is so late.
func (s *State) Ripe(r *Rule, now time.Time) bool {
	return !r.Level && r.For > 0 && now.UnixMilli() >= s.due
}

// Tell appends what is to be told by now of what was held back: at once the first time, and then at most once a
// second for each reason.
func (s *State) Tell(now time.Time, into []Verdict) []Verdict {
	if t := s.kept.Throttled; t.ripe(now) {
		into = append(into, Verdict{Kind: Throttled, Seq: t.Seq, At: t.At, Count: t.Count})
		s.kept.Throttled = tally{Told: now}
	}
	for _, reason := range []Reason{Cooling, Unclear, Expired, Unfetched} {
		if t := s.kept.Missed[reason]; t.ripe(now) {
			into = append(into, Verdict{Kind: Missed, Seq: t.Seq, At: t.At, Count: t.Count, Reason: reason})
			s.kept.Missed[reason] = tally{Told: now}
		}
	}
	return into
}

// Quiet reports whether there is nothing that time alone brings about.
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

// ripe reports whether it is time to tell. A clock that was put back makes nobody wait.
func (t *tally) ripe(now time.Time) bool {
	age := now.Sub(t.Told)
	return t.Count > 0 && (age >= second || age < 0)
}

func since(ms int64, at time.Time) time.Duration {
	return time.Duration(at.UnixMilli()-ms) * time.Millisecond
}
