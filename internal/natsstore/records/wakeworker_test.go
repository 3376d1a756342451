package records_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Phases of a scenario: what the worker does when it is woken.
const (
	phaseAcknowledge = iota // fails the first attempt, then claims, acknowledges, subscribes to another stream, and is done with something pending
	phaseReport             // claims, acknowledges all and is done, in one callback
	phaseAnswer             // says in its answer that it is done
	phaseLeave              // acknowledges, and leaves all streams
	phaseFail               // answers 500
)

// heard is a notice, and how far its own stream went when it was sent.
type heard struct {
	wake.Notice

	seq uint64
}

// tells reports whether the notice was sent after something was stored in a stream, and says that it is not acknowledged.
func (h *heard) tells(path sluice.Path, seq uint64) bool {
	if path == h.Primary && seq > h.seq || path != h.Primary && !slices.Contains(h.TriggeredBy, path) {
		return false
	}
	return slices.ContainsFunc(h.Streams, func(a model.WakeAcked) bool {
		at, err := durable.ParseOffset(a.Offset)
		return a.Path == path && (a.Offset == "-1" || err == nil && at < seq)
	})
}

// wakeWorker is whom a site wakes. It remembers what it saw.
type wakeWorker struct {
	site *wakeSite
	way  func() *wakeNode // to whom it calls back

	flows sync.WaitGroup

	mu       sync.Mutex
	phase    int
	failed   bool
	added    bool // the event in the middle of the first cycle
	begun    map[string]bool
	notices  []heard
	claims   map[string]map[string]bool // wake ids that were accepted, by path and epoch
	appended map[sluice.Path][]uint64
	wrong    []string
}

func newWakeWorker(site *wakeSite, way func() *wakeNode) *wakeWorker {
	w := &wakeWorker{site: site, way: way, begun: map[string]bool{}, claims: map[string]map[string]bool{}, appended: map[sluice.Path][]uint64{}}
	site.post = w.post
	return w
}

func (w *wakeWorker) enter(phase int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

func (w *wakeWorker) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// append appends to a stream.
func (w *wakeWorker) append(path sluice.Path) {
	seq, err := w.site.append(path)
	if err != nil {
		w.blame("append: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appended[path] = append(w.appended[path], seq)
}

// post takes a notice.
func (w *wakeWorker) post(l wake.Letter) (int, string) {
	var n wake.Notice
	if err := json.Unmarshal(l.Body, &n); err != nil {
		w.blame("notice: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, heard{n, l.Seq})
	switch {
	case w.phase == phaseAnswer:
		return http.StatusOK, `{"done":true}`
	case w.phase == phaseFail, !w.failed:
		w.failed = true
		return http.StatusInternalServerError, ""
	}
	if !w.begun[n.WakeID] {
		w.begun[n.WakeID] = true
		phase := w.phase
		w.flows.Go(func() { w.flow(n, phase) })
	}
	return http.StatusOK, ""
}

// flow is the work of a woken worker, until it is done or told to stop.
func (w *wakeWorker) flow(n wake.Notice, phase int) {
	switch phase {
	case phaseAcknowledge:
		if !w.call(n, `"wake_id":"`+n.WakeID+`"`) {
			return
		}
		w.forge(n)
		if !w.call(n, `"acks":[`+w.ack("/a/1")+`],"subscribe":["/b/x"]`) {
			return
		}
		w.mu.Lock()
		first := !w.added
		w.added = true
		w.mu.Unlock()
		if first {
			w.append("/a/1")
		}
		if w.call(n, `"done":true`) {
			w.enter(phaseReport)
		}
	case phaseReport:
		acks := w.ack("/a/1")
		if other := w.ack("/b/x"); slices.ContainsFunc(n.Streams, func(a model.WakeAcked) bool { return a.Path == "/b/x" }) && other != "" {
			acks += "," + other
		}
		w.call(n, `"wake_id":"`+n.WakeID+`","acks":[`+acks+`],"done":true`)
	case phaseLeave:
		w.call(n, `"wake_id":"`+n.WakeID+`","acks":[`+w.ack("/a/1")+`],"unsubscribe":["/a/1","/b/x"]`)
	}
}

// ack returns an acknowledgement of all that a stream has.
func (w *wakeWorker) ack(path sluice.Path) string {
	tail, err := w.site.streams.Tail(context.Background(), w.site.sub.Namespace, path)
	if err != nil {
		w.blame("tail: %v", err)
	}
	if tail.Seq == 0 {
		return ""
	}
	return fmt.Sprintf(`{"path":%q,"offset":%q}`, path, w.site.streams.FormatOffset(tail.Seq))
}

// call calls back, again and again until it is answered, and reports whether it was taken.
func (w *wakeWorker) call(n wake.Notice, body string) bool {
	err := w.ask(n, body)
	switch code := sluice.CodeOf(err); {
	case err == nil:
		if strings.Contains(body, n.WakeID) {
			key := fmt.Sprint(n.Primary, " ", n.Epoch)
			w.mu.Lock()
			if w.claims[key] == nil {
				w.claims[key] = map[string]bool{}
			}
			w.claims[key][n.WakeID] = true
			w.mu.Unlock()
		}
		return true
	case code == sluice.WakeStale, code == sluice.WakeTaken, code == sluice.WakeGone, code == sluice.WakeTokenInvalid:
		return false
	}
	w.blame("%s: %v", body, err)
	return false
}

// forge claims under another wake id.
func (w *wakeWorker) forge(n wake.Notice) {
	if err := w.ask(n, `"wake_id":"w_forged"`); err == nil {
		w.blame("a claim of another wake was accepted in epoch %d", n.Epoch)
	}
}

func (w *wakeWorker) ask(n wake.Notice, body string) error {
	body = fmt.Sprintf(`{"epoch":%d,%s}`, n.Epoch, body)
	var answer error
	if !soon(time.Minute, func() bool {
		node := w.way()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, answer = node.engine.Call(ctx, w.site.sub.Namespace, n.ConsumerID, n.Token, []byte(body))
		_, refused := errors.AsType[*sluice.Error](answer)
		return !node.dead.Load() && (answer == nil || refused && sluice.CodeOf(answer) != sluice.Unavailable)
	}) {
		w.blame("%s is not answered: %v", body, answer)
	}
	return answer
}

// settled reports whether a consumer is at rest, and everything is acknowledged.
func (w *wakeWorker) settled(path sluice.Path, state sluice.WakeState) bool {
	c := w.site.record(path)
	if c.State != state {
		return false
	}
	for _, p := range c.Streams {
		tail, err := w.site.streams.Tail(context.Background(), w.site.sub.Namespace, p.Path)
		if err != nil || state == sluice.WakeIdle && tail.Seq > p.Acked {
			return false
		}
	}
	return true
}

// play lets the scenario happen, and returns whether it came to its end.
func (w *wakeWorker) play() bool {
	steps := []struct {
		phase int
		path  sluice.Path // of the consumer
		act   func()
		state sluice.WakeState
	}{
		{phaseAcknowledge, "/a/1", func() { w.append("/a/1") }, sluice.WakeIdle},
		{phaseAnswer, "/a/1", func() { w.append("/a/1") }, sluice.WakeIdle},
		{phaseReport, "/a/1", func() { w.append("/b/x") }, sluice.WakeIdle},
		{phaseLeave, "/a/1", func() { w.append("/a/1") }, sluice.WakeRemoved},
		{phaseAnswer, "/a/1", func() { w.append("/a/1") }, sluice.WakeIdle},
		{phaseAnswer, "/a/1", func() { w.end("/a/1") }, sluice.WakeRemoved},
		{phaseReport, "/a/1", func() { w.append("/a/1") }, sluice.WakeIdle},
		{phaseFail, "/a/2", func() { w.append("/a/2") }, sluice.WakeRemoved},
		{phaseAnswer, "/a/2", func() { w.append("/a/2") }, sluice.WakeIdle},
	}
	for i, step := range steps {
		w.enter(step.phase)
		step.act()
		if !soon(time.Minute, func() bool { return w.settled(step.path, step.state) }) {
			w.blame("step %d does not come to rest: %+v", i, w.site.record(step.path))
			return false
		}
		w.flows.Wait()
	}
	return true
}

// end deletes a stream.
func (w *wakeWorker) end(path sluice.Path) {
	key := durable.Key{Namespace: w.site.sub.Namespace, Path: path}
	if err := w.site.streams.Engine.Delete(context.Background(), key); err != nil {
		w.blame("delete: %v", err)
	}
	if !soon(time.Minute, func() bool {
		node := w.way()
		err := node.engine.Ended(context.Background(), key.Namespace, path)
		return err == nil && !node.dead.Load()
	}) {
		w.blame("the end of a stream is not taken")
	}
}

// judge compares what was seen with what was promised.
func (w *wakeWorker) judge() (lost int) {
	w.flows.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	epochs, ids := map[sluice.Path]uint64{}, map[string]string{}
	for _, n := range w.notices {
		key := fmt.Sprint(n.Primary, " ", n.Epoch)
		if ids[key] == "" {
			ids[key] = n.WakeID
		}
		if ids[key] != n.WakeID || n.Epoch < epochs[n.Primary] {
			w.wrong = append(w.wrong, fmt.Sprintf("notices of %s: epoch %d, wake %s after epoch %d, wake %s", n.Primary, n.Epoch, n.WakeID, epochs[n.Primary], ids[key]))
		}
		epochs[n.Primary] = n.Epoch
	}
	for path, seqs := range w.appended {
		for _, seq := range seqs {
			if !slices.ContainsFunc(w.notices, func(h heard) bool { return h.tells(path, seq) }) {
				lost++
			}
		}
	}
	for key, claimed := range w.claims {
		if len(claimed) > 1 {
			w.wrong = append(w.wrong, fmt.Sprintf("%s was claimed by %v", key, slices.Collect(maps.Keys(claimed))))
		}
	}
	return lost
}
