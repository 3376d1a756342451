package wakesuite

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the tested server.
type Server struct {
	Base  string // base URL of its streams, like http://127.0.0.1:8080/streams/default
	Token string // sent with every request about streams and subscriptions; none if it is empty
}

// pace is a test's scheduling class.
type pace int

const (
	quick pace = iota
	slow       // takes more than five seconds, because it waits for a clock; starts immediately
	heavy      // keeps the server busy: runs alone, after all others
)

// test is a requirement for a server, with the statements of S1 that it covers. rows are separated
// by spaces.
type test struct {
	name string
	rows string // like "S1-03 S1-106"
	pace pace
	run  func(*world)
}

// few limits concurrent quick tests.
const few = 6

// Run runs the suite, without the slow tests if testing.Short. Tests run concurrently, regardless
// of the number of processors, because most of them wait. The heavy ones run at the end, one at a
// time: run beside the others, they kept a server with two processors from answering in time. It
// returns when all have ended. The name of a test is its requirement, as a sentence.
func Run(t *testing.T, s Server) {
	t.Helper()
	s.Base = strings.TrimSuffix(s.Base, "/")
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	hc := &http.Client{Transport: transport, Timeout: patience}
	turns := make(chan struct{}, few)
	run := func(x test) {
		t.Run(x.name, func(t *testing.T) {
			if x.pace == slow && testing.Short() {
				t.Skip("takes long")
			}
			x.run(&world{t: t, server: s, http: hc, name: strings.ToLower(rand.Text()[:12])})
		})
	}
	var all sync.WaitGroup
	for _, x := range tests() {
		switch x.pace {
		case slow:
			all.Go(func() { run(x) })
		case quick:
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				run(x)
			})
		case heavy:
		}
	}
	all.Wait()
	for _, x := range tests() {
		if x.pace == heavy {
			run(x)
		}
	}
}

func tests() []test {
	return slices.Concat(subscriptionTests(), refusalTests(), patternTests(), noticeTests(), signatureTests(), cycleTests(), doneTests(), ackTests(),
		membershipTests(), callbackTests(), tokenTests(), concurrencyTests(), retryTests(), goneTests(), crowdTests(), clockTests())
}

// broken returns the names of the tests that both public servers fail.
func broken() []string {
	return []string{
		"streams that were there before wake on new events",
		"an ack beyond the tail is refused",
		"acked offsets never decrease",
		"an ack of a stream that is not subscribed is refused",
		"a consumer is gone with its primary stream, whatever else it is subscribed to",
		"the callback that unsubscribes the last stream succeeds, later ones are gone",
		"a description is a part of the configuration",
		"unsafe webhook URLs are refused and nothing is stored",
		"only its own pattern deletes a subscription, and only once",
		"a wake that nobody answers is repeated after ten seconds",
		"what arrives while a notice is answered with done is not acknowledged unseen",
		"every answer but 2xx is a failure and is tried again",
		"a token counts for its epoch alone",
	}
}
