package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLost is the error of a read that found a message which is damaged. JetStream returns none of those behind it.
var errLost = errors.New("the last message of a path cannot be read")

// Bounds of one request to JetStream for a state.
const (
	maxLasts      = 1000      // subjects; it takes 1,024
	maxListed     = 10_000    // subjects of a log that are listed rather than come upon
	maxLastsBytes = 256 << 10 // of their names
	maxUnreadable = 64        // messages at the end of a path that are no events and are passed over
)

// State returns the last event of every path as of one sequence: with the events that follow it, nothing is
// missing and nothing there twice. On a cluster, too, all is in it that was stored before the call. A path whose
// last event is not visible or is damaged is left out, and so is an event that was removed meanwhile from the
// middle of the log.
//
// Codes: NotFound for the namespace; InvalidRequest for a pattern that is none, and for a sequence that the log
// has not reached; WindowExceeded, with oldest_available_seq and current_seq, if the log begins after the
// sequence, or retention has overtaken a reader of pages.
func (l *Log) State(ctx context.Context, ns string, q model.StateQuery) (model.StatePage, error) {
	r, err := l.newStateReader(ctx, ns, q)
	if err != nil {
		return model.StatePage{}, err
	}
	err = r.few(ctx)
	switch {
	case !errors.Is(err, natsstore.ErrTooMany) && !errors.Is(err, errLost):
	case r.all <= maxListed || q.Path != "":
		err = r.listed(ctx)
	default:
		err = r.walk(ctx)
	}
	if err != nil {
		return model.StatePage{}, fmt.Errorf("state of %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	return r.page(), nil
}

// stateReader collects a page of a state.
type stateReader struct {
	log     *Log
	ns      string
	q       model.StateQuery
	lasts   []string // the subjects of which the last messages are wanted
	filter  string   // a subject that covers them
	all     uint64   // how many subjects the log has
	at      uint64
	first   uint64 // at which the log began
	after   uint64 // paths with their last message up to here were looked at
	begun   bool   // and some of them were: the next messages must not have left the log
	scanned int
	known   map[string]uint64 // where subjects' last messages lie
	events  []sluice.Event
}

func (l *Log) newStateReader(ctx context.Context, ns string, q model.StateQuery) (*stateReader, error) {
	q.Pattern = cmp.Or(q.Pattern, "/**")
	if _, err := sluice.ParsePattern(string(q.Pattern)); err != nil {
		return nil, err
	}
	q.Limit = min(cmp.Or(max(q.Limit, 0), defaultPage), maxPage)
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return nil, err
	}
	r := &stateReader{log: l, ns: ns, q: q, all: info.State.NumSubjects, at: cmp.Or(q.At, info.State.LastSeq), first: info.State.FirstSeq, after: q.After, begun: q.After > 0, known: map[string]uint64{}}
	switch {
	case r.at > info.State.LastSeq:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the log has not reached sequence %d; it ends at %d", r.at, info.State.LastSeq).With("current_seq", info.State.LastSeq)
	case r.after > r.at:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the state at %d is not available yet", r.at)
	}
	if err := checkWindow(r.at, info.State); err != nil {
		return nil, err
	}
	if !r.begun {
		r.after = max(info.State.FirstSeq, 1) - 1
	}
	r.choose()
	return r, nil
}

// choose says which subjects are wanted.
func (r *stateReader) choose() {
	if r.q.Path != "" {
		r.filter = r.log.core.Names().Subject(r.ns, r.q.Path)
		r.lasts = []string{r.filter}
		return
	}
	r.filter = r.log.core.Names().Superset(r.ns, r.q.Pattern).Subject
	if r.filter == r.log.core.Names().EventsSubjects(r.ns) {
		r.filter = ">" // without a filter, JetStream reads more than twice as fast
	}
	for _, f := range r.log.core.Names().Filters(r.ns, r.q.Pattern) {
		r.lasts = append(r.lasts, f.Subject)
	}
}

func (r *stateReader) more() bool {
	return r.after < r.at && len(r.events) < r.q.Limit && r.scanned < maxScan
}

func (r *stateReader) page() model.StatePage {
	slices.SortFunc(r.events, func(a, b sluice.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	page := model.StatePage{Seq: r.at, Events: r.events, First: r.first}
	if r.after < r.at {
		page.Next = r.after
	}
	return page
}

// few reads the state of as many paths as JetStream returns the last messages of; ErrTooMany if there are more,
// errLost if one of them is damaged.
func (r *stateReader) few(ctx context.Context) error {
	for r.more() {
		answer, err := r.ask(ctx, lastsOf{r.lasts, r.at, r.batch(), natsstore.DirectMaxBytes})
		if err != nil {
			return err
		}
		end := r.at
		if answer.More && len(answer.Msgs) > 0 {
			end = seqOf(answer.Msgs[len(answer.Msgs)-1])
		}
		if r.begun { // the first answer is of one moment
			err = r.kept(ctx)
		}
		r.begun = true
		if err == nil {
			err = r.enter(ctx, answer.Msgs, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch returns how many messages to ask for: all that there may be where some of them may not be seen.
func (r *stateReader) batch() int {
	if r.q.Visible != nil {
		return maxPage
	}
	return r.q.Limit - len(r.events) + 1
}

// listed reads the state of the paths of a log that has not very many: it lists them, and asks for the last messages of all.
func (r *stateReader) listed(ctx context.Context) error {
	parts, err := r.list(ctx)
	if err != nil {
		return err
	}
	for r.more() {
		var lasts []*nats.Msg
		end := r.at
		for _, subjects := range parts {
			answer, err := r.intact(ctx, lastsOf{subjects, r.at, r.batch(), 2 * natsstore.DirectMaxBytes / len(parts)})
			if err != nil {
				return err
			}
			if lasts = append(lasts, answer.Msgs...); answer.More && len(answer.Msgs) > 0 {
				end = min(end, seqOf(lasts[len(lasts)-1]))
			}
		}
		slices.SortFunc(lasts, func(a, b *nats.Msg) int { return cmp.Compare(seqOf(a), seqOf(b)) })
		if err := r.kept(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, lasts, end); err != nil {
			return err
		}
	}
	return nil
}

// list returns the subjects that are wanted, in as many parts as it takes to ask for their last messages.
func (r *stateReader) list(ctx context.Context) (parts [][]string, err error) {
	size := maxLastsBytes
	for _, filter := range r.lasts {
		subjects, err := r.log.subjects(ctx, r.ns, filter)
		if err != nil {
			return nil, err
		}
		for subject := range subjects {
			if !r.wants(subject) {
				continue
			}
			if size += len(subject) + 3; size > maxLastsBytes || len(parts[len(parts)-1]) == maxLasts {
				parts, size = append(parts, nil), len(subject)+3
			}
			parts[len(parts)-1] = append(parts[len(parts)-1], subject)
		}
	}
	return parts, nil
}

// walk reads the state of any number of paths: it goes through the log and asks of each path that it comes upon
// where its last message lies.
func (r *stateReader) walk(ctx context.Context) error {
	for r.more() {
		part, err := r.next(ctx)
		if err != nil {
			return err
		}
		var lasts []*nats.Msg
		if len(part.subjects) > 0 {
			if lasts, err = r.lastOf(ctx, part.subjects); err != nil {
				return err
			}
		}
		if err := r.kept(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, lasts, part.end); err != nil {
			return err
		}
		r.scanned += part.messages
	}
	return nil
}

// stretch is the part of the log after the place that was reached and up to another.
type stretch struct {
	end      uint64
	messages int
	subjects []string // that may have their last message in it
}

// next returns the stretch of the log that follows.
func (r *stateReader) next(ctx context.Context) (stretch, error) {
	return natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (stretch, error) {
		msgs, _, err := r.log.core.Direct(ctx, r.ns, natsstore.DirectRequest{Seq: r.after + 1, Subject: r.filter, Batch: maxLasts})
		if err != nil {
			return stretch{}, err
		}
		if len(msgs) > 0 {
			return r.stretch(msgs), nil
		}
		seq, err := r.log.NextSeq(ctx, r.ns, r.filter, r.after+1)
		if err == nil && seq > 0 && seq <= r.at {
			err = natsstore.ErrBehind
		}
		return stretch{end: r.at}, err
	})
}

func (r *stateReader) stretch(msgs []*nats.Msg) stretch {
	part, size, seen := stretch{}, 0, map[string]bool{}
	for _, msg := range msgs {
		seq, subject := seqOf(msg), natsstore.LastHeader(msg, natsstore.HeaderSubject)
		if seq > r.at {
			part.end = r.at
			break
		}
		if last, known := r.known[subject]; !seen[subject] && (!known || last == seq) && r.wants(subject) {
			if size += len(subject) + 3; size > maxLastsBytes {
				break
			}
			seen[subject] = true
			part.subjects = append(part.subjects, subject)
		}
		part.end = seq
		part.messages++
	}
	return part
}

// lastOf returns the last messages of some subjects, after the place that was reached.
func (r *stateReader) lastOf(ctx context.Context, subjects []string) ([]*nats.Msg, error) {
	var all []*nats.Msg
	reached := r.after
	defer func() { r.after = reached }()
	for {
		answer, err := r.intact(ctx, lastsOf{subjects, r.at, maxPage, natsstore.DirectMaxBytes})
		if err != nil {
			return nil, err
		}
		for _, msg := range answer.Msgs {
			r.known[natsstore.LastHeader(msg, natsstore.HeaderSubject)] = seqOf(msg)
		}
		all = append(all, answer.Msgs...)
		if !answer.More || len(answer.Msgs) == 0 {
			return all, nil
		}
		r.after = seqOf(all[len(all)-1])
	}
}

// lastsOf asks for the last messages of subjects as if the log ended at a sequence.
type lastsOf struct {
	subjects []string
	at       uint64
	batch    int // at most so many
	bytes    int // and not many more than so many
}

// ask returns the last messages that lie after the place that was reached. The message at the end of the range is
// asked for, too, the anchor: a replica that has not got it yet finds nothing, and is asked again. And a subject whose
// last message was in a block that is gone is not found by JetStream, unless there is another one to begin looking at.
func (r *stateReader) ask(ctx context.Context, want lastsOf) (natsstore.DirectAnswer, error) {
	return natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (natsstore.DirectAnswer, error) {
		anchor, err := r.log.leadersAnchor(ctx, r.ns, want.at)
		if err != nil || anchor.Seq == 0 {
			return natsstore.DirectAnswer{}, err
		}
		upTo := min(want.at, anchor.Seq)
		body, err := json.Marshal(natsstore.DirectRequest{
			Seq: r.after + 1, Batch: want.batch, MaxBytes: want.bytes, UpTo: upTo, Lasts: append(slices.Clone(want.subjects), anchor.Subject),
		})
		if err != nil {
			return natsstore.DirectAnswer{}, fmt.Errorf("read request: %w", err)
		}
		answer, err := r.log.core.DirectOnce(ctx, r.ns, body, want.batch+1)
		switch {
		case err != nil || !answer.None:
		case answer.Lost:
			err = errLost
		case anchor.Seq == upTo:
			err = natsstore.ErrBehind
		}
		return answer, err
	})
}

// intact is ask for subjects without wildcards. It leaves out those of which the last message is damaged, and finds them by halves.
func (r *stateReader) intact(ctx context.Context, want lastsOf) (answer natsstore.DirectAnswer, err error) {
	if answer, err = r.ask(ctx, want); !errors.Is(err, errLost) {
		return answer, err
	}
	if len(want.subjects) == 1 {
		return natsstore.DirectAnswer{}, nil
	}
	answer = natsstore.DirectAnswer{}
	end := want.at
	for half := range slices.Chunk(want.subjects, (len(want.subjects)+1)/2) {
		part := want
		part.subjects = half
		one, err := r.intact(ctx, part)
		if err != nil {
			return answer, err
		}
		if one.More && len(one.Msgs) > 0 {
			answer.More, end = true, min(end, seqOf(one.Msgs[len(one.Msgs)-1]))
		}
		answer.Msgs = append(answer.Msgs, one.Msgs...)
	}
	answer.Msgs = slices.DeleteFunc(answer.Msgs, func(msg *nats.Msg) bool { return seqOf(msg) > end })
	slices.SortFunc(answer.Msgs, func(a, b *nats.Msg) int { return cmp.Compare(seqOf(a), seqOf(b)) })
	return answer, nil
}

// enter takes the wanted events of messages that lie in a stretch of the log, and goes to its end or, when the page is full, to
// where it is.
func (r *stateReader) enter(ctx context.Context, msgs []*nats.Msg, end uint64) error {
	for _, msg := range msgs {
		seq := seqOf(msg)
		if seq <= r.after || seq > end {
			continue
		}
		if len(r.events) == r.q.Limit {
			return nil
		}
		e, ok, err := r.eventOf(ctx, msg)
		if err != nil {
			return err
		}
		if ok && (r.q.Visible == nil || r.q.Visible(&e)) {
			r.events = append(r.events, e)
		}
		r.after = seq
	}
	r.after = max(r.after, end)
	return nil
}

// kept returns an error (WindowExceeded) if messages after the place that was reached have left the log by age or
// size. Where nothing was returned yet, they are passed over: one request may have found them and another not.
func (r *stateReader) kept(ctx context.Context) error {
	info, err := r.log.core.EventsInfo(ctx, r.ns)
	if err != nil {
		return err
	}
	if r.begun {
		return checkWindow(r.after, info.State)
	}
	r.begun = true
	r.after = max(r.after, max(info.State.FirstSeq, 1)-1)
	return nil
}

// eventOf returns the last event of the path of its last message, and whether there is one that is wanted.
func (r *stateReader) eventOf(ctx context.Context, msg *nats.Msg) (sluice.Event, bool, error) {
	subject := natsstore.LastHeader(msg, natsstore.HeaderSubject)
	if !r.wants(subject) {
		return sluice.Event{}, false, nil
	}
	for range maxUnreadable {
		e, err := r.log.stamps.directEvent(msg)
		if err == nil || sluice.CodeOf(err) != sluice.InvalidRequest {
			return e, err == nil, err
		}
		if msg, err = r.before(ctx, subject, e.Seq); err != nil || msg == nil {
			return sluice.Event{}, false, err
		}
	}
	return sluice.Event{}, false, nil
}

// wants reports whether the state of a subject is wanted.
func (r *stateReader) wants(subject string) bool {
	_, path, err := r.log.core.Names().ParseSubject(subject)
	if err != nil {
		return false // it is no path's
	}
	if r.q.Path != "" {
		return path == r.q.Path
	}
	return r.q.Pattern.Match(path)
}

// before returns the last message of a subject before a sequence; nil if there is none.
func (r *stateReader) before(ctx context.Context, subject string, seq uint64) (*nats.Msg, error) {
	older := *r
	older.after = 0
	if seq <= 1 {
		return nil, nil //nolint:nilnil // there is none
	}
	answer, err := older.ask(ctx, lastsOf{[]string{subject}, seq - 1, 2, natsstore.DirectMaxBytes})
	if errors.Is(err, errLost) {
		return nil, nil //nolint:nilnil // there is none that can be read
	}
	for _, msg := range answer.Msgs {
		if natsstore.LastHeader(msg, natsstore.HeaderSubject) == subject {
			return msg, err
		}
	}
	return nil, err
}
