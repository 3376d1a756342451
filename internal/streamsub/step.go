package streamsub

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Do is the kind of an input.
type Do int

// The kinds of input.
const (
	Look      Do = iota // there may be new messages, or a deadline has passed
	Sent                // the wake was sent, or could not be
	Called              // a worker reports progress
	Claimed             // a worker claims the wake
	Released            // a worker releases it
	Linked              // streams are linked
	Unlinked            // streams are unlinked
	Withdrawn           // streams of a wake must not be announced after all
)

// Input is an event that a subscription handles, with the random values that Step needs.
type Input struct {
	Do     Do
	WakeID string  // the id of a wake that this input may begin
	Jitter float64 // in [0, 1), for the time of the next attempt

	Wake       string // Sent, Called, Released, Withdrawn: the wake concerned
	Generation uint64 // Called, Released
	OK         bool   // Sent: success
	Done       bool   // Sent, Called
	Acks       []Ack  // Called
	Worker     string // Claimed
	Paths      []string
}

// mayWake reports whether new messages may start a wake.
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

// Ack acknowledges a stream up to a sequence, included.
type Ack struct {
	Path   string
	Offset uint64
}

// Backoff after a failed attempt.
const (
	firstWait = time.Second
	mostWait  = time.Minute
	spread    = 0.2
)

// Step decides a subscription's next state. It returns the state to store if it differs from s,
// whether a new wake has begun, and a *Refusal if it refuses a request. Even a refusal may change
// the state. Step changes nothing that s refers to.
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
			return before, false, err // links all streams or none
		}
	case Unlinked:
		s.unlink(in.Paths)
	case Withdrawn:
		s.withdraw(in)
	}
	s.fit(v)
	return s, woken, err
}

// restart handles a log that lost its end or was recreated. Such a log uses sequences again, for
// messages that were not announced yet. So restart resets cursors behind its end: repeating
// messages is better than missing some.
func (s *Subscription) restart(v View) {
	if v.At < s.Floor {
		s.Floor, s.Base = 0, 0
	}
	for path, link := range s.Links {
		if link.Acked > v.At {
			link.Acked = 0
			s.Links[path] = link
		}
	}
}

// beyond reports whether a cursor is beyond the end of the log.
func (s *Subscription) beyond(end uint64) bool {
	for _, link := range s.Links {
		if link.Acked > end {
			return true
		}
	}
	return s.Floor > end
}

func (s *Subscription) look(in Input, v View, now time.Time) (woken bool) {
	s.expire(in, v, now)
	if s.Wake != nil {
		return false
	}
	return s.issue(in, v, now)
}

// expire ends a wake when its lease is over. If its notice was still to be sent then, the wake
// counts as failed.
func (s *Subscription) expire(in Input, v View, now time.Time) {
	if s.Wake == nil || s.Wake.Until.IsZero() || now.Before(s.Wake.Until) {
		return
	}
	if s.Wake.Send && !s.NotBefore.After(now) {
		s.later(in, now)
	}
	s.end(v)
}

// later counts a failure and sets the time of the next attempt. Failures 1, 2, 3, … give 1, 2, 4,
// 8, 16, 32 and then 60 seconds, each with a jitter of a fifth.
func (s *Subscription) later(in Input, now time.Time) {
	s.Failures++
	wait := mostWait
	if s.Failures < 7 {
		wait = min(firstWait<<(s.Failures-1), mostWait)
	}
	wait = time.Duration(float64(wait) * (1 - spread + 2*spread*in.Jitter))
	s.NotBefore = now.Add(wait).UTC()
}

// end ends the wake, and removes links that are not needed any more.
func (s *Subscription) end(v View) {
	s.Wake = nil
	s.fold(v)
}

// issue begins a wake if messages are pending, except during the backoff after a failed attempt.
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

// sent applies the outcome of an attempt. It ignores a failure if the worker has called back
// meanwhile, because then the notice has arrived.
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
	case in.OK:
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

// notYours is the message for a report about a wake that is not the active one.
const notYours = "the wake has ended or was superseded, or wake_id and generation do not match the notice or claim"

// fence refuses a report that is not about the active wake and its generation, or comes after its
// lease.
func (s *Subscription) fence(in Input, now time.Time) error {
	w := s.Wake
	switch {
	case w == nil, w.ID != in.Wake, s.Generation != in.Generation,
		!w.Until.IsZero() && !now.Before(w.Until), s.Config.Kind == PullWake && w.Holder == "":
		return refuse(Fenced, notYours)
	}
	return nil
}

// called applies the report of a worker. It checks all acks before it applies the first, so that a
// refused report changes no cursor.
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

// checkAck refuses an offset that is not between the cursor and the end of the stream. The cursor
// itself is valid even behind that end, because notices list it: a fork begins at the end of its
// source and may have no events of its own. If the stream has nothing behind the cursor any more,
// any offset of the log is valid, and counts as the end: a worker may have read events that were
// erased since, or have aged out.
func (s *Subscription) checkAck(a Ack, v View) error {
	tail := s.tail(a.Path, v)
	cursor := s.cursor(a.Path, tail)
	end := max(tail, cursor)
	if v.Tails[a.Path] <= cursor {
		end = max(end, v.At)
	}
	switch {
	case !s.Follows(a.Path):
		return refuse(InvalidOffset, "%q is not a stream of this subscription", a.Path)
	case a.Offset < cursor:
		return refuse(InvalidOffset, "%q is already acknowledged beyond this offset", a.Path)
	case a.Offset > end:
		return refuse(InvalidOffset, "%q ends before this offset", a.Path)
	}
	return nil
}

// tail returns the end of a stream, now or when the wake began, whichever is later.
func (s *Subscription) tail(path string, v View) uint64 {
	return max(v.Tails[path], s.Wake.Snapshot[path])
}

// ack moves the cursor of a stream with the given tail forward, up to that tail. If the cursor is
// already there, it creates no link.
func (s *Subscription) ack(a Ack, tail uint64) {
	offset := min(a.Offset, tail)
	if offset <= s.cursor(a.Path, tail) {
		return
	}
	link := s.Links[a.Path]
	link.Acked = offset
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
		if s.Wake != nil { // otherwise the wake would hide later messages
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

// link adds named streams. A stream that matches the pattern keeps its cursor. The existing
// messages of any other stream count as done.
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

// unlink removes named streams. One that matches the pattern keeps its cursor, but is no longer
// named.
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

// withdraw removes streams from a wake that no worker has claimed or answered yet. A wake without
// streams ends.
func (s *Subscription) withdraw(in Input) {
	if s.Wake == nil || s.Wake.ID != in.Wake || s.Wake.Holder != "" || s.Wake.Heard {
		return
	}
	maps.DeleteFunc(s.Wake.Snapshot, func(path string, _ uint64) bool { return slices.Contains(in.Paths, path) })
	if len(s.Wake.Snapshot) == 0 {
		s.Wake = nil
		return
	}
	if _, there := s.Wake.Snapshot[s.Wake.Trigger]; !there { // the trigger must stay hidden
		s.Wake.Trigger = slices.MinFunc(slices.Collect(maps.Keys(s.Wake.Snapshot)), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.Wake.Snapshot[a], s.Wake.Snapshot[b]), cmp.Compare(a, b))
		})
	}
}
