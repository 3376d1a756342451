package mirrors

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Only the time of a client counts, and it begins anew with each MiB.
func TestPace_CountsTheTimeOfTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pace{within: time.Minute, left: time.Minute}
		var left time.Duration
		deadline := func(at time.Time) error {
			if !at.IsZero() {
				left = time.Until(at)
			}
			return nil
		}
		for _, part := range []struct {
			bytes       int
			takes, left time.Duration
		}{
			{leastPace - 1, 20 * time.Second, time.Minute},
			{0, 30 * time.Second, 40 * time.Second},
			{1, 9 * time.Second, 10 * time.Second},
			{10, 59 * time.Second, time.Minute},
			{10, 0, time.Second},
		} {
			n, err := p.transfer(deadline, func([]byte) (int, error) {
				<-time.After(part.takes)
				return part.bytes, nil
			}, nil)
			require.NoError(t, err)
			require.Equal(t, part.bytes, n)
			require.Equal(t, part.left, left)
			<-time.After(time.Hour) // the server stores it
		}
	})
}

// A client that sends nothing more, or a byte now and then, is told what to do; one that is gone needs nothing.
func TestPacedBody_EndsForSlowClients(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		within time.Duration
		send   func(t *testing.T, to net.Conn)
		code   sluice.Code
	}{
		{"stalls", 5 * time.Second, func(*testing.T, net.Conn) {}, sluice.Unavailable},
		{"trickles", 5 * time.Second, func(t *testing.T, to net.Conn) {
			t.Helper()
			ticker := time.NewTicker(time.Millisecond)
			defer ticker.Stop()
			for range ticker.C {
				if _, err := to.Write([]byte("x")); err != nil {
					return
				}
			}
		}, sluice.Unavailable},
		{"is gone", time.Minute, func(t *testing.T, to net.Conn) { t.Helper(); require.NoError(t, to.Close()) }, sluice.InvalidRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, refused := &Handler{paceTime: tt.within}, make(chan error, 1)
			e := echo.New()
			e.POST("/", func(c echo.Context) error {
				pace := s.newPace(c)
				defer pace.respond()
				_, err := io.ReadAll(pacedBody{c.Request().Body, pace})
				refused <- err
				return c.NoContent(httpkit.Status(sluice.CodeOf(err)))
			})
			server := httptest.NewServer(e)
			defer server.Close()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\nx"))
			require.NoError(t, err)
			done := make(chan struct{})
			go func() { defer close(done); tt.send(t, conn) }()
			err = <-refused
			require.Equal(t, tt.code, sluice.CodeOf(err), "%v", err)
			if tt.code == sluice.Unavailable {
				require.ErrorContains(t, err, "import it again")
				answer := make([]byte, len("HTTP/1.1 503"))
				_, err = io.ReadFull(conn, answer)
				require.NoError(t, err)
				require.Equal(t, "HTTP/1.1 503", string(answer))
			}
			_ = conn.Close()
			<-done
		})
	}
}

// A document has the time of any request.
func TestPacedBody_DocumentNamesTheOtherForm(t *testing.T) {
	t.Parallel()
	in, out := net.Pipe()
	defer func() { _ = in.Close(); _ = out.Close() }()
	require.NoError(t, in.SetReadDeadline(time.Now()))
	_, err := pacedBody{from: in}.Read(make([]byte, 1))
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.ErrorContains(t, err, "as a directory")
	_, err = pacedBody{from: http.MaxBytesReader(nil, io.NopCloser(zeros{}), 1)}.Read(make([]byte, 9))
	require.Equal(t, sluice.TooLarge, httpkit.Public(err).Code)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A namespace whose clients are slow leaves places for others, and those that wait get the places that are freed.
func TestPlaces_AreSharedByNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := httpkit.NewPlaces(transfersAtOnce, transfersOfOne)
		place := func(ns string) func() {
			leave, err := enter(t.Context(), p, ns)
			require.NoError(t, err)
			return leave
		}
		slow := []func(){place("slow"), place("slow")}
		_, err := enter(t.Context(), p, "slow")
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
		others := []func(){place("a"), place("b")}
		_, err = enter(t.Context(), p, "c")
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))

		entered := make(chan func())
		for _, ns := range []string{"slow", "c"} {
			go func() { entered <- place(ns) }()
		}
		synctest.Wait()
		slow[0]()
		first := <-entered
		others[0]()
		second := <-entered
		for _, leave := range []func(){slow[1], others[1], first, second} {
			leave()
		}
		for _, ns := range []string{"slow", "slow", "a", "a"} {
			require.Nil(t, p.Take(ns), "all places are free again")
		}
	})
}
