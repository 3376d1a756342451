package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestSchedule_CallsMatchTheContract(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	action := sluice.Action{Path: "/lamps/1", Type: "lamp.on", Data: []byte(`{"on":true}`)}
	for _, tt := range []struct {
		name string
		call func(context.Context, *client.Client) error
		want string
		body string
		sent string // If-Match
	}{
		{"schedule", func(ctx context.Context, c *client.Client) error {
			_, err := c.Schedule(ctx, "acme", sluice.Event{ID: "i", Path: "/a", Type: "t", Extensions: map[string]string{"color": "red"}, Data: []byte("1")}, at)
			return err
		}, "POST /v1/namespaces/acme/events", `{"color":"red","datacontenttype":"application/json","deliverat":"2030-01-02T02:04:05.000000006Z","id":"i","path":"/a","source":"/sluice/client","specversion":"1.0","type":"t","data":1}`, ""},
		{"scheduled", func(ctx context.Context, c *client.Client) error {
			_, err := c.Scheduled(ctx, "acme", client.ScheduledQuery{Pattern: "/a/**", Limit: 5, Cursor: "x"})
			return err
		}, "GET /v1/namespaces/acme/scheduled?cursor=x&limit=5&pattern=%2Fa%2F%2A%2A", "", ""},
		{"one", func(ctx context.Context, c *client.Client) error {
			_, err := c.GetScheduled(ctx, "acme", "a/b")
			return err
		}, "GET /v1/namespaces/acme/scheduled/a%2Fb", "", ""},
		{"cancel", func(ctx context.Context, c *client.Client) error { return c.CancelScheduled(ctx, "acme", "a b") }, "DELETE /v1/namespaces/acme/scheduled/a%20b", "", ""},
		{"appointment", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutAppointment(ctx, "acme", "x", client.AppointmentSpec{At: at, Notice: sluice.Duration(time.Minute), MissPolicy: sluice.MissCatchUpWithin, Grace: sluice.Duration(time.Hour), Action: action}, 7)
			return err
		}, "PUT /v1/namespaces/acme/appointments/x", `{"at":"2030-01-02T03:04:05.000000006+01:00","notice":"1m0s","miss_policy":"catch_up_within","grace":"1h0m0s","action":{"path":"/lamps/1","type":"lamp.on","data":{"on":true}}}`, `"7"`},
		{"appointments", func(ctx context.Context, c *client.Client) error {
			_, err := c.Appointments(ctx, "acme", 5, "x")
			return err
		}, "GET /v1/namespaces/acme/appointments?cursor=x&limit=5", "", ""},
		{"one appointment", func(ctx context.Context, c *client.Client) error {
			_, err := c.GetAppointment(ctx, "acme", "x")
			return err
		}, "GET /v1/namespaces/acme/appointments/x", "", ""},
		{"cancel an appointment", func(ctx context.Context, c *client.Client) error { return c.CancelAppointment(ctx, "acme", "x") }, "DELETE /v1/namespaces/acme/appointments/x", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{200, "{}"})
			require.NoError(t, tt.call(t.Context(), s.Client))
			got := s.requests()[0]
			require.Equal(t, tt.want, got.line)
			require.Equal(t, tt.body, got.body)
			require.Equal(t, tt.sent, got.header.Get("If-Match"))
		})
	}
}

func TestSchedule_ReadsHeldAndStoredAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{202, `{"events":[{"id":"i","path":"/a","deliver_at":"2030-01-02T03:04:05Z","duplicate":true}]}`},
		answer{201, `{"events":[{"id":"i","seq":7,"path":"/a","duplicate":false}]}`})
	held, err := s.Schedule(t.Context(), "acme", sluice.Event{ID: "i", Path: "/a"}, time.Now())
	require.NoError(t, err)
	require.Equal(t, client.Held{ID: "i", Path: "/a", DeliverAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Duplicate: true}, held)
	held, err = s.Schedule(t.Context(), "acme", sluice.Event{ID: "i", Path: "/a"}, time.Now())
	require.NoError(t, err)
	require.Equal(t, client.Held{ID: "i", Path: "/a", Seq: 7}, held)
}
