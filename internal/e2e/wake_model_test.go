package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/waketest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// replicas is two servers on one NATS, in processes of their own, and what a model test knows of their streams.
type replicas struct {
	*workers

	t        *testing.T
	random   *rand.Rand
	children [2]*child
	servers  [2]*running
	down     [2]bool
	alive    map[sluice.Path]bool
}

// callbackAnswer is the answer to a callback.
type callbackAnswer struct {
	Token   string            `json:"token"`
	Streams []model.WakeAcked `json:"streams"`
	Error   struct {
		Code sluice.Code `json:"code"`
	} `json:"error"`
}

// shownConsumer is a consumer as it is shown.
type shownConsumer struct {
	State   sluice.WakeState `json:"state"`
	Epoch   uint64           `json:"epoch"`
	Pending bool             `json:"pending"`
}

func wokenPaths() []sluice.Path { return []sluice.Path{"/agents/1", "/agents/2", "/agents/3"} }

// passingPaths are deleted now and then, others stay.
func passingPaths() []sluice.Path { return []sluice.Path{"/tools/1", "/tools/2"} }
func otherPaths() []sluice.Path   { return append(passingPaths(), "/tools/3") }

func (r *replicas) any(paths []sluice.Path) sluice.Path { return paths[r.random.IntN(len(paths))] }

// server returns one that runs.
func (r *replicas) server() *running {
	i := r.random.IntN(2)
	if r.down[i] {
		i = 1 - i
	}
	return r.servers[i]
}

func (r *replicas) act() {
	switch n := r.random.IntN(100); {
	case n < 22:
		r.append(r.any(append(wokenPaths(), otherPaths()...)))
	case n < 52:
		r.callback(r.any(wokenPaths()))
	case n < 57:
		r.release(1)
	case n < 58:
		r.delete(r.any(wokenPaths()))
	case n < 60:
		r.delete(r.any(passingPaths()))
	case n < 61:
		r.killInTheMiddle()
	case n < 64:
		r.restart()
	default:
		r.wait()
	}
}

// wait lets a notice come, if one does.
func (r *replicas) wait() {
	limit := time.NewTimer(50 * time.Millisecond)
	defer limit.Stop()
	select {
	case <-r.arrived:
	case <-limit.C:
	}
}

func (r *replicas) append(path sluice.Path) {
	if !r.alive[path] {
		r.server().must(r.t, http.StatusCreated, "PUT "+durableAt+string(path), "", text()...)
		r.alive[path] = true
	}
	r.server().must(r.t, http.StatusNoContent, "POST "+durableAt+string(path), "news", text()...)
	r.count("append")
}

// delete deletes a stream. Its consumer is no more then; epochs up to the one that it had are of an earlier life.
func (r *replicas) delete(path sluice.Path) {
	if !r.alive[path] {
		return
	}
	r.server().must(r.t, http.StatusNoContent, "DELETE "+durableAt+string(path), "")
	r.alive[path] = false
	r.count("delete")
	if slices.Contains(passingPaths(), path) {
		return
	}
	var c shownConsumer
	r.until("a consumer ends with its stream (S1-122)", func() bool {
		c = r.consumer(path)
		return c.State == sluice.WakeRemoved || c.State == ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	floor := c.Epoch
	for _, n := range r.notices[path] {
		floor = max(floor, n.Epoch)
	}
	r.floors[path] = append(r.floors[path], floor)
}

// consumer returns a consumer as it is shown; none has no state.
func (r *replicas) consumer(path sluice.Path) shownConsumer {
	var c shownConsumer
	a := r.server().call(r.t, "GET /v1/subscriptions/agents/consumers/"+url.PathEscape(string(path)), "")
	if a.status == http.StatusOK {
		require.NoError(r.t, json.Unmarshal([]byte(a.text), &c))
	}
	return c
}

// until waits for what has to come.
func (r *replicas) until(what string, holds func() bool) {
	r.t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.NewTimer(2*time.Minute)
	defer tick.Stop()
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			require.Fail(r.t, what)
		}
	}
}

// callback has a worker call back: mostly the one that was woken last, now and then twice at once.
func (r *replicas) callback(path sluice.Path) {
	notices := r.of(path)
	if len(notices) == 0 {
		return
	}
	n := notices[len(notices)-1]
	if r.random.IntN(4) == 0 {
		n = notices[r.random.IntN(len(notices))]
	}
	cb, forged := r.write(&n)
	body, err := json.Marshal(cb)
	require.NoError(r.t, err)
	reply := &waketest.Reply{Consumer: n.ConsumerID, Epoch: n.Epoch, WakeID: cb.WakeID, Forged: forged, Dead: !r.alive[path]}
	r.mu.Lock()
	reply.Life = r.life(&n)
	reply.Dead = reply.Dead || reply.Life != strconv.Itoa(len(r.floors[path]))
	for _, known := range r.notices[path] {
		reply.Outdated = max(reply.Outdated, known.Epoch)
	}
	r.mu.Unlock()
	if r.random.IntN(6) == 0 {
		var twice sync.WaitGroup
		for range 2 {
			s := r.server()
			again := *reply
			twice.Go(func() { r.hear(&n, &again, r.tell(s, &n, body), false) })
		}
		twice.Wait()
		r.count("twice")
		return
	}
	a := r.tell(r.server(), &n, body)
	r.hear(&n, reply, a, true)
	if !forged && !cb.beyond && !reply.Dead && a.Error.Code != "" {
		r.explain(&n, a.Error.Code)
	}
}

// calledBack is a callback as it is written.
type calledBack struct {
	Epoch       uint64            `json:"epoch"`
	WakeID      string            `json:"wake_id,omitempty"`
	Acks        []model.WakeAcked `json:"acks,omitempty"`
	Subscribe   []sluice.Path     `json:"subscribe,omitempty"`
	Unsubscribe []sluice.Path     `json:"unsubscribe,omitempty"`
	Done        bool              `json:"done,omitempty"`

	beyond bool // it acknowledges more than there is
}

func (r *replicas) write(n *wake.Notice) (cb calledBack, forged bool) {
	cb = calledBack{Epoch: n.Epoch, WakeID: n.WakeID, Done: r.random.IntN(3) == 0}
	if r.random.IntN(3) == 0 {
		cb.WakeID = ""
	}
	switch r.random.IntN(8) {
	case 0, 1, 2, 3:
		if head := r.server().call(r.t, "HEAD "+durableAt+string(n.Primary), ""); head.status == http.StatusOK {
			cb.Acks = []model.WakeAcked{{Path: n.Primary, Offset: head.header.Get("Stream-Next-Offset")}}
		}
	case 4:
		cb.Acks = []model.WakeAcked{{Path: n.Primary, Offset: "0000000000000001_0000000000000000"}}
		cb.beyond = true // of a stream without messages
	case 5:
		cb.Acks, cb.beyond = []model.WakeAcked{{Path: n.Primary, Offset: "0999999999999999_0000000000000000"}}, true
	}
	switch r.random.IntN(12) {
	case 0, 1:
		cb.Subscribe = otherPaths()
	case 2:
		cb.Unsubscribe = []sluice.Path{r.any(otherPaths())}
	case 3:
		cb.WakeID, forged = "w_forged", true
	case 4:
		cb.Epoch, cb.WakeID, forged = cb.Epoch+1, "w_forged", true
	}
	return cb, forged
}

// tell makes a callback, again while the servers cannot say anything.
func (r *replicas) tell(s *running, n *wake.Notice, body []byte) (a callbackAnswer) {
	at, err := url.Parse(n.Callback)
	if err != nil {
		r.fail(err)
		return a
	}
	for range 50 {
		got := s.call(r.t, "POST "+at.EscapedPath(), string(body), as(r.token(n))...)
		if got.status == http.StatusServiceUnavailable {
			r.wait()
			continue
		}
		if err := json.Unmarshal([]byte(got.text), &a); err != nil || (got.status == http.StatusOK) != (a.Error.Code == "") {
			r.fail(fmt.Errorf("status %d: %s", got.status, got.text))
		}
		return a
	}
	r.fail(errors.New("no replica takes callbacks"))
	return a
}

func (r *replicas) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong(err)
}

// hear shows an answer to the witness; the offsets of those that came at once are in no order.
func (r *replicas) hear(n *wake.Notice, reply *waketest.Reply, a callbackAnswer, ordered bool) { //nolint:revive // what is, not what to do
	r.mu.Lock()
	defer r.mu.Unlock()
	reply.Code = a.Error.Code
	r.seen["callback "+string(reply.Code)]++
	if reply.Code == "" && ordered {
		reply.Offsets = offsetsOf(a.Streams)
	}
	if err := r.witness.Reply(reply); err != nil {
		r.wrong(err)
	}
	if reply.Code == "" {
		if a.Token == "" {
			r.wrong(fmt.Errorf("S5: a callback of %s succeeded without a token", epochOf(n)))
		}
		r.tokens[epochOf(n)] = a.Token
	}
}

// explain requires a reason for the refusal of a callback that was as it should be: the consumer went on, or ended.
func (r *replicas) explain(n *wake.Notice, code sluice.Code) {
	c := r.consumer(n.Primary)
	if code == sluice.WakeStale && c.Epoch > n.Epoch || code == sluice.WakeGone && (c.State == sluice.WakeRemoved || c.State == "") {
		return
	}
	r.fail(fmt.Errorf("a callback of %s was refused with %s, and now it is %+v", epochOf(n), code, c))
}

// killInTheMiddle kills a server while it takes requests. Their outcomes are unknown.
func (r *replicas) killInTheMiddle() {
	if r.down[0] || r.down[1] {
		return
	}
	i := r.random.IntN(2)
	var under sync.WaitGroup
	for _, path := range wokenPaths() {
		line, token, body := "POST "+r.servers[i].at.HTTP+durableAt+string(path), r.servers[i].token, "news"
		if notices := r.of(path); len(notices) > 0 && r.random.IntN(2) == 0 {
			n := notices[len(notices)-1]
			at, err := url.Parse(n.Callback)
			require.NoError(r.t, err)
			line, token, body = "POST "+r.servers[i].at.HTTP+at.EscapedPath(), r.token(&n), fmt.Sprintf(`{"epoch":%d,"done":true}`, n.Epoch)
		}
		under.Go(func() { r.attempt(line, token, body) })
	}
	r.children[i].kill(r.t)
	under.Wait()
	r.servers[i].api.HTTP.CloseIdleConnections()
	r.down[i] = true
	r.count("kill")
}

// attempt makes a request whose answer does not matter.
func (r *replicas) attempt(line, token, body string) {
	method, address, _ := strings.Cut(line, " ")
	req, err := http.NewRequestWithContext(r.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		r.fail(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "text/plain")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}

func (r *replicas) restart() {
	for i, down := range r.down {
		if down {
			r.children[i].start(r.t)
			r.down[i] = false
			r.count("restart")
		}
	}
}

// rest ends everything that goes wrong; then all that is pending has to be noticed and done (L1).
func (r *replicas) rest() {
	r.restart()
	r.mu.Lock()
	r.calm = true
	r.mu.Unlock()
	r.release(len(r.late))
	for _, path := range wokenPaths() {
		if !r.alive[path] {
			continue
		}
		r.until(fmt.Sprintf("L1: %s comes to rest", path), func() bool {
			c := r.consumer(path)
			notices := r.of(path)
			if c.State == sluice.WakeLive && notices[len(notices)-1].Epoch == c.Epoch { // its worker has not said yet that it is done
				n := &notices[len(notices)-1]
				r.tell(r.server(), n, fmt.Appendf(nil, `{"epoch":%d,"done":true}`, n.Epoch))
			}
			return c.State == sluice.WakeIdle && !c.Pending
		})
	}
}

// peace requires that an event for another consumer wakes none (L2).
func (r *replicas) peace() {
	before := map[sluice.Path]int{}
	for _, path := range wokenPaths() {
		before[path] = len(r.of(path))
	}
	r.append("/agents/bystander")
	r.until("a new stream is noticed", func() bool {
		return r.consumer("/agents/bystander").State == sluice.WakeIdle && len(r.of("/agents/bystander")) > 0
	})
	for path, n := range before {
		require.Len(r.t, r.of(path), n, "L2: %s was woken without pending work", path)
	}
}

// TestWake_ModelHoldsOnRealServers drives two servers in processes of their own, on one NATS, with random appends, deletions,
// answers, callbacks and kill -9, over HTTP alone, and holds S1 to S8 in what it sees, and L1 and L2 when it comes to rest.
// SLUICE_SEED=n begins with another one; SLUICE_LONG=1 makes it ten times as long. Clocks are real: that of silence is not
// waited for.
func TestWake_ModelHoldsOnRealServers(t *testing.T) { // S1-01, S1-14, S1-28…44, S1-55…65, S1-72…105, S1-119…140
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	seed, steps := uint64(1), 250
	if os.Getenv("SLUICE_LONG") != "" {
		seed, steps = uint64(time.Now().UnixNano()), 2500
	}
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%d steps from SLUICE_SEED=%d", steps, seed)
	nats := natstest.Listening(t)
	r := &replicas{workers: newWorkers(t, seed), t: t, random: rand.New(rand.NewPCG(seed, 2)), alive: map[sluice.Path]bool{}}
	for i := range r.children {
		r.children[i], r.servers[i] = replica(t, nats.ClientURL(), "1s")
	}
	made := r.server().must(t, http.StatusCreated, "PUT "+durableAt+"/agents/*?subscription=agents", `{"webhook":"`+r.hook.URL+`"}`)
	r.mu.Lock()
	r.secret, _ = made.field(t, "webhook_secret").(string)
	r.mu.Unlock()
	for range steps {
		r.act()
		r.blameless()
	}
	r.rest()
	r.peace()
	r.blameless()
	r.server().must(t, http.StatusNoContent, "DELETE "+durableAt+"/agents/*?subscription=agents", "")
	for _, path := range wokenPaths() {
		for _, n := range r.of(path) {
			require.Equal(t, sluice.WakeGone, r.tell(r.server(), &n, fmt.Appendf(nil, `{"epoch":%d}`, n.Epoch)).Error.Code, "S7")
		}
	}
	r.blameless()
	t.Log(r.seen)
}

func (r *replicas) blameless() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NoError(r.t, errors.Join(r.errs...))
}
