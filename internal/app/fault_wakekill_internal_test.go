package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/faulttest"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// wakeWrite returns what kind of write a command to NATS is, "" if it changes nothing that lasts.
func wakeWrite(said []byte) string {
	words := bytes.Fields(said[:bytes.IndexByte(said, '\n')])
	if len(words) < 3 || !bytes.HasSuffix(bytes.ToUpper(words[0]), []byte("PUB")) {
		return ""
	}
	for _, kind := range []struct{ name, prefix, holds string }{
		{"record", "$KV." + streams.Wakes + ".", ""},
		{"attempt", "attempts.", ""},
		{"ack", "$JS.ACK.", "+ACK"},
		{"requeue", "$JS.ACK.", "-NAK"},
		{"consumer", "$JS.API.CONSUMER.", `"durable_name"`},
	} {
		if bytes.HasPrefix(words[1], []byte(kind.prefix)) && bytes.Contains(said, []byte(kind.holds)) {
			return kind.name
		}
	}
	return ""
}

// mortalWire is between a process and NATS: it sees all that the process says, and what it does not pass on was never said.
type mortalWire struct {
	listener net.Listener
	to       string
	see      func(said []byte) bool
	parts    sync.WaitGroup

	mu    sync.Mutex
	conns [][2]net.Conn
}

func openMortalWire(t *testing.T, server *natstest.Server, see func([]byte) bool) *mortalWire {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &mortalWire{listener: listener, to: strings.TrimPrefix(server.ClientURL(), "nats://"), see: see}
	w.parts.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.join(client)
		}
	})
	return w
}

func (w *mortalWire) join(client net.Conn) {
	server, err := net.Dial("tcp", w.to) //nolint:noctx // on the loopback address
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, [2]net.Conn{client, server})
	w.mu.Unlock()
	w.parts.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
		_, _ = io.Copy(io.Discard, server) // until it has read all that was said
		_ = server.Close()
	})
	w.parts.Go(func() {
		w.forward(bufio.NewReader(client), server)
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
}

func (w *mortalWire) forward(from *bufio.Reader, to io.Writer) {
	for {
		said, err := readSaid(from)
		if err != nil {
			return
		}
		if !w.see(said) {
			continue
		}
		if _, err := to.Write(said); err != nil {
			return
		}
	}
}

// readSaid reads a line of the protocol, with its payload if it has one.
func readSaid(from *bufio.Reader) ([]byte, error) {
	said, err := from.ReadBytes('\n')
	words := bytes.Fields(said)
	if err != nil || len(words) < 3 || !bytes.HasSuffix(bytes.ToUpper(words[0]), []byte("PUB")) {
		return said, err
	}
	size, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil {
		return nil, err
	}
	payload := make([]byte, size+2)
	_, err = io.ReadFull(from, payload)
	return append(said, payload...), err
}

// hangUp ends what the process says. What it said before is heard; it hears nothing any more.
func (w *mortalWire) hangUp() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c[0].Close()
	}
}

// wakePoint is a moment of a process: right before, or right after, the write of that number of its kind; or at a fault
// point of the engine, which lies between writes.
type wakePoint struct {
	kind   string
	number int
	after  bool
}

// wakeVictim is a process that dies at a point.
type wakeVictim struct {
	*wakeNode

	wire   *mortalWire
	at     wakePoint
	killed chan struct{}

	mu   sync.Mutex
	seen map[string]int
}

// see counts a write, and ends the process if it is the one. It reports whether the write is made.
func (v *wakeVictim) see(said []byte) bool { return v.count(wakeWrite(said)) }

func (v *wakeVictim) count(kind string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead.Load() {
		return false
	}
	v.seen[kind]++
	if kind == "" || kind != v.at.kind || v.seen[kind] != v.at.number {
		return true
	}
	v.dead.Store(true)
	close(v.killed)
	if !v.at.after {
		go v.wire.hangUp()
	}
	return v.at.after
}

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
	return slices.ContainsFunc(h.Streams, func(a sluice.WakeAcked) bool {
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

// flow is what somebody does who was woken, until it is done or told to stop.
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
		if other := w.ack("/b/x"); slices.ContainsFunc(n.Streams, func(a sluice.WakeAcked) bool { return a.Path == "/b/x" }) && other != "" {
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
	if !soon(15*time.Second, func() bool {
		node := w.way()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
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
		if !soon(15*time.Second, func() bool { return w.settled(step.path, step.state) }) {
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
	if err := w.site.streams.engine.Delete(context.Background(), key); err != nil {
		w.blame("delete: %v", err)
	}
	if !soon(15*time.Second, func() bool {
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

// wakeKiller lets the scenario run, again and again, on a server of its own.
type wakeKiller struct {
	t     *testing.T
	name  string
	nats  *natstest.Server
	store *natsstore.Store
	runs  int
	ends  *sync.WaitGroup
}

// start starts a process that dies at a point.
func (k *wakeKiller) start(site *wakeSite, at wakePoint) *wakeVictim {
	v := &wakeVictim{at: at, seen: map[string]int{}, killed: make(chan struct{}), wakeNode: &wakeNode{}}
	v.wire = openMortalWire(k.t, k.nats, v.see)
	store, err := natsstore.Connect(k.t.Context(), natsstore.Options{URL: "nats://" + v.wire.listener.Addr().String()})
	require.NoError(k.t, err)
	node, err := site.node(store, true, func(ports *wake.Ports, opts *wake.Options) {
		ports.Poster = mortalPoster{v}
		opts.Fault = func(point string) { v.count("at " + point) }
	})
	require.NoError(k.t, err)
	v.site, v.store, v.engine, v.cancel, v.ended, v.endLog = node.site, node.store, node.engine, node.cancel, node.ended, node.endLog
	return v
}

// mortalPoster sends nothing once its process is dead.
type mortalPoster struct{ victim *wakeVictim }

// Post is that of the process.
func (p mortalPoster) Post(ctx context.Context, sub *sluice.Subscription, l wake.Letter) (sluice.Attempt, []byte) {
	return p.victim.wakeNode.Post(ctx, sub, l)
}

// bury ends what is left of a process, and returns when NATS knows that it is gone.
func (k *wakeKiller) bury(v *wakeVictim) {
	v.wire.hangUp()
	v.wire.parts.Wait()
	k.ends.Go(func() {
		v.endLog()
		v.store.Close()
		v.stop()
	})
}

// wakeDeath is what came of one death.
type wakeDeath struct {
	reached bool
	events  int
	lost    int
	wrong   []string
	writes  map[string]int
}

// try lets the scenario run, kills the process at the point, and starts another one. With a bystander all callbacks come to
// a process that does not serve the subscription and does not die.
func (k *wakeKiller) try(at wakePoint, bystander bool) (d wakeDeath) {
	k.runs++
	site := openSite(k.t, k.store, fmt.Sprintf("%s%d", k.name, k.runs), sluice.Policy{
		Retry: sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: 3},
	}, 1)
	var front atomic.Pointer[wakeNode]
	worker := newWakeWorker(site, front.Load)
	v := k.start(site, at)
	front.Store(v.wakeNode)
	var others []*wakeNode
	other := func(owns bool) {
		n, err := site.node(k.store, owns, nil)
		require.NoError(k.t, err)
		others = append(others, n)
		front.Store(n)
	}
	if bystander {
		other(false)
	}
	over := make(chan struct{})
	var undertaker sync.WaitGroup
	undertaker.Go(func() {
		select {
		case <-v.killed:
			d.reached = true
			k.bury(v)
			other(true)
		case <-over:
		}
	})
	worker.play()
	close(over)
	undertaker.Wait()
	if !d.reached {
		v.stop() // its last writes are points as well
		select {
		case <-v.killed:
			d.reached = true
		default:
		}
		k.bury(v)
	}
	for _, n := range others {
		n.stop()
	}
	d.lost = worker.judge()
	d.wrong = worker.wrong
	for _, seqs := range worker.appended {
		d.events += len(seqs)
	}
	delete(v.seen, "")
	d.writes = v.seen
	return d
}

// wakePoints returns every point of a run with so many writes; where it is short, only the first and some of the later ones.
func wakePoints(writes map[string]int) (all []wakePoint) {
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		for n := 1; n <= writes[kind]; n++ {
			if !faulttest.Long() && n%8 != 1 {
				continue
			}
			all = append(all, wakePoint{kind, n, false})
			if !strings.HasPrefix(kind, "at ") {
				all = append(all, wakePoint{kind, n, true})
			}
		}
	}
	return all
}

// The bar of wakes: the process that wakes may die right before and right after any write of a cycle, and between what it does
// otherwise: of a first wake, a retry, an answer, a claim, an acknowledgement, another stream, a callback that is done, an
// answer that is, a removal and a return. Another one takes over. Every event is told of by a notice that lies before it, epochs
// go up, an epoch has one wake, and nobody claims another one of it.
func TestWhoWakesMayDieBetweenAnyTwoWrites(t *testing.T) { // S1-38, S1-128, S1-129, S4-17
	t.Parallel()
	watch := faulttest.Begin(t, "kill-wake")
	var ends sync.WaitGroup
	defer ends.Wait()
	var killers []*wakeKiller
	for i := range 4 {
		server := natstest.Listening(t)
		killers = append(killers, &wakeKiller{t: t, name: fmt.Sprintf("k%d-", i), nats: server, store: storeOn(t, server), ends: &ends})
	}
	var sum faulttest.Arrived
	points, visited, reached := 0, 0, map[string]int{}
	var wrong []string
	for _, bystander := range []bool{false, true} {
		peace := killers[0].try(wakePoint{}, bystander)
		require.Empty(t, peace.wrong)
		require.Zero(t, peace.lost)
		todo := wakePoints(peace.writes)
		t.Logf("callbacks elsewhere: %v; %v", bystander, peace.writes)
		deaths := make([]wakeDeath, len(todo))
		var next atomic.Int64
		var workers sync.WaitGroup
		for _, k := range killers {
			workers.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
					deaths[i] = k.try(todo[i], bystander)
				}
			})
		}
		workers.Wait()
		for i, d := range deaths {
			points++
			sum.Events, sum.Lost = sum.Events+d.events, sum.Lost+d.lost
			if d.reached {
				visited++
				reached[todo[i].kind]++
			}
			if len(d.wrong) > 0 || d.lost > 0 {
				wrong = append(wrong, fmt.Sprintf("%+v (%v): lost %d; %s", todo[i], bystander, d.lost, strings.Join(d.wrong, "; ")))
			}
		}
		for kind := range peace.writes {
			require.NotZero(t, reached[kind], "no process died at %q", kind)
		}
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
	watch.End(sum, fmt.Sprintf("%d deaths at %d points of a scenario of 12 notices; the memory is that of the test's many servers", visited, points))
}
