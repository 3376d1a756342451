package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"sluice": main, "hang": hang, "docker": docker, "isolated": isolated})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ *testing.M }

func (l leakChecked) Run() int {
	status := l.M.Run()
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// The command line, as its users meet it. Commands besides those of testscript:
//
//	exits STATUS COMMAND…    the command ends with the status
//	await FILE               the file appears within 30 seconds
//	address NAME FILE        $NAME is the server's URL in the file
//	receiver NAME STATUS     an endpoint that answers so; its URL is in $NAME
//	verifier NAME SECRET     an endpoint that answers 204 where Standard Webhooks' library verifies the request, else 401
//	received NAME N          at least N requests come to it within 30 seconds
//	$AUTHORITY, $CERT, $KEY  PEM files: an authority, a certificate of it for 127.0.0.1, and its key
//	again COMMAND… -- TEXT   the command's output has the text within 30 seconds
//	token NAME COMMAND…      $NAME, and the file name.token, is the line that the command prints
//	field NAME LINE N        $NAME is the Nth word of a line of the last command's output
//	compose                  docker compose runs the servers of deploy/compose as processes
//	unmake FILE STREAM       an admin deletes a stream at the NATS server whose address is in the file
//	walk DOCUMENT OLD=NEW…   the commands of a document of the repository, or of one section (FILE#anchor), print what it says
func TestCommandLine_Scripts(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "server")
	commands, other := commandsOf(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			r := &endpoints{counts: map[string]int{}}
			env.Values[receiversKey{}] = r
			env.Defer(r.close)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // hundreds of commands would sleep for a second each before they exit
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			if cache, err := os.UserCacheDir(); err == nil { // or a program in Go would be built with all that it imports
				env.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")))
			}
			env.Setenv("GOFLAGS", os.Getenv("GOFLAGS"))
			if other {
				env.Setenv("PATH", commands+string(os.PathListSeparator)+env.Getenv("PATH"))
			}
			env.Setenv("AUTHORITY", authority.File)
			env.Setenv("CERT", cert)
			env.Setenv("KEY", key)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "await": await, "address": address, "receiver": startReceiver, "verifier": startVerifier, "received": received, "again": again,
			"token": token, "field": field, "unmake": unmake, "walk": walk, "compose": compose,
		},
	})
}

const patience = time.Minute

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s ended with status %d, not %d", strings.Join(args[1:], " "), got, want)
	}
}

// until tries often, and ever more seldom: a try is a process or two.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	limit := time.After(patience)
	for wait := 50 * time.Millisecond; !ok(); wait = min(wait*5/4, time.Second) {
		select {
		case <-time.After(wait):
		case <-limit:
			ts.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func address(ts *testscript.TestScript, _ bool, args []string) {
	var at datadir.Addresses
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &at))
	ts.Setenv(args[0], at.HTTP)
}

func again(ts *testscript.TestScript, _ bool, args []string) {
	text := args[len(args)-1]
	until(ts, text, func() bool {
		err := ts.Exec(args[0], args[1:len(args)-2]...)
		return err == nil && strings.Contains(ts.ReadFile("stdout"), text)
	})
}

func unmake(ts *testscript.TestScript, _ bool, args []string) {
	var at struct {
		NATS string `json:"nats"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &at))
	nc, err := nats.Connect(at.NATS, nats.UserInfo("admin", "open"))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ts.Check(js.DeleteStream(context.Background(), args[1]))
}

type receiversKey struct{}

// endpoints are the endpoints of one script.
type endpoints struct {
	mu      sync.Mutex
	counts  map[string]int
	servers []*httptest.Server
}

func (r *endpoints) close() {
	for _, s := range r.servers {
		s.Close()
	}
}

func (r *endpoints) count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[name]
}

func startReceiver(ts *testscript.TestScript, _ bool, args []string) {
	r := ts.Value(receiversKey{}).(*endpoints)
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		r.counts[args[0]]++
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	r.servers = append(r.servers, s)
	ts.Setenv(args[0], s.URL)
}

func startVerifier(ts *testscript.TestScript, _ bool, args []string) {
	theirs, err := standardwebhooks.NewWebhook(args[1])
	ts.Check(err)
	r := ts.Value(receiversKey{}).(*endpoints)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = theirs.Verify(body, req.Header)
		}
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.mu.Lock()
		r.counts[args[0]]++
		r.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	r.servers = append(r.servers, s)
	ts.Setenv(args[0], s.URL)
}

func received(ts *testscript.TestScript, _ bool, args []string) {
	r := ts.Value(receiversKey{}).(*endpoints)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	until(ts, fmt.Sprintf("%d requests at %s", n, args[0]), func() bool { return r.count(args[0]) >= n })
}

func token(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec(args[1], args[2:]...))
	text, rest, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	if !strings.HasPrefix(text, "cap_") || rest != "" {
		ts.Fatalf("%s printed more or less than a token", strings.Join(args[1:], " "))
	}
	ts.Setenv(args[0], text)
	ts.Check(os.WriteFile(ts.MkAbs(strings.ToLower(args[0])+".token"), []byte(text+"\n"), 0o600))
}

func field(ts *testscript.TestScript, _ bool, args []string) {
	line, err := strconv.Atoi(args[1])
	ts.Check(err)
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	lines := strings.Split(ts.ReadFile("stdout"), "\n")
	if line > len(lines) || n > len(strings.Fields(lines[line-1])) {
		ts.Fatalf("the output has no word %d in line %d", n, line)
	}
	ts.Setenv(args[0], strings.Fields(lines[line-1])[n-1])
}
