package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// AppointmentSpec describes an appointment.
type AppointmentSpec struct {
	At time.Time `json:"at,omitzero"`
	// Interval after which it fires again; default: it fires once.
	Every sluice.Duration `json:"every,omitzero"`
	// Recurring schedule in five fields; replaces At and Every.
	Cron string `json:"cron,omitempty"`
	// Time zone of Cron, such as Europe/Berlin; default UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// How long in advance appointment.approaching is published; default: never.
	Notice     sluice.Duration   `json:"notice,omitzero"`
	MissPolicy sluice.MissPolicy `json:"miss_policy,omitempty"` // default catch_up
	Grace      sluice.Duration   `json:"grace,omitzero"`        // for catch_up_within
	Action     sluice.Action     `json:"action"`
}

// PutAppointment creates or updates an appointment and returns it. Repeating the call changes
// nothing. With a revision, the appointment is changed only if that is its current one: code
// RevisionMismatch. Codes Conflict if it is firing; QuotaExceeded.
func (c *Client) PutAppointment(ctx context.Context, namespace, id string, spec AppointmentSpec, revision uint64) (sluice.Appointment, error) {
	req := call{method: http.MethodPut, path: join(namespaces, namespace, "appointments", id)}
	if revision > 0 {
		req.header = map[string]string{"If-Match": strconv.Quote(strconv.FormatUint(revision, 10))}
	}
	return send[sluice.Appointment](ctx, c, req, spec)
}

// Appointments returns the appointments of a namespace, soonest first. Limit and cursor may be
// zero; the cursor is Page.Next of the previous page.
func (c *Client) Appointments(ctx context.Context, namespace string, limit int, cursor string) (Page[sluice.Appointment], error) {
	return list[sluice.Appointment](ctx, c, join(namespaces, namespace, "appointments"), "appointments", params("limit", number(limit), "cursor", cursor))
}

// GetAppointment returns an appointment. Code NotFound.
func (c *Client) GetAppointment(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	return send[sluice.Appointment](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "appointments", id)}, nil)
}

// CancelAppointment cancels an appointment: without an error, a pending appointment never fires.
// Codes NotFound; Conflict if it is firing.
func (c *Client) CancelAppointment(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "appointments", id)}, nil)
	return err
}
