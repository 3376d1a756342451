package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// audienceEnv makes a child process the readers of feeds that its value, an audience in JSON,
// describes.
const audienceEnv = "SLUICE_BENCH_AUDIENCE"

// audience is readers of feeds in a process of their own, to separate their resource use from the
// server's. They only count the events.
type audience struct {
	Address string `json:"address"`
	Token   string `json:"token"`
	Query   string `json:"query"`
	Stream  string `json:"stream"` // path of the stream that is read instead of a feed
	Readers int    `json:"readers"`
	Socket  bool   `json:"socket"` // over WebSockets
	Stares  bool   `json:"stares"` // reads nothing after the acknowledgement
	Expect  int    `json:"expect"` // events for each; 0: any number
}

// heard is the result of an audience. Error is "" if all went well.
type heard struct {
	Events   int           `json:"events"`
	Lagged   int           `json:"lagged"` // lagged messages received
	Last     time.Time     `json:"last"`   // when the last expected event arrived
	P50, P99 time.Duration // after the start of its publish, of every tenth reader
	Longest  time.Duration
	Error    string `json:"error"`
}

const (
	hearTogether = 32         // readers that connect concurrently
	hearBuffer   = 16 << 10   // of each, in bytes
	stareBuffer  = 4 << 10    // receive buffer of a reader that does not read
	stareSegment = 536        // keeps the server's send buffer small
	hearSample   = 10         // the lateness is measured of one reader in this many
	markBegins   = `"mark":"` // of events' data
	eventBegins  = `,"event":{`
	laggedBegins = `{"lagged":`
	feedBegun    = `"current_seq":`
	streamBegun  = `"upToDate":true`
)

// opening returns the request line of a reader, what acknowledges it, and the beginning of each event.
func (a audience) opening() (request, begun, begins string) {
	if a.Stream != "" {
		return "/streams/" + namespace + a.Stream + "?live=sse&offset=now", streamBegun, markBegins
	}
	return "/v1/namespaces/" + namespace + "/feed?" + a.Query, feedBegun, eventBegins
}

// runAudience opens the feeds, reports that, reads until all expected events have arrived, or its
// standard input ends, and prints the result. A failure after the feeds are open is part of the
// result, which is then printed, too. It returns when ctx or its standard input has ended.
func runAudience(ctx context.Context, spec string, stdin io.Reader, stdout io.Writer) error {
	var a audience
	if err := json.Unmarshal([]byte(spec), &a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make([]*listener, a.Readers)
	err := together(hearTogether, func(lane int) error {
		for i := lane; i < a.Readers; i += hearTogether {
			l, err := a.open(ctx)
			if err != nil {
				return err
			}
			l.sampled = i%hearSample == 0
			all[i] = l
		}
		return nil
	})
	defer func() {
		for _, l := range all {
			if l != nil {
				_ = l.conn.Close() // it was only read
			}
		}
	}()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, "{}\n"); err != nil {
		return err
	}
	go func() { // ends with the process, or with its standard input
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	report, err := json.Marshal(a.listen(ctx, all))
	if err == nil {
		_, err = stdout.Write(append(report, '\n'))
	}
	<-ctx.Done()
	return err
}

// listen reads with all listeners.
func (a audience) listen(ctx context.Context, all []*listener) (h heard) {
	if a.Stares {
		<-ctx.Done()
		return h
	}
	defer context.AfterFunc(ctx, func() {
		for _, l := range all {
			_ = l.conn.Close() // that ends its reading
		}
	})()
	err := together(len(all), func(i int) error { return all[i].listen(a.Expect) })
	if err != nil && ctx.Err() == nil {
		h.Error = err.Error()
	}
	var late []time.Duration
	for _, l := range all {
		h.Events += l.events
		h.Lagged += l.lagged
		if l.last.After(h.Last) {
			h.Last = l.last
		}
		late = append(late, l.late...)
	}
	h.P50, h.P99, h.Longest = percentile(late, 50), percentile(late, 99), percentile(late, 100)
	return h
}

// listener is one reader.
type listener struct {
	conn    net.Conn
	begins  []byte // each event
	buffer  []byte
	kept    int  // bytes of the buffer that may be the beginning of a marker
	sampled bool // its lateness is measured
	events  int
	lagged  int
	last    time.Time
	late    []time.Duration
}

// open opens a feed, and reads until it is acknowledged.
func (a audience) open(ctx context.Context) (*listener, error) {
	dialer := net.Dialer{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		if !a.Stares {
			return nil
		}
		failed := conn.Control(func(fd uintptr) {
			err = stare(fd)
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(ctx, "tcp", a.Address)
	if err != nil {
		return nil, err
	}
	upgrade := ""
	if a.Socket {
		upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	}
	request, begun, begins := a.opening()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer %s\r\n%s\r\n", request, a.Token, upgrade)
	l := &listener{conn: conn, begins: []byte(begins), buffer: make([]byte, hearBuffer)}
	for err == nil && !bytes.Contains(l.buffer[:l.kept], []byte(begun)) {
		if l.kept == len(l.buffer) || bytes.Contains(l.buffer[:l.kept], []byte(`{"error":`)) {
			err = fmt.Errorf("this is neither a feed nor a stream: %.1000s", l.buffer[:l.kept])
			break
		}
		var n int
		n, err = conn.Read(l.buffer[l.kept:])
		l.kept += n
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.count(0) // bytes after the acknowledgement
	return l, nil
}

// listen reads until this many events were read, or the connection ends; 0: until that.
func (l *listener) listen(expect int) error {
	for expect == 0 || l.events < expect {
		n, err := l.conn.Read(l.buffer[l.kept:])
		if _, why, ok := bytes.Cut(l.buffer[:l.kept+n], []byte(`{"error":`)); ok {
			return fmt.Errorf("behind %d events the server ended it: %s", l.events, why)
		}
		l.count(n)
		if err != nil {
			return fmt.Errorf("behind %d events: %w", l.events, err)
		}
	}
	return nil
}

// count counts the events in the buffer, to which n bytes were added.
func (l *listener) count(n int) {
	l.last = time.Now()
	text := l.buffer[:l.kept+n]
	l.events += bytes.Count(text, l.begins)
	l.lagged += bytes.Count(text, []byte(laggedBegins))
	if l.sampled {
		l.measure(text)
	}
	l.kept = min(len(l.begins), len(laggedBegins)) - 1 // too short for a second match
	l.kept = copy(l.buffer, text[max(0, len(text)-l.kept):])
}

// measure notes the lateness of events with a complete mark.
func (l *listener) measure(text []byte) {
	for {
		_, rest, ok := bytes.Cut(text, []byte(markBegins))
		if !ok {
			return
		}
		text = rest
		mark, _, ok := bytes.Cut(rest[:min(len(rest), 64)], []byte(`"`))
		fields := strings.Fields(string(mark))
		if !ok || len(fields) != 3 {
			continue
		}
		if sent, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			l.late = append(l.late, l.last.Sub(time.Unix(0, sent)))
		}
	}
}

// gathered is a running audience.
type gathered struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
	ended  func() error
}

// gather starts an audience, and returns when all its feeds are acknowledged.
func (a audience) gather(ctx context.Context) (*gathered, error) {
	cmd, err := selfCommand(ctx, audienceEnv, a)
	if err != nil {
		return nil, err
	}
	g := &gathered{cmd: cmd}
	g.cmd.Stderr = &g.stderr
	stdout, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.lines = bufio.NewReader(stdout)
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	g.ended = sync.OnceValue(g.cmd.Wait)
	if _, err := g.lines.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("readers of feeds: %w", err), g.leave())
	}
	return g, nil
}

// heard waits until all expected events were read.
func (g *gathered) heard() (h heard, err error) {
	line, err := g.lines.ReadString('\n')
	if err != nil {
		return h, errors.Join(fmt.Errorf("readers of feeds: %w", err), g.leave())
	}
	if err = json.Unmarshal([]byte(line), &h); err == nil && h.Error != "" {
		err = fmt.Errorf("readers of feeds: %s", h.Error)
	}
	return h, err
}

// leave ends the audience, and waits for its end.
func (g *gathered) leave() error {
	_ = g.stdin.Close() // it may have ended
	_, _ = io.Copy(io.Discard, g.lines)
	if err := g.ended(); err != nil {
		return fmt.Errorf("readers of feeds: %w\n%s", err, g.stderr.String())
	}
	return nil
}
