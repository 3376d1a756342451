package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
)

// BenchmarkPublish measures what POST /events costs the server, over plain connections that cost little. Nothing is delivered.
func BenchmarkPublish(b *testing.B) {
	for _, bench := range []struct{ clients, batch int }{{1, 1}, {32, 1}, {1, 100}, {32, 100}} {
		b.Run(fmt.Sprintf("clients=%d/batch=%d", bench.clients, bench.batch), func(b *testing.B) {
			s := start(b, b.TempDir(), nil)
			all := make([]*plainConn, bench.clients)
			for i := range all {
				all[i] = dialPlain(b, s)
				defer all[i].close(b)
			}
			var paths atomic.Int64
			before := faulttest.CPU(b)
			b.ReportAllocs()
			b.ResetTimer()
			took := together(b, bench.clients, func(client, _ int) error {
				return all[client].publish(bench.batch, paths.Add(int64(bench.batch)))
			})
			b.StopTimer()
			events := float64(b.N * bench.batch)
			b.ReportMetric(float64((faulttest.CPU(b)-before).Microseconds())/events, "cpu-µs/event")
			b.ReportMetric(events/took.Seconds(), "events/s")
		})
	}
}

// plainConn is a connection to the API whose requests cost little.
type plainConn struct {
	net.Conn

	in   *bufio.Reader
	head string
	out  bytes.Buffer
	body bytes.Buffer
}

func dialPlain(tb testing.TB, s *running) *plainConn {
	tb.Helper()
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", strings.TrimPrefix(s.at.HTTP, "http://"))
	if err != nil {
		tb.Fatal(err)
	}
	return &plainConn{
		Conn: conn, in: bufio.NewReader(conn),
		head: "POST /v1/namespaces/default/events HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer " + s.token + "\r\nContent-Type: application/json\r\nContent-Length: ",
	}
}

func (c *plainConn) close(tb testing.TB) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Error(err)
	}
}

// publish sends n events of some 260 bytes in one request: the short form, and an array if there are several.
func (c *plainConn) publish(n int, number int64) error {
	c.body.Reset()
	for i := range int64(n) {
		fmt.Fprintf(&c.body, `,{"path":"/bench/p%d","type":"bench.published","data":{"number":%d,"pad":"%s"}}`, (number+i)%500, number, benchPad)
	}
	data := c.body.Bytes()[1:]
	if n > 1 {
		c.body.Bytes()[0] = '['
		c.body.WriteByte(']')
		data = c.body.Bytes()
	}
	c.out.Reset()
	fmt.Fprintf(&c.out, "%s%d\r\n\r\n", c.head, len(data))
	c.out.Write(data)
	if _, err := c.Write(c.out.Bytes()); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	err = errors.Join(err, res.Body.Close())
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return err
}

var benchPad = strings.Repeat("x", 220)
