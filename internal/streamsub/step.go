package streamsub

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Do is what happened to a subscription.
type Do int

// What happens.
const (
	Look      Do = iota // something is new, or a clock struck
	Sent                // the wake was sent, or could not be
	Called              // the worker says how far it is
	Claimed             // a worker wants the wake
	Released            // a worker gives it back
	Linked              // streams are named
	Unlinked            // and not any more
	Withdrawn           // streams are not to be told of after all
)

// Input is what happened, with all that Step cannot know.
type Input struct {
	Do     Do
	WakeID string  // of the wake that may begin
	Jitter float64 // 0 to 1, for the next attempt

	Wake       string // Sent, Called, Released, Withdrawn: which wake it is about
	Generation uint64 // Called, Released
	OK         bool   // Sent: it arrived
	Done       bool   // Sent, Called
	Acks       []Ack  // Called
	Worker     string // Claimed
	Paths      []string
}

// mayWake reports whether what is new is asked for.
func (in Input) mayWake() bool {
	switch in.Do {
	case Look, Claimed, Released:
		return true
	case Sent, Called:
		return in.Done
	case Linked, Unlinked, Withdrawn:
	}
	return false
}

// Ack says that a stream is done up to a place.
type Ack struct {
	Path   string
	Offset uint64
}

// How long after an attempt that failed the next one is due.
const (
	firstWait = time.Second
	mostWait  = time.Minute
	spread    = 0.2
)

// Step decides what becomes of a subscription. It returns the subscription as it is from now on, which is to be
// stored if it is another one, whether another wake has begun, and, for what is asked for, a *Refusal. It
// changes nothing that s points to.
func Step(s Subscription, in Input, v View, now time.Time) (next Subscription, woken bool, err error) {
	before := s
	s.Links = maps.Clone(s.Links)
	if s.Links == nil {
		s.Links = map[string]Link{}
	}
	if s.Wake != nil {
		wake := *s.Wake
		wake.Snapshot = maps.Clone(wake.Snapshot)
		s.Wake = &wake
	}
	s.restart(v)
	switch in.Do {
	case Look:
		woken = s.look(in, v, now)
	case Sent:
		woken = s.sent(in, v, now)
	case Called:
		woken, err = s.called(in, v, now)
	case Claimed:
		err = s.claimed(in, v, now)
	case Released:
		if err = s.fence(in, now); err == nil {
			s.end(v)
			woken = s.issue(in, v, now)
		}
	case Linked:
		if err = s.link(in.Paths, v); err != nil {
			return before, false, err // all of them or none
		}
	case Unlinked:
		s.unlink(in.Paths)
	case Withdrawn:
		s.withdraw(in)
	}
	s.fit(v)
	return s, woken, err
}

// restart is for a log that lost its end or was made anew: sequences come again, and what has one of them by now was
// told to nobody. It is better to tell too much.
func (s *Subscription) restart(v View) {
	if v.At >= s.Floor {
		return
	}
	s.Floor, s.Base = 0, 0
	for path, link := range s.Links {
		if link.Acked > v.At {
			link.Acked = 0
			s.Links[path] = link
		}
	}
}

func (s *Subscription) look(in Input, v View, now time.Time) (woken bool) {
	s.expire(in, v, now)
	if s.Wake != nil {
		return false
	}
	return s.issue(in, v, now)
}

// expire ends a wake whose lease is over. If it was not known to have arrived, it has not.
func (s *Subscription) expire(in Input, v View, now time.Time) {
	if s.Wake == nil || s.Wake.Until.IsZero() || now.Before(s.Wake.Until) {
		return
	}
	if s.Wake.Send && !s.NotBefore.After(now) {
		s.later(in, now)
	}
	s.end(v)
}

// later puts off the next attempt.
func (s *Subscription) later(in Input, now time.Time) {
	s.Failures++
	wait := mostWait
	if s.Failures < 7 {
		wait = min(firstWait<<(s.Failures-1), mostWait)
	}
	wait = time.Duration(float64(wait) * (1 - spread + 2*spread*in.Jitter))
	s.NotBefore = now.Add(wait).UTC()
}

// end ends the wake.
func (s *Subscription) end(v View) {
	s.Wake = nil
	s.fold(v)
}

// issue begins a wake if there is something new, and not too soon after an attempt that failed.
func (s *Subscription) issue(in Input, v View, now time.Time) bool {
	if s.NotBefore.After(now) {
		return false
	}
	pending := Pending(s, v)
	s.NotBefore = time.Time{}
	if len(pending) == 0 {
		s.Failures = 0
		return false
	}
	s.begin(in, pending, now)
	s.Wake.Send = true
	if s.Config.Kind == Webhook {
		s.Wake.Until = now.Add(s.Config.Lease).UTC()
	}
	return true
}

func (s *Subscription) begin(in Input, pending []Stream, now time.Time) {
	s.Generation++
	s.Wake = &Wake{ID: in.WakeID, Trigger: pending[0].Path, Snapshot: snapshot(pending), At: now.UTC()}
}

func snapshot(pending []Stream) map[string]uint64 {
	tails := map[string]uint64{}
	for _, p := range Named(pending) {
		tails[p.Path] = p.Tail
	}
	return tails
}

// sent is told of an attempt. Whoever has called back was reached, whatever became of the answer.
func (s *Subscription) sent(in Input, v View, now time.Time) (woken bool) {
	w := s.Wake
	switch {
	case w == nil || w.ID != in.Wake:
		return false
	case in.OK && in.Done:
		for path, tail := range w.Snapshot {
			s.ack(Ack{path, tail}, max(tail, v.Tails[path]))
		}
		s.arrived()
		s.end(v)
		return s.issue(in, v, now)
	case !w.Send:
	case in.OK || w.Heard:
		s.arrived()
	default:
		s.later(in, now)
	}
	return false
}

func (s *Subscription) arrived() {
	s.Failures, s.NotBefore = 0, time.Time{}
	s.Wake.Send = false
}

// notYours is said to whoever reports about a wake that is not under way.
const notYours = "the wake has ended or was superseded, or wake_id and generation do not match the notice or claim"

// fence lets only the one pass who works on the wake that is under way.
func (s *Subscription) fence(in Input, now time.Time) error {
	w := s.Wake
	switch {
	case w == nil, w.ID != in.Wake, s.Generation != in.Generation,
		!w.Until.IsZero() && !now.Before(w.Until), s.Config.Kind == PullWake && w.Holder == "":
		return refuse(Fenced, notYours)
	}
	return nil
}

func (s *Subscription) called(in Input, v View, now time.Time) (woken bool, err error) {
	if err := s.fence(in, now); err != nil {
		return false, err
	}
	for _, a := range in.Acks {
		if err := s.checkAck(a, v); err != nil {
			return false, err
		}
	}
	for _, a := range in.Acks {
		s.ack(a, s.tail(a.Path, v))
	}
	s.arrived()
	s.Wake.Heard, s.Wake.Until = true, now.Add(s.Config.Lease).UTC()
	if !in.Done {
		return false, nil
	}
	s.end(v)
	return s.issue(in, v, now), nil
}

// checkAck admits a place from the cursor up to where the stream ends, or ended when the wake began.
func (s *Subscription) checkAck(a Ack, v View) error {
	tail := s.tail(a.Path, v)
	switch {
	case !s.Follows(a.Path):
		return refuse(InvalidOffset, "%q is not a stream of this subscription", a.Path)
	case a.Offset < s.cursor(a.Path, tail):
		return refuse(InvalidOffset, "%q is already acknowledged beyond this offset", a.Path)
	case a.Offset > tail:
		return refuse(InvalidOffset, "%q ends before this offset", a.Path)
	}
	return nil
}

// tail returns where a stream ends, or ended when the wake began.
func (s *Subscription) tail(path string, v View) uint64 {
	return max(v.Tails[path], s.Wake.Snapshot[path])
}

// ack moves the cursor of a stream that ends at a place. A stream that is as far already needs no link because of that.
func (s *Subscription) ack(a Ack, tail uint64) {
	if a.Offset <= s.cursor(a.Path, tail) {
		return
	}
	link := s.Links[a.Path]
	link.Acked = a.Offset
	s.Links[a.Path] = link
}

func (s *Subscription) claimed(in Input, v View, now time.Time) error {
	if s.Config.Kind != PullWake {
		return invalid("wakes of a webhook subscription cannot be claimed")
	}
	s.expire(in, v, now)
	if s.Wake != nil && s.Wake.Holder != "" {
		return &Refusal{Code: AlreadyClaimed, Message: "another worker has claimed it", Holder: s.Wake.Holder, Generation: s.Generation}
	}
	pending := Pending(s, v)
	if len(pending) == 0 {
		if s.Wake != nil { // or nobody would be told of what comes next
			s.end(v)
		}
		return refuse(NoPendingWork, "no stream has new messages")
	}
	if s.Wake == nil {
		s.begin(in, pending, now)
	}
	s.arrived()
	s.Wake.Holder, s.Wake.Snapshot, s.Wake.Until = in.Worker, snapshot(pending), now.Add(s.Config.Lease).UTC()
	return nil
}

// link names streams. One that the pattern has keeps its cursor; of others, what there is now is done.
func (s *Subscription) link(paths []string, v View) error {
	explicit, named, all := 0, 0, 0
	held := s.held(s.behind(v))
	for path, link := range held {
		all += weight(path)
		if link.Explicit {
			explicit++
			named += weight(path)
		}
	}
	for _, path := range paths {
		link, tail := s.Links[path], v.Tails[path]
		switch {
		case link.Explicit:
			continue
		case s.matches(path):
			link.Acked = s.cursor(path, tail)
		default:
			link.Acked = tail
		}
		if _, ok := held[path]; !ok {
			all += weight(path)
		}
		explicit, named = explicit+1, named+weight(path)
		switch {
		case explicit > MaxNamed:
			return invalid("streams: use at most %d; use a pattern for more", MaxNamed)
		case named > mostText:
			return invalid("streams: the names exceed %d KiB; use a pattern", mostText>>10)
		case all > mostText+mostLinkText:
			return invalid("too many streams with new messages and long names; acknowledge some first")
		}
		link.Explicit = true
		s.Links[path] = link
	}
	return nil
}

// unlink keeps the streams that the pattern has.
func (s *Subscription) unlink(paths []string) {
	for _, path := range paths {
		link, ok := s.Links[path]
		if !ok {
			continue
		}
		link.Explicit = false
		s.Links[path] = link
		if !s.matches(path) {
			delete(s.Links, path)
			if s.Wake != nil {
				delete(s.Wake.Snapshot, path)
			}
		}
	}
}

// withdraw takes streams out of a wake that nobody has seen yet. There is none without any.
func (s *Subscription) withdraw(in Input) {
	if s.Wake == nil || s.Wake.ID != in.Wake || s.Wake.Holder != "" || s.Wake.Heard {
		return
	}
	maps.DeleteFunc(s.Wake.Snapshot, func(path string, _ uint64) bool { return slices.Contains(in.Paths, path) })
	if len(s.Wake.Snapshot) == 0 {
		s.Wake = nil
		return
	}
	if _, there := s.Wake.Snapshot[s.Wake.Trigger]; !there { // nobody is to learn of that one
		s.Wake.Trigger = slices.MinFunc(slices.Collect(maps.Keys(s.Wake.Snapshot)), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.Wake.Snapshot[a], s.Wake.Snapshot[b]), cmp.Compare(a, b))
		})
	}
}
